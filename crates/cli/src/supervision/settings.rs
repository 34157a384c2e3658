//! The checks of the arguments that `exec`, `elect` and `once` share.

use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use fencepost::{LockName, MAX_TTL};

use super::{DEFAULT_GRACE, margin};
use crate::command_error::CommandError;
use crate::exit;
use crate::wording::seconds;

/// The shortest TTL. With a shorter one, stopping the command could take longer than the lease.
const MIN_TTL: Duration = Duration::from_millis(500);

/// Checks the name of a lock. `example` is a command line that has one.
pub(crate) fn checked_name(
    name: Option<String>,
    what: &str,
    example: &str,
) -> Result<LockName, CommandError> {
    let refused = |why: String| Err(usage(why).at("--name").try_this(example));
    let Some(name) = name else {
        return refused(format!("{what} is missing"));
    };
    match LockName::new(&name) {
        Ok(name) => Ok(name),
        Err(error) => refused(error.message().to_owned()),
    }
}

/// Checks that there is a command.
pub(crate) fn checked_command(
    command: Vec<OsString>,
    example: &str,
) -> Result<Vec<OsString>, CommandError> {
    if command.is_empty() {
        let missing = usage("a command to run is missing");
        return Err(missing.at("after --").try_this(example));
    }
    Ok(command)
}

/// Checks a time that is, or limits, the length of a lease. `noun` and `flag` are its names.
pub(crate) fn checked_ttl(
    ttl: Duration,
    (noun, flag): (&str, &str),
    advice: &str,
) -> Result<Duration, CommandError> {
    if (MIN_TTL..=MAX_TTL).contains(&ttl) {
        return Ok(ttl);
    }
    let shown = humantime::format_duration(ttl);
    let which = if ttl < MIN_TTL { "short" } else { "long" };
    Err(usage(format!("{noun} of {shown} is too {which}"))
        .at(format_args!("{flag} {shown}"))
        .try_this(advice))
}

/// Checks the grace, or chooses one. `limit` is the time within which the command must be gone, and its names.
pub(crate) fn checked_grace(
    grace: Option<Duration>,
    limit: Duration,
    (noun, flag): (&str, &str),
) -> Result<Duration, CommandError> {
    let longest = (limit / 2).saturating_sub(margin(limit));
    let grace = grace.unwrap_or(DEFAULT_GRACE.min(limit / 5).min(longest));
    if grace <= longest {
        return Ok(grace);
    }
    let shown = humantime::format_duration(grace);
    // Grace plus margin fill half of the time, and the margin is a twentieth of it plus a constant.
    let room = (grace + margin(Duration::ZERO)).as_secs_f64() / 0.45;
    let room = Duration::from_secs_f64(room.ceil());
    let too_long = format!(
        "a grace of {shown} is too long for {noun} of {}",
        seconds(limit)
    );
    Err(usage(too_long)
        .at(format_args!("--grace {shown}"))
        .try_this(format_args!(
            "--grace {}ms, or {flag} {}: the command must be gone before the lease ends",
            longest.as_millis(),
            humantime::format_duration(room)
        )))
}

fn usage(what: impl fmt::Display) -> CommandError {
    CommandError::new(exit::USAGE, what.to_string())
}
