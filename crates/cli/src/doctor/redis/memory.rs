//! Whether Redis may delete a lock that is held, and whether there is room for one.

use fencepost_trial::text::numbers::count;

use super::super::finding::{Finding, Harm};
use super::{Known, mebibytes};

/// From here on a limit is near.
const NEARLY_FULL: f64 = 0.9;

pub(super) fn judge(known: &Known) -> Vec<Finding> {
    let Some(policy) = known.get("maxmemory_policy") else {
        return Vec::new();
    };
    let number = |name| known.number(name).unwrap_or(0);
    let memory = Memory {
        policy,
        used: number("used_memory"),
        limit: number("maxmemory"),
        evicted: number("evicted_keys"),
    };
    vec![memory.finding()]
}

struct Memory<'a> {
    policy: &'a str,
    used: i64,
    /// 0: none.
    limit: i64,
    evicted: i64,
}

impl Memory<'_> {
    fn finding(&self) -> Finding {
        let finding = match (self.policy, self.limit) {
            ("noeviction", 0) => Finding::fine("eviction", "noeviction"),
            ("noeviction", _) if self.is_nearly_full() => self.nearly_full(),
            ("noeviction", _) => Finding::fine("eviction", format!("noeviction, {}", self.usage())),
            (_, 0) => self.would_evict(),
            _ => self.evicts(),
        };
        finding
            .figure("policy", self.policy)
            .figure("used_bytes", self.used)
            .figure("limit_bytes", self.limit)
            .figure("evicted_keys", self.evicted)
    }

    fn evicts(&self) -> Finding {
        let evicted = match self.evicted {
            0 => "no key evicted so far".to_owned(),
            1 => "1 key evicted".to_owned(),
            keys => format!("{} keys evicted", count(keys)),
        };
        let what = format!(
            "maxmemory-policy {}; {}, {evicted}",
            self.policy,
            self.usage()
        );
        let first = match self.policy.starts_with("volatile-") {
            true => " It deletes keys with a TTL only, and every lock has one.",
            false => "",
        };
        let means = format!("Redis may delete a lock that is held; then two hold it.{first}");
        let limit = mebibytes(self.limit);
        Finding::danger("eviction", Harm::Vanishes, what).means(means).advice(format!(
            "give locks a Redis of their own with noeviction. Here, noeviction would make writes fail at {limit} MiB: \
             raise maxmemory before you set it."
        ))
    }

    fn would_evict(&self) -> Finding {
        let what = format!("maxmemory-policy {}, without a limit so far", self.policy);
        Finding::caution("eviction", Harm::Hampered, what)
            .means("Nothing is deleted now. Once somebody sets maxmemory, locks that are held are.")
            .advice("noeviction, or a Redis for locks alone, before there is a limit")
    }

    fn nearly_full(&self) -> Finding {
        let what = format!("noeviction, and {}", self.usage());
        Finding::caution("memory", Harm::Hampered, what)
            .means("When it is full, writes fail: nobody gets a lock, and none can be renewed.")
            .advice("raise maxmemory, as far as the machine has memory, or move other data away")
    }

    fn usage(&self) -> String {
        format!(
            "{} of {} MiB used",
            mebibytes(self.used),
            mebibytes(self.limit)
        )
    }

    fn is_nearly_full(&self) -> bool {
        self.used as f64 >= self.limit as f64 * NEARLY_FULL
    }
}
