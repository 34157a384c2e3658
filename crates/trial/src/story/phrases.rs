//! The wording of every event, in a brief form for lanes and a full form for sentences.
//!
//! The brief form omits the name of the process, because it stands in the lane of that process. The full form has no final full
//! stop.

use std::cmp::Ordering;
use std::fmt::Display;

use crate::history::fence::{compare, relation_sign};
use crate::history::{Fault, What};
use crate::protocol::{Action, PurchaseOutcome};
use crate::text::numbers::{ShortFences, count, decimal, plural};

/// The two forms of a phrase.
pub(super) struct Phrase {
    pub(super) brief: String,
    pub(super) full: String,
}

fn phrase(brief: impl Into<String>, full: impl Into<String>) -> Phrase {
    Phrase {
        brief: brief.into(),
        full: full.into(),
    }
}

/// Returns how to refer to a lock in a sentence: by its name if there are several.
fn lock(key: Option<&str>) -> &str {
    key.unwrap_or("the lock")
}

/// Says that a process asks for a lock. `key` is its name if there are several.
pub(super) fn asks(name: &str, key: Option<&str>, waits: bool) -> Phrase {
    let brief = key.map_or_else(|| "waits".to_owned(), |key| format!("waits for {key}"));
    let waits = if waits { " and waits" } else { "" };
    phrase(brief, format!("{name} asks for {}{waits}", lock(key)))
}

/// Says that a process is granted a lock. `fence` is omitted if nothing checks it.
pub(super) fn granted(name: &str, key: Option<&str>, fence: Option<&str>) -> Phrase {
    let of = key.map_or_else(String::new, |key| format!(" {key}"));
    let (brief, full) = match fence {
        Some(fence) => (format!(", fence {fence}"), format!(", with fence {fence}")),
        None => (String::new(), String::new()),
    };
    phrase(
        format!("granted{of}{brief}"),
        format!("{name} is granted {}{full}", lock(key)),
    )
}

/// Says that a process does not get a lock. `gave_up` says how long it waited, if it did.
pub(super) fn refused(name: &str, key: Option<&str>, gave_up: Option<String>) -> Phrase {
    let brief = gave_up.unwrap_or_else(|| "tries once: refused".into());
    phrase(brief, format!("{name} is refused {}", lock(key)))
}

/// Says that the latest time at which a lease ends has come.
pub(super) fn lease_over(name: &str, key: Option<&str>) -> Phrase {
    let of = key.map_or_else(String::new, |key| format!(" of {key}"));
    phrase(
        format!("lease over by now; {name} does not know"),
        format!("{name}'s lease{of} is over by now; {name} does not know"),
    )
}

/// Describes a step that was executed on the register.
pub(super) fn step(name: &str, action: Action, value: i64, serial: u64) -> Phrase {
    let value = count(value);
    phrase(
        format!("{} {value}", verb(action)),
        format!("{} (op {serial})", does(name, action, &value)),
    )
}

/// Returns words such as "A writes 1".
pub(super) fn does(name: &str, action: Action, value: &str) -> String {
    format!("{name} {} {value}", verb(action))
}

fn verb(action: Action) -> &'static str {
    match action {
        Action::Read => "reads",
        Action::Write => "writes",
    }
}

/// The fences of a step that the register refused.
#[derive(Clone, Copy)]
pub(super) struct RefusedFences<'a> {
    /// The fence of the step.
    pub(super) own: Option<&'a str>,
    /// The highest fence that the number had seen.
    pub(super) highest: Option<&'a str>,
    /// All fences of the trial, by which long ones are shortened.
    pub(super) among: ShortFences<'a>,
}

/// Describes a step that the register refused because of its fence.
pub(super) fn step_refused(
    name: &str,
    action: Action,
    fences: RefusedFences<'_>,
    serial: u64,
) -> Phrase {
    let verb = match action {
        Action::Read => "read",
        Action::Write => "write",
    };
    let short = |fence: Option<&str>| fences.among.shorten(fence.unwrap_or("none"));
    let (own, highest) = (short(fences.own), short(fences.highest));
    let Some((full_own, full_highest)) = fences.own.zip(fences.highest) else {
        let full = format!("{name}'s step is refused (op {serial})");
        return phrase(format!("– {verb} refused: {own} < {highest}"), full);
    };
    let sign = relation_sign(fences.own, full_highest);
    let relation = match compare(full_own, full_highest) {
        Some(Ordering::Equal) => format!("equals {highest}, which another hold has shown"),
        Some(_) => format!("is below {highest}"),
        None => format!("cannot be compared with {highest}"),
    };
    phrase(
        format!("– {verb} refused: {own} {sign} {highest}"),
        format!("{name}'s {verb} is refused: its fence {own} {relation} (op {serial})"),
    )
}

/// Says that a subject declines a step.
pub(super) fn declined(name: &str) -> Phrase {
    phrase(
        "declines: its lock is lost",
        format!("{name} declines to go on: it knows, or cannot rule out, that its lock is lost"),
    )
}

/// Says that a subject reports that its lock is lost.
pub(super) fn lost(name: &str) -> Phrase {
    let learns = "learns that its lock is lost";
    phrase(learns, format!("{name} {learns}"))
}

/// Describes a release that came too late.
pub(super) fn released_too_late(name: &str, key: Option<&str>) -> Phrase {
    phrase(
        "release: no longer the owner",
        format!("{name} releases {}, which is no longer its own", lock(key)),
    )
}

/// Describes a release that was answered. The lane shows it only if it took a while.
pub(super) fn released(name: &str, key: Option<&str>) -> Phrase {
    phrase(
        "its release is done",
        format!("{name} releases {}", lock(key)),
    )
}

/// Says that a subject halts between two steps of acquiring, or of releasing.
pub(super) fn reached(name: &str, step: u32, of: u32, what: &str, in_release: bool) -> Phrase {
    let place = if in_release { "release, step" } else { "step" };
    phrase(
        format!("{place} {step} of {of}: {what}"),
        format!("{}: {what}", reached_step(name, step, of)),
    )
}

/// Returns words such as "A has done step 1 of 2".
pub(super) fn reached_step(name: &str, step: impl Display, of: impl Display) -> String {
    format!("{name} has done step {step} of {of}")
}

/// Says that the lab kills, stops or continues a process, or comes between it and its store; `reached` is the step after which it had
/// halted.
pub(super) fn fault(name: &str, fault: Fault, reached: Option<u32>) -> Phrase {
    match fault {
        Fault::Killed => {
            let before = reached.map_or_else(String::new, |step| {
                format!(", before step {}", step.saturating_add(1))
            });
            phrase(
                format!("✗ SIGKILL{before}"),
                format!("The lab kills {name} (SIGKILL) and sees it die"),
            )
        }
        Fault::Stopped => phrase("SIGSTOP: paused", format!("The lab stops {name} (SIGSTOP)")),
        Fault::Continued => phrase(
            "SIGCONT: goes on",
            format!("The lab lets {name} go on (SIGCONT)"),
        ),
        Fault::CutOff => phrase(
            "cut off from its store",
            format!(
                "The lab cuts {name} off from its store: nothing passes, and nothing is closed"
            ),
        ),
        Fault::RepliesCut => phrase(
            "no reply reaches it from here on",
            format!("The lab lets no reply of the store reach {name}; its requests still arrive"),
        ),
        Fault::RequestsCut => phrase(
            "no request of it arrives from here on",
            format!(
                "The lab lets no request of {name} reach its store; what the store sends still arrives"
            ),
        ),
        Fault::PassedOneWay => phrase(
            "something passes the other way",
            format!("Something passes between {name} and its store, in the direction that is open"),
        ),
        Fault::Reconnected => phrase(
            "reaches its store again",
            format!("{name} reaches its store again"),
        ),
        Fault::Slowed => phrase(
            "replies come late from here on",
            format!("The lab delays every reply of the store to {name}"),
        ),
        Fault::Distant => phrase(
            "every message takes longer from here on",
            format!("The lab delays every message between {name} and its store"),
        ),
        Fault::ConnectionsDead => phrase(
            "✗ its connections die silently",
            format!("The lab lets {name}'s connections to its store die silently; new ones work"),
        ),
        Fault::Vanished => phrase(
            "✗ its machine is gone from the network",
            format!(
                "The lab lets {name}'s machine vanish: nothing passes, and no connection of {name}'s is closed"
            ),
        ),
        Fault::ClockAhead => phrase(
            "its clock jumps 1 h forward",
            format!("The lab sets the time of day of {name} an hour forward"),
        ),
        Fault::ClockBehind => phrase(
            "its clock jumps 1 h back",
            format!("The lab sets the time of day of {name} an hour back"),
        ),
        Fault::ClockFast => phrase(
            "its clock runs fast",
            format!("The lab lets the time of day of {name} run a thousand times as fast"),
        ),
        Fault::ClockRight => phrase(
            "its clock is right again",
            format!("The time of day of {name} is right again"),
        ),
        Fault::ClockRead => phrase("asks for the time", format!("{name} asks for the time")),
        Fault::Suspended => phrase(
            "its CLOCK_MONOTONIC stopped",
            format!(
                "The lab shows {name} a machine that was suspended: CLOCK_MONOTONIC did not advance"
            ),
        ),
        Fault::ReplyLost => phrase(
            "✗ reply lost, connection cut",
            format!("A reply of the store to {name} is lost, and its connection cut"),
        ),
        Fault::AnsweredOom | Fault::AnsweredReadOnly | Fault::AnsweredLoading => {
            refused_by_store(name, fault.error().unwrap_or_default())
        }
        Fault::AnsweredUpstream => phrase(
            "✗ -upstream failure; carried out",
            format!(
                "The store carries {name}'s request out, and the lab answers -upstream failure"
            ),
        ),
        Fault::ReplyArrives => phrase(
            "the first late reply arrives",
            format!("The first of the late replies to {name} arrives"),
        ),
        Fault::ReplyHeld => phrase(
            "reply held back",
            format!("The lab holds a reply of the store to {name} back"),
        ),
        Fault::WriteHeld => phrase(
            "sends its write: it is delayed",
            format!("{name} sends its write, and the lab holds it back on its way"),
        ),
        Fault::OverReleased => phrase(
            "releases it once more",
            format!("{name} is asked to release once more what it has released"),
        ),
        Fault::SamePid => phrase(
            "comes back with the same process id",
            format!("{name} is started, with the process id of the one that was killed"),
        ),
        Fault::ReplyDelivered => phrase(
            "reply delivered",
            format!("The lab delivers the reply to {name}"),
        ),
    }
}

/// Describes an error with which the lab answers in place of the store.
fn refused_by_store(name: &str, error: &str) -> Phrase {
    phrase(
        format!("✗ {error} from the store"),
        format!("The lab answers {name} with {error}, and the store does not get the request"),
    )
}

/// Describes a request that failed.
pub(super) fn failed(name: &str, message: &str) -> Phrase {
    phrase(format!("? {message}"), format!("{name} fails: {message}"))
}

/// Says that the lab adds units to the stock.
pub(super) fn stock_set(units: i64) -> Phrase {
    let came = plural(
        usize::try_from(units).unwrap_or(0),
        "unit comes in",
        "units come in",
    );
    phrase(came, format!("The lab sets the stock to {}", count(units)))
}

/// Says that a process is asked to buy.
pub(super) fn asked_to_buy(name: &str) -> Phrase {
    phrase("waits to buy", format!("{name} is asked to buy"))
}

/// Describes the answer of a buyer. `long` means after a wait; `leaves` means that the sale asks nobody again.
pub(super) fn bought(name: &str, outcome: PurchaseOutcome, long: bool, leaves: bool) -> Phrase {
    let leaves = if leaves { " and goes away" } else { "" };
    match outcome {
        PurchaseOutcome::Sold => phrase("buys: sold", format!("{name} buys a unit")),
        PurchaseOutcome::Busy => phrase(
            if long {
                "gives up: 3 × TTL"
            } else {
                "tries once: busy"
            },
            format!("{name} finds the lock taken{leaves}"),
        ),
        PurchaseOutcome::NoStock => phrase(
            "buys: no stock",
            format!("{name} gets its turn and finds nothing left"),
        ),
        PurchaseOutcome::Unknown => phrase(
            "buys: cannot tell",
            format!("{name} cannot tell whether it bought"),
        ),
    }
}

/// Says that a process is granted a lock without the store.
pub(super) fn unseen(name: &str) -> String {
    format!("Nothing came from the store to {name} through its address: {name} went around it")
}

/// Says that the lab stops waiting.
pub(super) fn gave_up(why: &str) -> Phrase {
    let full = "The lab stops waiting";
    match why {
        "" => phrase("gives up", full),
        // "for the end of the storm: 21 requests failed" continues the sentence.
        why if why.starts_with("for ") => {
            phrase(format!("gives up waiting {why}"), format!("{full} {why}"))
        }
        why => phrase(format!("gives up: {why}"), format!("{full}: {why}")),
    }
}

/// Says that the lab itself stalled.
pub(super) fn stalled(for_ms: &str) -> Phrase {
    let what = format!("lab stalled for {for_ms} ms");
    phrase(format!("the {what}"), format!("The {what}"))
}

/// Says that the machine was suspended.
pub(super) fn slept(for_ms: &str) -> Phrase {
    let what = format!("machine was suspended for {for_ms} ms");
    phrase(format!("the {what}"), format!("The {what}"))
}

/// Says that the lab reads the stock.
pub(super) fn stock_read(units: &str) -> String {
    format!("The lab reads the stock: {units}")
}

/// The lab inspects the store for a lock.
pub(super) const LOOKS_AT_STORE: &str = "The lab looks at the store";

/// Says that the lab sees a lock in the store.
pub(super) fn stored(key: &str, taken: bool, ttl_left_ms: Option<f64>) -> String {
    let found = match (taken, ttl_left_ms) {
        (false, _) => format!("{key} is free"),
        (true, None) => format!("{key} is taken, and has no expiry"),
        (true, Some(ms)) => format!("{key} is taken, for {ms:.1} ms more"),
    };
    format!("{LOOKS_AT_STORE}: {found}")
}

/// Returns the label of an event in a trace.
pub(crate) fn label(what: &What) -> String {
    match what {
        What::StockSet { units } => format!("sets the stock to {units}"),
        What::StockRead { units } => format!("reads the stock: {units}"),
        What::Register {
            serial,
            action,
            value,
            refused,
            ..
        } => {
            let refused = if *refused { ", refused" } else { "" };
            format!("op {serial}: {} {value}{refused}", verb(*action))
        }
        What::Reached { step, of, what, .. } => format!("step {step} of {of}: {what}"),
        What::StoreRead { taken: true, .. } => "looks at the store: taken".into(),
        What::StoreRead { taken: false, .. } => "looks at the store: free".into(),
        What::Server { server, change } => change.describe(server, false),
        What::GaveUp { why } => gave_up(why).brief,
        What::Stalled { for_ms } => format!("stalled for {} ms", decimal(*for_ms)),
        What::Slept { for_ms } => slept(&decimal(*for_ms)).brief,
        // Every other event: its name in histories, in plain words.
        other => serde_json::to_value(other)
            .ok()
            .and_then(|value| value["event"].as_str().map(|name| name.replace('_', " ")))
            .unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lab_stops_waiting_for_something_or_because_of_something() {
        let storm = gave_up("for the end of the storm: 21 requests failed");
        assert_eq!(
            storm.full,
            "The lab stops waiting for the end of the storm: 21 requests failed"
        );
        let unready = gave_up("C did not get ready: it ended with 4");
        assert_eq!(
            unready.full,
            "The lab stops waiting: C did not get ready: it ended with 4"
        );
    }

    #[test]
    fn a_refused_step_says_how_its_fence_compares() {
        for (own, highest, brief, full) in [
            (
                Some("9.0"),
                "10.0",
                "9.0 < 10.0",
                "is refused: its fence 9.0 is below 10.0 (op 3)",
            ),
            (
                Some("41"),
                "41.0",
                "41 = 41.0",
                "is refused: its fence 41 equals 41.0, which another hold has shown (op 3)",
            ),
            (
                Some("eleven"),
                "10.0",
                "eleven != 10.0",
                "is refused: its fence eleven cannot be compared with 10.0 (op 3)",
            ),
            (None, "10.0", "none < 10.0", "is refused (op 3)"),
        ] {
            let fences = RefusedFences {
                own,
                highest: Some(highest),
                among: ShortFences::default(),
            };
            let said = step_refused("A", Action::Write, fences, 3);
            assert_eq!(said.brief, format!("– write refused: {brief}"));
            assert!(said.full.ends_with(full), "{}", said.full);
        }
    }
}
