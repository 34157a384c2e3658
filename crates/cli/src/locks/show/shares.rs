//! A semaphore or a read-write lock, as `fencepost locks show` shows it.

use fencepost::backend::Holder;
use fencepost::clock::Moment;
use fencepost_trial::text::ink::Ink;
use fencepost_trial::text::numbers::plural;

use crate::locks::entry::{self, Entry, Kind};
use crate::locks::list::label;
use crate::wording::{age, fence, seconds};

pub(super) fn text(entry: &Entry, now: Moment, ink: Ink) -> String {
    let title = format!("{}   {}\n", entry.name, state(entry));
    let holders = entry.record.holders().map(|holder| held(holder, now));
    let waiting = entry.record.waiting.iter().enumerate().map(|(at, waiter)| {
        [
            (at + 1).to_string(),
            waiter.label.to_string(),
            entry::wish_of(waiter).unwrap_or_default(),
            seconds(waiter.waited),
            String::new(),
        ]
    });
    let (holders, waiting) = (holders.collect::<Vec<_>>(), waiting.collect::<Vec<_>>());
    let mut text = title + &aligned("holders", &holders, ink) + &aligned("waiting", &waiting, ink);
    if !holders.is_empty() {
        let note = "it cannot be released from here: stop the holder, and its lease ends";
        text.push_str(&ink.sentence("note", note));
    }
    text
}

/// Says how much is held: `semaphore, 3 of 4 permits are out`.
fn state(entry: &Entry) -> String {
    let holders = entry.record.holders();
    match entry.kind {
        Kind::Semaphore => {
            let out: usize = holders.map(|holder| holder.slots.len()).sum();
            let all = entry.permits().unwrap_or_default() as usize;
            format!(
                "semaphore, {out} of {} out",
                plural(all, "permit", "permits")
            )
        }
        _ => {
            let writes = |holder: &Holder| holder.part == fencepost::backend::Part::Write;
            let (mut readers, mut writers) = (0, 0);
            holders.for_each(|holder| {
                *(if writes(holder) {
                    &mut writers
                } else {
                    &mut readers
                }) += 1;
            });
            match (readers, writers) {
                (0, 0) => "read-write lock, free, and wanted".to_owned(),
                (0, _) => "read-write lock, a writer has it".to_owned(),
                (readers, _) => {
                    format!("read-write lock, {}", plural(readers, "reader", "readers"))
                }
            }
        }
    }
}

fn held(holder: &Holder, now: Moment) -> [String; 5] {
    let since = holder
        .since
        .map(|since| now.saturating_duration_since(since));
    let lease = match (holder.ttl_left, holder.ttl) {
        (Some(left), Some(ttl)) => format!("{} left of {}", seconds(left), seconds(ttl)),
        (Some(left), None) => format!("{} left", seconds(left)),
        (None, _) => "does not end by itself".to_owned(),
    };
    let fence = holder
        .epoch
        .map(|epoch| format!("; fence {}", fence(epoch)));
    [
        entry::part_of(holder).unwrap_or_default(),
        label(holder),
        since.map_or_else(String::new, |since| format!("for {}", age(since))),
        lease + &fence.unwrap_or_default(),
        String::new(),
    ]
}

/// Writes the rows in columns below each other, beside a label.
fn aligned(label: &str, rows: &[[String; 5]], ink: Ink) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..5).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for (at, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths);
        let cells = cells.map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        let label = if at == 0 { label } else { "" };
        text.push_str(&ink.labelled(label, line.trim_end()));
    }
    text
}
