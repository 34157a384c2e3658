//! Exports the phrases for the viewer, with `{…}` placeholders.
//!
//! The scripts of the report page and of the live page read them from the viewer's `words.js`. That file is a copy of what
//! [`words`] returns. A test compares the two, so the viewer uses the same words for an event as the terminal.
//!
//! The viewer also draws bars: a hold, a wait, a purchase, a lease. Each spans several events, and the terminal has no counterpart.
//! Their titles and labels are the viewer's own, in `describe.js`.

use serde_json::{Map, Value, json};

use super::phrases;
use crate::history::{Change, Fault};
use crate::protocol::{Action, PurchaseOutcome};

/// The placeholder for the process.
const WHO: &str = "{who}";

/// Returns the viewer's phrase for each kind of event.
fn words() -> Value {
    let bought = |outcome| phrases::bought(WHO, outcome, false, false).full;
    json!({
        "bought": named([PurchaseOutcome::Sold, PurchaseOutcome::NoStock, PurchaseOutcome::Busy, PurchaseOutcome::Unknown], bought),
        "declined": phrases::declined(WHO).full,
        "fault": named(described(), |fault| phrases::fault(WHO, fault, None).full),
        "gave_up": phrases::gave_up("").full,
        "reached": phrases::reached_step(WHO, "{step}", "{of}"),
        "register": named([Action::Read, Action::Write], |action| phrases::does(WHO, action, "{value}")),
        "server": named(Change::ALL, |change| change.describe("{server}", false)),
        "slept": phrases::slept("{for_ms}").full,
        "stalled": phrases::stalled("{for_ms}").full,
        "stock_read": phrases::stock_read("{units}"),
        "store_read": phrases::LOOKS_AT_STORE,
    })
}

/// Returns the faults that the viewer describes. The others end one of them.
fn described() -> impl Iterator<Item = Fault> {
    let ends_another = |fault: &Fault| {
        matches!(
            fault,
            Fault::Continued | Fault::Reconnected | Fault::ReplyDelivered
        )
    };
    Fault::ALL
        .into_iter()
        .filter(move |fault| !ends_another(fault))
}

/// Returns one phrase per value, keyed by the name that histories use.
fn named<T: Copy + serde::Serialize>(
    all: impl IntoIterator<Item = T>,
    phrase_of: impl Fn(T) -> String,
) -> Value {
    let entry = |one: T| {
        let name = serde_json::to_value(one).ok()?;
        Some((name.as_str()?.to_owned(), Value::from(phrase_of(one))))
    };
    Value::Object(all.into_iter().filter_map(entry).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_viewer_speaks_with_the_words_of_the_story() {
        let script = fencepost_viewer::script(&[]);
        let (_, literal) = script.split_once("const WORDS = ").unwrap();
        let literal = literal.split_once(";\n").unwrap().0;
        let expected = serde_json::to_string_pretty(&words()).unwrap();
        assert_eq!(literal, expected, "copy the right side into words.js");
    }

    #[test]
    fn the_viewer_draws_every_fault_and_says_how_it_was_seen() {
        let script = fencepost_viewer::script(&[]);
        // Right time only ends a fault that is drawn.
        let drawn = described().filter(|fault| *fault != Fault::ClockRight);
        let names: Vec<String> = drawn
            .map(|fault| serde_json::from_value(json!(fault)).unwrap())
            .collect();
        for table in ["FAULTS", "SEEN"] {
            let (_, literal) = script.split_once(&format!("const {table} = {{")).unwrap();
            let literal = literal.split_once("};").unwrap().0;
            for name in &names {
                assert!(
                    literal.contains(&format!(" {name}: '")),
                    "{name} in {table}"
                );
            }
        }
    }
}
