//! Redis' memory: usage, limit, and the policy for a full memory.

use fencepost_trial::text::numbers::count;

use super::super::rules::Figures;
use super::readings::Readings;

/// The share of the limit from which the memory counts as nearly full.
const NEARLY_FULL: f64 = 0.9;

pub(super) fn policy(read: &Readings) -> Option<&str> {
    read.get("maxmemory_policy")
}

pub(super) fn may_evict(read: &Readings) -> bool {
    policy(read).is_some_and(|policy| policy != "noeviction")
}

fn used(read: &Readings) -> i64 {
    read.number("used_memory").unwrap_or(0)
}

/// Returns the memory limit in bytes; 0 means no limit.
pub(super) fn limit(read: &Readings) -> i64 {
    read.number("maxmemory").unwrap_or(0)
}

pub(super) fn evicted(read: &Readings) -> i64 {
    read.number("evicted_keys").unwrap_or(0)
}

pub(super) fn is_nearly_full(read: &Readings) -> bool {
    used(read) as f64 >= limit(read) as f64 * NEARLY_FULL
}

pub(super) fn usage(read: &Readings) -> String {
    let (used, limit) = (mebibytes(used(read)), mebibytes(limit(read)));
    format!("{used} of {limit} MiB used")
}

/// Formats a number of bytes in MiB, like `64.0`.
pub(super) fn mebibytes(bytes: i64) -> String {
    let tenths = (bytes as f64 / 104_857.6).round() as i64;
    format!("{}.{}", count(tenths / 10), tenths % 10)
}

pub(super) fn memory_figures(read: &Readings) -> Figures {
    vec![
        ("policy", policy(read).unwrap_or_default().into()),
        ("used_bytes", used(read).into()),
        ("limit_bytes", limit(read).into()),
        ("evicted_keys", evicted(read).into()),
    ]
}
