//! Breaches that garble the records of semaphores and read-write locks.

use std::time::Duration;

use fencepost::backend::records::{RecordKey, RecordKind, Replaced, Snapshot};
use fencepost::{Claim, Grant};

use crate::breach::{Answer, Breach, Store, kept};

/// Changes what is written, knowing what was there before. Both are texts with a line for each share and each waiter.
#[derive(Debug)]
pub(crate) struct Writing(pub(crate) fn(&str, String) -> String);

impl Breach for Writing {
    fn replace_record<'a>(
        &'a self,
        store: &'a Store,
        key: &'a RecordKey,
        seen: &'a Snapshot,
        value: &'a [u8],
    ) -> Answer<'a, Replaced> {
        Box::pin(async move {
            let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
            let before = seen.value.as_deref().map(text).unwrap_or_default();
            let value = (self.0)(&before, text(value)).into_bytes();
            kept(store).replace(key, seen, &value, Duration::MAX).await
        })
    }
}

/// Changes the lines that begin with this word.
fn with_lines(text: &str, word: &str, change: impl Fn(&str) -> String) -> String {
    let lines = text.lines().map(|line| {
        if line.starts_with(word) {
            change(line) + "\n"
        } else {
            format!("{line}\n")
        }
    });
    lines.collect()
}

/// Returns the value of a field.
fn field<'a>(line: &'a str, name: &str) -> &'a str {
    let start = format!("{name}=");
    let mut words = line.split(' ');
    words
        .find_map(|word| word.strip_prefix(&start))
        .unwrap_or("")
}

/// Changes the value of a field.
fn with_field(line: &str, name: &str, value: &str) -> String {
    line.replace(
        &format!("{name}={}", field(line, name)),
        &format!("{name}={value}"),
    )
}

fn seconds(line: &str, name: &str) -> f64 {
    field(line, name).parse().expect("seconds")
}

pub(crate) fn one_permit_more(_: &str, after: String) -> String {
    after.replace("permits=2\nlast", "permits=3\nlast")
}

pub(crate) fn the_number_of_before(before: &str, after: String) -> String {
    let known = before
        .lines()
        .find(|line| line.starts_with("capacity permits"));
    with_lines(&after, "capacity", |line| known.unwrap_or(line).to_owned())
}

pub(crate) fn without_a_kind_when_nobody_is_there(_: &str, after: String) -> String {
    if after.contains("\nshare") || after.contains("\nwaits") {
        return after;
    }
    with_lines(&after, "capacity", |_| "capacity unknown".to_owned())
}

pub(crate) fn without_the_last_epoch(_: &str, after: String) -> String {
    with_lines(&after, "last", |line| with_field(line, "epoch", "0"))
}

pub(crate) fn the_newest_first(_: &str, after: String) -> String {
    let (mut line, others): (Vec<&str>, Vec<&str>) =
        after.lines().partition(|line| line.starts_with("waits"));
    line.sort_by_key(|line| std::cmp::Reverse(field(line, "ticket").parse::<u64>().ok()));
    others
        .iter()
        .chain(&line)
        .map(|line| format!("{line}\n"))
        .collect()
}

/// Renewals have no effect.
pub(crate) fn with_the_first_end(before: &str, after: String) -> String {
    with_lines(&after, "share", |line| {
        let owner = field(line, "owner");
        let earlier = before
            .lines()
            .find(|line| line.starts_with("share") && line.contains(owner));
        earlier.map_or(line.to_owned(), |earlier| {
            with_field(line, "ends", field(earlier, "ends"))
        })
    })
}

pub(crate) fn with_an_early_end(_: &str, after: String) -> String {
    with_lines(&after, "share", |line| {
        let early = seconds(line, "since") + seconds(line, "ttl") / 20.0;
        with_field(line, "ends", &format!("{early:.9}"))
    })
}

pub(crate) fn with_a_late_end(_: &str, after: String) -> String {
    with_lines(&after, "share", |line| {
        let late = seconds(line, "since") + seconds(line, "ttl") * 1000.0;
        with_field(line, "ends", &format!("{late:.9}"))
    })
}

pub(crate) fn without_labels(_: &str, after: String) -> String {
    with_lines(&after, "", |line| match line.split_once(" label=") {
        Some((others, _)) => format!("{others} label="),
        None => line.to_owned(),
    })
}

pub(crate) fn with_readers_for_writers(_: &str, after: String) -> String {
    with_lines(&after, "share", |line| line.replace(" write ", " read "))
}

pub(crate) fn waiters_want_more(_: &str, after: String) -> String {
    with_lines(&after, "waits", |line| {
        line.replace(" permits=3", " permits=4")
    })
}

/// Nobody remembers who was called.
pub(crate) fn without_turns(_: &str, after: String) -> String {
    with_lines(&after, "waits", |line| match field(line, "called") {
        "" => line.to_owned(),
        until => line.replace(&format!(" called={until}"), ""),
    })
}

/// Says that it has removed a share or a waiter, and has not.
#[derive(Debug)]
pub(crate) struct NothingIsRemoved;

impl Breach for NothingIsRemoved {
    fn replace_record<'a>(
        &'a self,
        store: &'a Store,
        key: &'a RecordKey,
        seen: &'a Snapshot,
        value: &'a [u8],
    ) -> Answer<'a, Replaced> {
        let lines = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
        if seen
            .value
            .as_deref()
            .is_some_and(|before| lines(before) > lines(value))
        {
            return Box::pin(async { Ok(Replaced::Yes) });
        }
        kept(store).replace(key, seen, value, Duration::MAX)
    }
}

/// Refuses a lock if there is a semaphore of the same name.
#[derive(Debug)]
pub(crate) struct OneNameForEverything;

impl Breach for OneNameForEverything {
    fn try_acquire<'a>(&'a self, store: &'a Store, claim: &'a Claim) -> Answer<'a, Option<Grant>> {
        Box::pin(async move {
            let kind = RecordKind::Shares;
            let name = claim.name.clone();
            let there = kept(store).read(&RecordKey { kind, name }).await?;
            match there.value {
                Some(_) => Ok(None),
                None => fencepost::Backend::try_acquire(&**store, claim).await,
            }
        })
    }
}
