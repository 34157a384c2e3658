//! `fencepost locks list`: a table with one row for each lock.

use std::process::ExitCode;
use std::time::Duration;

use fencepost::backend::Listed;
use fencepost::clock::Moment;
use fencepost::stores::kinds::REDIS;
use fencepost_trial::text::harmless;
use fencepost_trial::text::ink::Role;
use fencepost_trial::text::numbers::{count, plural};

use super::{CommandContext, document};
use crate::command_error::CommandError;
use crate::store::LockStore;
use crate::wording::{age, fence, seconds};

/// How long the store may take to scan all its keys.
const LIST_TIMEOUT: Duration = Duration::from_secs(120);
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
    let mut locks = match &context.backend {
        Some(backend) => context
            .answer(LIST_TIMEOUT, backend.list(pattern))
            .await?
            .map_err(|error| context.command_error(&error))?,
        None => Vec::new(),
    };
    locks.sort_by(|a, b| a.name.cmp(&b.name));
    let now = context.now();
    if context.json {
        let document = document::list(&context.store.place(), pattern, &locks, context.seen());
        context.screen.print_json(&document);
    } else {
        let text = text(&context, pattern, &locks, now);
        context.screen.print(&text);
    }
    Ok(context.screen.end(0))
}

fn text(context: &CommandContext, pattern: Option<&str>, locks: &[Listed], now: Moment) -> String {
    let rows = locks.iter().map(|lock| row(lock, now, context.has_line()));
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
        text.push_str(&summary(context, pattern, rows.len()));
    }
    text
}

fn summary(context: &CommandContext, pattern: Option<&str>, found: usize) -> String {
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
    match found {
        0 => format!("no locks{which} in {}{hint}\n", context.store.place()),
        found => format!("{}{which}{hint}\n", plural(found, "lock", "locks")),
    }
}

fn row(lock: &Listed, now: Moment, has_line: bool) -> [String; 7] {
    let nothing = || "–".to_owned();
    let holder = lock.record.holder.as_ref();
    let label = holder.map_or_else(nothing, |holder| match &*holder.label {
        "" => "?".to_owned(),
        label => harmless(label),
    });
    let held = holder.and_then(|holder| holder.since);
    let left = holder.map(|holder| match holder.ttl_left {
        Some(left) => seconds(left),
        None => "no end".to_owned(),
    });
    let epoch = holder.and_then(|holder| holder.epoch);
    [
        // A lock of another program may have any name, including control characters.
        harmless(&lock.name),
        label,
        held.map_or_else(nothing, |since| age(now.saturating_duration_since(since))),
        left.unwrap_or_else(nothing),
        if has_line {
            count(lock.record.waiting.len() as i64)
        } else {
            "?".to_owned()
        },
        epoch.map_or_else(nothing, fence),
        document::kind(&lock.record).to_owned(),
    ]
}
