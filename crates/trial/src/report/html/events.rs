//! Events packed as rows of numbers, with words and shapes stored once for the whole page.
//!
//! A row is `[µs since the previous row, word of the process or -1, shape, values…]`. A shape is the kind of an event and the
//! names of its values: `$name` is a word, `?name` a boolean, anything else a number. Events of later versions fit in without a
//! change here.

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::history::fence::relation_sign;
use crate::history::{Event, What};

/// A run with more events than this is not drawn completely.
pub(super) const EVENTS_PER_RUN_MAX: usize = 20_000;
/// Once a page has more events than this, further runs keep only the events that their verdict rests on.
pub(super) const EVENTS_PER_PAGE_MAX: usize = 60_000;

/// Returns the start of a run's clock: zero or, for a part of a longer history, the time of its first event.
pub(super) fn start_ns(events: &[Event]) -> u64 {
    let first = events.first().filter(|event| event.n > 1);
    first.map_or(0, |event| event.at_ns)
}

/// The tables that all runs of a page share.
#[derive(Debug, Default)]
pub(super) struct Tables {
    words: Index,
    shapes: Index,
    budget_used: usize,
}

#[derive(Debug, Default)]
struct Index {
    places: HashMap<String, usize>,
    entries: Vec<String>,
}

impl Index {
    fn place(&mut self, text: &str) -> usize {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = self.entries.len();
        self.places.insert(text.to_owned(), place);
        self.entries.push(text.to_owned());
        place
    }
}

/// The packed events of a run.
#[derive(Debug, Serialize)]
pub(super) struct Packed {
    /// The total number of events.
    total: usize,
    /// The number of the first event.
    first: u64,
    /// How many rows from the start are present without a gap.
    whole: usize,
    rows: Vec<Value>,
    /// The event numbers of the rows after the gap.
    named: Vec<u64>,
}

impl Tables {
    /// Packs a run. If it is too long, keeps the start and every event in `needed`.
    pub(super) fn pack(&mut self, events: &[Event], needed: &BTreeSet<u64>) -> Packed {
        let room = EVENTS_PER_PAGE_MAX.saturating_sub(self.budget_used);
        let whole = match events.len() {
            few if few <= EVENTS_PER_RUN_MAX && few <= room => few,
            _ if room < EVENTS_PER_RUN_MAX => 0,
            _ => EVENTS_PER_RUN_MAX,
        };
        let rest = events[whole..]
            .iter()
            .filter(|event| needed.contains(&event.n));
        let rest: Vec<&Event> = rest.collect();
        let mut at_us = i64::try_from(start_ns(events) / 1000).unwrap_or(i64::MAX);
        let rows: Vec<Value> = events[..whole]
            .iter()
            .chain(rest.iter().copied())
            .map(|event| self.row(event, &mut at_us))
            .collect();
        self.budget_used += rows.len();
        Packed {
            total: events.len(),
            first: events.first().map_or(1, |event| event.n),
            whole,
            rows,
            named: rest.iter().map(|event| event.n).collect(),
        }
    }

    fn row(&mut self, event: &Event, at_us: &mut i64) -> Value {
        let now_us = i64::try_from(event.at_ns / 1000).unwrap_or(i64::MAX);
        let delta = now_us - std::mem::replace(at_us, now_us);
        let who = event
            .who
            .as_deref()
            .map_or(-1, |who| self.words.place(who) as i64);
        // An event consists of numbers, strings and booleans, so its conversion to JSON cannot fail.
        let fields = serde_json::to_value(&event.what).unwrap_or_default();
        let mut fields = match fields {
            Value::Object(fields) => fields,
            other => Map::from_iter([("event".to_owned(), other)]),
        };
        if let Some(sign) = sign_of_fences(&event.what) {
            fields.insert("sign".to_owned(), Value::from(sign));
        }
        let kind = fields.shift_remove("event").unwrap_or_default();
        let mut shape = vec![Value::from(kind.as_str().unwrap_or_default())];
        let mut values = Vec::new();
        for (name, value) in fields {
            let (mark, value) = match value {
                Value::Null => continue,
                Value::String(text) => ("$", Value::from(self.words.place(&text))),
                Value::Bool(truth) => ("?", Value::from(u8::from(truth))),
                Value::Number(number) => ("", short(&number)),
                other => ("$", Value::from(self.words.place(&other.to_string()))),
            };
            shape.push(Value::from(format!("{mark}{name}")));
            values.push(value);
        }
        let shape = self.shapes.place(&Value::from(shape).to_string());
        let mut row = vec![Value::from(delta), Value::from(who), Value::from(shape)];
        row.append(&mut values);
        Value::from(row)
    }

    pub(super) fn words(&self) -> &[String] {
        &self.words.entries
    }

    pub(super) fn shapes(&self) -> Vec<Value> {
        let shape = |text: &String| serde_json::from_str(text).unwrap_or_default();
        self.shapes.entries.iter().map(shape).collect()
    }
}

/// Returns how the fence of a step relates to the highest one that the number had seen, so that the page need not compare fences.
fn sign_of_fences(what: &What) -> Option<&'static str> {
    match what {
        What::Register {
            fence,
            highest: Some(highest),
            ..
        } => Some(relation_sign(fence.as_deref(), highest)),
        _ => None,
    }
}

/// Rounds to thousandths, which is precise enough for every number in an event.
fn short(number: &serde_json::Number) -> Value {
    match number.as_f64() {
        Some(figure) if number.is_f64() => Value::from((figure * 1e3).round() / 1e3),
        _ => Value::Number(number.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Action;

    #[test]
    fn the_sign_of_a_refused_step_reaches_the_page() {
        let what = What::Register {
            op: 1,
            hold: 1,
            serial: 1,
            action: Action::Write,
            value: 0,
            fence: Some("2.0".into()),
            highest: Some("2.0".into()),
            refused: true,
        };
        let event = Event {
            n: 1,
            at_ns: 0,
            who: Some("A".into()),
            what,
        };
        let mut tables = Tables::default();
        let packed = tables.pack(&[event], &BTreeSet::new());
        let shape = &tables.shapes()[0];
        let names: Vec<&str> = shape
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        // A row begins with the time, the process and the shape; a shape begins with the kind of event.
        let at = names.iter().position(|name| *name == "$sign").unwrap() + 2;
        let word = packed.rows[0][at].as_u64().unwrap();
        assert_eq!(tables.words()[usize::try_from(word).unwrap()], "=");
    }
}
