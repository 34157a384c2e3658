//! `fencepost locks list`: a table with one row for each holder, or for a name that is only wanted.

use std::process::ExitCode;
use std::time::Duration;

use fencepost::backend::Holder;
use fencepost::clock::Moment;
use fencepost::stores::kinds::REDIS;
use fencepost_trial::text::harmless;
use fencepost_trial::text::ink::Role;
use fencepost_trial::text::numbers::{count, plural};

use super::entry::{self, Entry, Kind};
use super::{CommandContext, document};
use crate::command_error::CommandError;
use crate::store::LockStore;
use crate::wording::{age, fence, seconds};

/// How long the store may take to scan all its keys.
pub(super) const LIST_TIMEOUT: Duration = Duration::from_secs(120);
/// On a screen narrower than this, the columns in [`MINOR`] are left out.
const NARROW: usize = 80;
const COLUMNS: [(&str, bool); 7] = [
    ("name", false),
    ("holder", false),
    ("held for", true),
    ("TTL left", true),
    ("waiting", true),
    ("fence", false),
    ("kind", false),
];
/// The columns that a narrow screen does not show.
const MINOR: [&str; 3] = ["held for", "fence", "kind"];

pub(super) async fn run(
    mut context: CommandContext,
    pattern: Option<&str>,
) -> Result<ExitCode, CommandError> {
    let entries = context.entries(pattern).await?;
    let now = context.now();
    if context.json {
        let document = document::list(&context.store.place(), pattern, &entries, context.seen());
        context.screen.print_json(&document);
    } else {
        let text = text(&context, pattern, &entries, now);
        context.screen.print(&text);
    }
    Ok(context.screen.end(0))
}

fn text(context: &CommandContext, pattern: Option<&str>, entries: &[Entry], now: Moment) -> String {
    let rows = entries
        .iter()
        .flat_map(|entry| rows(entry, now, context.has_line()));
    let rows: Vec<[String; 7]> = rows.collect();
    let ink = context.screen.ink;
    let is_shown = |column: usize| ink.columns >= NARROW || !MINOR.contains(&COLUMNS[column].0);
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max(COLUMNS[column].0.len())
    };
    let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
    let line = |cells: [&str; 7]| {
        let mut text = String::from(" ");
        for (column, cell) in cells
            .into_iter()
            .enumerate()
            .filter(|(column, _)| is_shown(*column))
        {
            let width = widths[column];
            text.push_str(&if COLUMNS[column].1 {
                format!(" {cell:>width$}  ")
            } else {
                format!(" {cell:<width$}  ")
            });
        }
        text.trim_end().to_owned() + "\n"
    };
    let mut text = String::new();
    if !context.quiet && !rows.is_empty() {
        let heading = line(COLUMNS.map(|(heading, _)| heading));
        text.push_str(&ink.paint(Role::Label, heading.trim_end()));
        text.push('\n');
    }
    for row in &rows {
        text.push_str(&line(std::array::from_fn(|column| row[column].as_str())));
    }
    if !context.quiet {
        text.push_str(&summary(context, pattern, entries));
    }
    text
}

fn summary(context: &CommandContext, pattern: Option<&str>, entries: &[Entry]) -> String {
    let which = match pattern {
        Some(pattern) => format!(" like '{}'", harmless(pattern)),
        None => String::new(),
    };
    let hint = match (&context.store, pattern) {
        (LockStore::Address(address), None) if address.kind().server == REDIS.server => {
            "      (a pattern such as 'lock:*' also finds other clients' locks: kind plain, holder ?)"
        }
        _ => "",
    };
    if entries.is_empty() {
        return format!("no locks{which} in {}{hint}\n", context.store.place());
    }
    format!("{}{which}{hint}\n", counted(entries))
}

/// Counts the entries by kind: `2 locks, 1 semaphore`.
pub(super) fn counted(entries: &[Entry]) -> String {
    let number = |is: fn(Kind) -> bool| entries.iter().filter(|entry| is(entry.kind)).count();
    let counts = [
        (
            number(|kind| matches!(kind, Kind::Line | Kind::Plain)),
            "lock",
            "locks",
        ),
        (
            number(|kind| kind == Kind::Semaphore),
            "semaphore",
            "semaphores",
        ),
        (
            number(|kind| kind == Kind::RwLock),
            "read-write lock",
            "read-write locks",
        ),
    ];
    let counts = counts.into_iter().filter(|(number, ..)| *number > 0);
    let counts = counts.map(|(number, one, many)| plural(number, one, many));
    counts.collect::<Vec<_>>().join(", ")
}

/// Returns a row for each holder. Those who wait are counted in the first.
fn rows(entry: &Entry, now: Moment, has_line: bool) -> Vec<[String; 7]> {
    let waiting = if has_line {
        count(entry.record.waiting.len() as i64)
    } else {
        "?".to_owned()
    };
    let mut rows: Vec<_> = entry
        .record
        .holders()
        .map(|holder| row(entry, Some(holder), now))
        .collect();
    if rows.is_empty() {
        rows.push(row(entry, None, now));
    }
    rows[0][4] = waiting;
    rows
}

fn row(entry: &Entry, holder: Option<&Holder>, now: Moment) -> [String; 7] {
    let nothing = || "–".to_owned();
    let held = holder.and_then(|holder| holder.since);
    let left = holder.map(|holder| match holder.ttl_left {
        Some(left) => seconds(left),
        None => "no end".to_owned(),
    });
    let epoch = holder.and_then(|holder| holder.epoch);
    let part = holder.and_then(entry::part_of);
    [
        // A lock of another program may have any name, including control characters.
        harmless(&entry.name),
        holder.map_or_else(nothing, label),
        held.map_or_else(nothing, |since| age(now.saturating_duration_since(since))),
        left.unwrap_or_else(nothing),
        String::new(),
        epoch.map_or_else(nothing, fence),
        part.unwrap_or_else(|| entry.kind.word().to_owned()),
    ]
}

/// Returns the label of a holder, or `?` if the store does not know it.
pub(super) fn label(holder: &Holder) -> String {
    match &*holder.label {
        "" => "?".to_owned(),
        label => harmless(label),
    }
}
