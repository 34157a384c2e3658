//! The messages that a supervisor prints to standard error. Each is a complete line, since it appears among the command's own output.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use fencepost::backend::{Holder, Record};
use fencepost::clock::Moment;
use fencepost::{ErrorKind, LockName, LostReason};

use crate::wording::{age, held_by, seconds, time_of_day};

/// A line without the prefix `fencepost: `.
pub(crate) type Spoken = String;

/// Prints a line to standard error. If that is closed, there is nowhere left to report to.
pub(crate) fn say(line: impl AsRef<str>) {
    let _ = writeln!(io::stderr().lock(), "fencepost: {}", line.as_ref());
}

/// Says who holds the lock: `deploy is held by web-2, process 4121, for 41 s (lease 8.8 s left, kept alive)`
pub(crate) fn busy(name: &LockName, record: Option<&Record>, now: Moment) -> Spoken {
    let Some(record) = record else {
        return format!("{name} was held a moment ago, and is free by now");
    };
    match &record.holder {
        Some(holder) => format!(
            "{name} is held by {}{}",
            held_by(holder, now),
            lease(holder, now)
        ),
        None => format!(
            "{name} is free, but {} came first",
            people(record.waiting.len())
        ),
    }
}

/// Describes the lease. It was renewed if the hold is older than the TTL.
fn lease(holder: &Holder, now: Moment) -> String {
    let Some(left) = holder.ttl_left else {
        return " (no expiry)".to_owned();
    };
    let is_renewed = holder
        .ttl
        .zip(holder.since)
        .is_some_and(|(ttl, since)| now.saturating_duration_since(since) > ttl);
    let kept = if is_renewed { ", kept alive" } else { "" };
    format!(" (lease {} left{kept})", seconds(left))
}

/// Says what is waited for: `waiting for deploy, held by web-2, process 4121, for 41 s; 2 are ahead`
///
/// If the store has no queue, it is unknown who is ahead.
pub(crate) fn waiting(
    name: &LockName,
    record: &Record,
    (now, has_line): (Moment, bool),
    own_label: &str,
) -> Spoken {
    let holder = match &record.holder {
        // The store has recorded the grant but not confirmed it yet; it may wait for a disk or a standby.
        Some(holder) if *holder.label == *own_label => {
            return format!("waiting for the store to confirm that {name} is ours");
        }
        Some(holder) => format!(", held by {}", held_by(holder, now)),
        None => String::new(),
    };
    let ahead = record
        .waiting
        .iter()
        .position(|waiter| &*waiter.label == own_label);
    let ahead = match ahead {
        _ if !has_line => "there is no line: chance decides who is next".to_owned(),
        None | Some(0) => "next in line".to_owned(),
        Some(1) => "1 is ahead".to_owned(),
        Some(many) => format!("{many} are ahead"),
    };
    format!("waiting for {name}{holder}; {ahead}")
}

fn people(count: usize) -> String {
    match count {
        1 => "1 other".to_owned(),
        many => format!("{many} others"),
    }
}

/// Explains why the command was paused: it may not use the terminal now.
pub(super) fn shares_the_terminal(program: &str) -> Spoken {
    format!(
        "{program} is paused: it needs the terminal, which it cannot have to itself here. The lock is still held"
    )
}

/// Why the lock is lost, or is about to be.
#[derive(Debug, Clone)]
pub(super) enum Cause {
    /// The store reported it.
    Told(LostReason),
    /// This process was paused for this long.
    Frozen(Duration),
    /// Renewals fail: for how long, how many, and the last error.
    Silence {
        silent: Duration,
        failed: u32,
        kind: ErrorKind,
        last: String,
    },
    /// A renewal is under way, without an answer yet.
    Unanswered(Duration),
    /// Renewals succeed again, but the command had to be stopped; contains the time without a renewal.
    TooLate(Duration),
    /// The lock was held for this long, and may be held no longer.
    OverTime(Duration),
}

/// Says that and why the lock is lost: `LOST deploy at 03:12:44 UTC: no answer from the store for 7.6 s, 4 renewals failed`
pub(super) fn lost(name: &LockName, at: SystemTime, cause: &Cause) -> Spoken {
    let at = time_of_day(at);
    let why = match cause {
        Cause::OverTime(most) => {
            return format!(
                "OUT OF TIME {name} at {at}: it may run for at most {}",
                seconds(*most)
            );
        }
        Cause::Told(LostReason::Gone) => {
            "the store says that we no longer hold it: released by force, or forgotten".to_owned()
        }
        Cause::Told(_) => "its lease ended".to_owned(),
        Cause::Frozen(time) => format!("fencepost itself was paused for {}", age(*time)),
        Cause::Silence {
            silent,
            failed,
            kind,
            last,
        } => {
            let failed = match failed {
                1 => "1 renewal failed".to_owned(),
                many => format!("{many} renewals failed"),
            };
            match kind {
                ErrorKind::Timeout => format!(
                    "no answer from the store for {}, {failed}",
                    seconds(*silent)
                ),
                _ => format!("not renewed for {}, {failed}: {last}", seconds(*silent)),
            }
        }
        Cause::Unanswered(silent) => format!(
            "no answer from the store for {}, the renewal is still under way",
            seconds(*silent)
        ),
        Cause::TooLate(silent) => format!(
            "the renewal came too late: there was none for {}, and the command was stopped",
            seconds(*silent)
        ),
    };
    format!("LOST {name} at {at}: {why}")
}

/// How the command was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ending {
    /// When SIGTERM was sent, if at all.
    pub(super) asked_at: Option<Moment>,
    /// When SIGKILL was sent, if at all.
    pub(super) killed_at: Option<Moment>,
    pub(super) gone_at: Moment,
    /// When the lock ended; `None` if it was released by force at an unknown moment.
    pub(super) valid_until: Option<Moment>,
}

/// Says how the command was stopped: `./deploy.sh and all it started: SIGTERM, gone after 0.3 s, 2.1 s before the lease ends`
pub(super) fn stopped(program: &str, ending: &Ending) -> Spoken {
    let began = ending
        .asked_at
        .or(ending.killed_at)
        .unwrap_or(ending.gone_at);
    let how = match (ending.asked_at, ending.killed_at) {
        (Some(asked), Some(killed)) => {
            format!(
                "SIGTERM, SIGKILL after {}",
                seconds(killed.saturating_duration_since(asked))
            )
        }
        (None, Some(_)) => "SIGKILL".to_owned(),
        _ => "SIGTERM".to_owned(),
    };
    let gone = seconds(ending.gone_at.saturating_duration_since(began));
    let when = match ending.valid_until {
        None => "; another may have run meanwhile".to_owned(),
        Some(end) if ending.gone_at <= end => {
            format!(
                ", {} before the lease ends",
                seconds(end.saturating_duration_since(ending.gone_at))
            )
        }
        Some(end) if began <= end => {
            let late = seconds(ending.gone_at.saturating_duration_since(end));
            format!(", {late} after the lease ended: another may have run")
        }
        Some(end) => {
            let late = seconds(began.saturating_duration_since(end));
            format!("; the lease ended {late} before the stop: another may have run")
        }
    };
    format!("{program} and all it started: {how}, gone after {gone}{when}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn the_holder_is_not_named_as_its_own_waiter() {
        let name = LockName::new("deploy").unwrap();
        let held_by = |label: &str| Record::new(Some(Holder::new(label)), Vec::new());
        let said = |label| waiting(&name, &held_by(label), (at(0), true), "web-1, process 7");
        let other = said("web-2, process 4121");
        assert!(other.contains("held by web-2, process 4121"), "{other}");
        assert_eq!(
            said("web-1, process 7"),
            "waiting for the store to confirm that deploy is ours"
        );
    }

    #[test]
    fn a_stop_says_how_and_how_late() {
        let ending = Ending {
            asked_at: Some(at(7_600)),
            killed_at: None,
            gone_at: at(7_900),
            valid_until: Some(at(10_000)),
        };
        let said = |ending: Ending| stopped("./deploy.sh", &ending);
        assert_eq!(
            said(ending),
            "./deploy.sh and all it started: SIGTERM, gone after 0.3 s, 2.1 s before the lease ends"
        );
        let killed = Ending {
            killed_at: Some(at(9_600)),
            gone_at: at(9_700),
            ..ending
        };
        assert_eq!(
            said(killed),
            "./deploy.sh and all it started: SIGTERM, SIGKILL after 2.0 s, gone after 2.1 s, 0.3 s before the lease ends"
        );
        let late = Ending {
            asked_at: None,
            killed_at: Some(at(13_100)),
            gone_at: at(13_100),
            ..ending
        };
        assert_eq!(
            said(late),
            "./deploy.sh and all it started: SIGKILL, gone after 0.0 s; the lease ended 3.1 s before the stop: another may have run"
        );
    }

    #[test]
    fn a_loss_says_why() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(3 * 3600 + 12 * 60 + 44);
        let name = LockName::new("deploy").unwrap();
        let silence = Cause::Silence {
            silent: Duration::from_millis(7_600),
            failed: 4,
            kind: ErrorKind::Timeout,
            last: "the store did not answer in time".into(),
        };
        assert_eq!(
            lost(&name, time, &silence),
            "LOST deploy at 03:12:44 UTC: no answer from the store for 7.6 s, 4 renewals failed"
        );
        let unanswered = Cause::Unanswered(Duration::from_millis(2_600));
        assert!(
            lost(&name, time, &unanswered).ends_with("for 2.6 s, the renewal is still under way")
        );
        let late = Cause::TooLate(Duration::from_millis(1_400));
        assert!(lost(&name, time, &late).ends_with("none for 1.4 s, and the command was stopped"));
        let over = Cause::OverTime(Duration::from_secs(1800));
        assert_eq!(
            lost(&name, time, &over),
            "OUT OF TIME deploy at 03:12:44 UTC: it may run for at most 30 min"
        );
        let cause = Cause::Told(LostReason::Gone);
        assert!(lost(&name, time, &cause).ends_with("released by force, or forgotten"));
    }
}
