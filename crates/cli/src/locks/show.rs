//! `fencepost locks show`: one name with its holders, their leases, its waiters, and how to release it.

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use fencepost::LockName;
use fencepost::backend::{Holder, Record};
use fencepost::clock::Moment;
use fencepost_trial::text::ink::{Ink, Role};

use super::entry::Entry;
use super::{CommandContext, NOT_HELD, document};
use crate::command_error::CommandError;
use crate::wording::{fence, held_by, host, seconds, time_of_day};

mod shares;

/// If the age of the lease and the age of the hold differ by less than this, the lease was not renewed yet.
const FIRST: Duration = Duration::from_millis(50);

pub(super) async fn run(
    mut context: CommandContext,
    name: &LockName,
) -> Result<ExitCode, CommandError> {
    let lock = context.record(name).await?;
    let lock = lock.map(|record| Entry::lock(name.as_str(), record));
    let shares = context.shares(name).await?;
    let both = [lock.as_ref(), shares.as_ref()];
    let mut held = both.into_iter().flatten();
    let is_held = held.any(|entry| entry.record.holder.is_some());
    let code = if is_held { 0 } else { NOT_HELD };
    let now = context.now();
    if context.json {
        let document = document::show(&context.store.place(), name.as_str(), both, context.seen());
        context.screen.print_json(&document);
    } else {
        let mut text = String::new();
        if lock.is_some() || shares.is_none() {
            let record = lock.as_ref().map(|entry| &entry.record);
            text.push_str(&self::text(&context, name, record, now));
        }
        if let Some(entry) = &shares {
            text.push_str(&shares::text(entry, now, context.screen.ink));
        }
        context.screen.print(&text);
    }
    Ok(context.screen.end(code))
}

fn text(context: &CommandContext, name: &LockName, record: Option<&Record>, now: Moment) -> String {
    let ink = context.screen.ink;
    let Some(record) = record else {
        return format!("{name}   free: nobody holds it, nobody waits\n");
    };
    let mut text = match &record.holder {
        Some(holder) => held(name, holder, now, ink),
        None => format!("{name}   free, and wanted: between two holders\n"),
    };
    text.push_str(&if context.has_line() {
        waiting(record, ink)
    } else {
        ink.labelled("waiting", "unknown: these servers have no queue")
    });
    if let Some(holder) = &record.holder {
        text.push_str(&release(&context.named_here(name), holder, record, ink));
    }
    text
}

fn held(name: &LockName, holder: &Holder, now: Moment, ink: Ink) -> String {
    let since = holder.since.and_then(|since| {
        let time = SystemTime::now().checked_sub(now.saturating_duration_since(since))?;
        Some(format!(", since {}", time_of_day(time)))
    });
    let title = format!(
        "{name}   held by {}{}\n",
        held_by(holder, now),
        since.unwrap_or_default()
    );
    let lease = match (holder.ttl_left, holder.ttl) {
        (Some(left), Some(ttl)) => {
            let age = ttl.saturating_sub(left);
            let is_first = holder
                .since
                .is_some_and(|since| now.saturating_duration_since(since) < age + FIRST);
            let renewed = if is_first {
                "not renewed yet".to_owned()
            } else {
                format!("renewed {} ago", seconds(age))
            };
            format!("{} left of {}, {renewed}", seconds(left), seconds(ttl))
        }
        (Some(left), None) => format!("{} left", seconds(left)),
        (None, _) => "does not end by itself".to_owned(),
    };
    let fence = match holder.epoch {
        Some(epoch) => format!("; fence {}", fence(epoch)),
        None => "; no fence".to_owned(),
    };
    title + &ink.labelled("lease", &(lease + &fence))
}

fn waiting(record: &Record, ink: Ink) -> String {
    let widest = record
        .waiting
        .iter()
        .map(|waiter| waiter.label.chars().count())
        .max();
    let (widest, mut text) = (widest.unwrap_or(0), String::new());
    let places = record.waiting.len().to_string().len();
    for (index, waiter) in record.waiting.iter().enumerate() {
        let label = if index == 0 { "waiting" } else { "" };
        let place = index + 1;
        let waited = seconds(waiter.waited);
        text.push_str(&ink.labelled(
            label,
            &format!("{place:>places$}  {:<widest$}  {waited:>7}", waiter.label),
        ));
    }
    text
}

fn release(named_here: &str, holder: &Holder, record: &Record, ink: Ink) -> String {
    if holder.owner.is_none() {
        return ink.labelled(
            "note",
            "another program holds it: it cannot be released from here",
        );
    }
    let command = format!("fencepost locks release {named_here}");
    let next = record.waiting.first().map(|waiter| &*waiter.label);
    // If both are on one host, show the process ids too.
    let is_clear = next.is_none_or(|next| host(next) != host(&holder.label));
    let short = |label| if is_clear { host(label) } else { label };
    let holder = short(&*holder.label);
    let next = next.map_or_else(String::new, |next| {
        format!("{} gets it next; ", short(next))
    });
    let warning =
        format!("{next}{holder} notices later and may still be working: stop it there first");
    ink.labelled("release", &ink.paint(Role::Command, command)) + &ink.labelled("", &warning)
}
