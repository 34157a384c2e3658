//! Reads the text of a [`Roster`].

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::{HEADER, LAYOUT, Unreadable};
use crate::shares::machine::roster::{Capacity, Need, Roster, Share, Waiting};
use crate::shares::machine::slots::Slots;
use crate::stores::kit::percent;

impl Roster {
    /// Reads what [`to_text`](Self::to_text) writes.
    ///
    /// # Errors
    /// Returns an error if a newer program wrote the record, or it is not one.
    pub fn from_text(text: &[u8]) -> Result<Self, Unreadable> {
        let text = std::str::from_utf8(text).map_err(|_| Unreadable::Line(1))?;
        let mut lines = text.lines().enumerate();
        let layout = lines
            .next()
            .and_then(|(_, line)| number(line.strip_prefix(HEADER)?));
        match layout {
            Some(LAYOUT) => {}
            Some(newer) if newer > LAYOUT => return Err(Unreadable::Newer(newer)),
            _ => return Err(Unreadable::Line(1)),
        }
        let mut roster = Self::default();
        for (at, line) in lines {
            read_line(&mut roster, line).ok_or(Unreadable::Line(at + 1))?;
        }
        Ok(roster)
    }
}

fn read_line(roster: &mut Roster, line: &str) -> Option<()> {
    let (what, rest) = line.split_once(' ')?;
    let mut fields = Fields(rest);
    match what {
        "era" => roster.era = unescaped(fields.rest())?,
        "capacity" => roster.capacity = capacity(fields.rest())?,
        "last" => {
            roster.last_epoch = number(fields.get("epoch")?)?;
            roster.last_ticket = number(fields.get("ticket")?)?;
        }
        "share" => {
            let share = share(&mut fields)?;
            roster.shares.push(share.of_kind(roster.capacity)?);
        }
        "waits" => {
            let waiting = waiting(&mut fields)?;
            roster.line.push(waiting.of_kind(roster.capacity)?);
        }
        _ => return None,
    }
    fields.0.is_empty().then_some(())
}

fn capacity(text: &str) -> Option<Option<Capacity>> {
    Some(match text {
        "unknown" => None,
        "read-write" => Some(Capacity::ReadWrite),
        permits => Some(Capacity::Permits(number(
            permits.strip_prefix("permits=")?,
        )?)),
    })
}

fn share(fields: &mut Fields<'_>) -> Option<Share> {
    let owner = fields.get("owner")?.parse().ok()?;
    let need = need(fields)?;
    let slots = match need {
        Need::Permits(_) => fields.get("slots")?.parse().ok()?,
        Need::Read | Need::Write => Slots::default(),
    };
    Some(Share {
        owner,
        need,
        slots,
        epoch: number(fields.get("epoch")?)?,
        since: seconds(fields.get("since")?)?,
        ends: seconds(fields.get("ends")?)?,
        ttl: seconds(fields.get("ttl")?)?,
        label: fields.label()?,
    })
}

fn waiting(fields: &mut Fields<'_>) -> Option<Waiting> {
    Some(Waiting {
        owner: fields.get("owner")?.parse().ok()?,
        need: need(fields)?,
        ticket: number(fields.get("ticket")?)?,
        since: seconds(fields.get("since")?)?,
        called_until: match fields.get("called") {
            Some(until) => Some(seconds(until)?),
            None => None,
        },
        label: fields.label()?,
    })
}

fn need(fields: &mut Fields<'_>) -> Option<Need> {
    if let Some(count) = fields.get("permits") {
        return Some(Need::Permits(number(count)?));
    }
    match fields.word()? {
        "read" => Some(Need::Read),
        "write" => Some(Need::Write),
        _ => None,
    }
}

impl Share {
    /// Returns the share if it can be one of this capacity.
    fn of_kind(self, capacity: Option<Capacity>) -> Option<Self> {
        (self.need.is_of(capacity) && self.slots.count() == self.need.permits()).then_some(self)
    }
}

impl Waiting {
    /// Returns the waiter if it can wait for a share of this capacity.
    fn of_kind(self, capacity: Option<Capacity>) -> Option<Self> {
        self.need.is_of(capacity).then_some(self)
    }
}

impl Need {
    fn is_of(self, capacity: Option<Capacity>) -> bool {
        match self {
            Self::Permits(_) => matches!(capacity, Some(Capacity::Permits(_))),
            Self::Read | Self::Write => capacity == Some(Capacity::ReadWrite),
        }
    }
}

/// What is left of a line.
struct Fields<'a>(&'a str);

impl<'a> Fields<'a> {
    /// Removes and returns the value of the next field, if it has this name.
    fn get(&mut self, name: &str) -> Option<&'a str> {
        self.0.strip_prefix(name)?.strip_prefix('=')?;
        Some(&self.word()?[name.len() + 1..])
    }

    /// Removes and returns the next word.
    fn word(&mut self) -> Option<&'a str> {
        let (word, rest) = self.0.split_once(' ').unwrap_or((self.0, ""));
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }

    /// Removes and returns the label, which is the last field and may contain spaces.
    fn label(&mut self) -> Option<Arc<str>> {
        unescaped(self.rest().strip_prefix("label=")?)
    }

    fn rest(&mut self) -> &'a str {
        std::mem::take(&mut self.0)
    }
}

fn unescaped(text: &str) -> Option<Arc<str>> {
    percent::decode(text).map(Arc::from)
}

/// Parses digits. The parser of the standard library would accept a sign.
fn number<T: FromStr>(text: &str) -> Option<T> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

fn seconds(text: &str) -> Option<Duration> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if fraction.len() > 9 {
        return None;
    }
    let nanos = number(&format!("{fraction:0<9}"))?;
    Some(Duration::new(number(seconds)?, nanos))
}
