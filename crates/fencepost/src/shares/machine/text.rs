//! A [`Roster`] as text, as the store keeps it: one line per share and per waiter, which people can read.
//!
//! ```text
//! fencepost shares 1
//! era 8c1d41f2
//! capacity permits=3
//! last epoch=17 ticket=4
//! share owner=9f0c… permits=2 slots=0-1 epoch=17 since=1763583422.5 ends=1763583432.5 ttl=10 label=web-1:2210
//! waits owner=03ab… permits=2 ticket=4 since=1763583424.25 called=1763583424.75 label=web-2:871
//! ```
//!
//! The number in the first line is the version of this layout. A program refuses a record with a newer one, so that it never removes what
//! it does not understand. Times are seconds on the clock of the store. A label is the last field of its line, and its control characters
//! and percent signs are percent-encoded.

use std::fmt::{self, Write};
use std::time::Duration;

use super::roster::{Capacity, Need, Roster, Share, Waiting};
use crate::claim::hides_or_breaks_text;

mod parse;

/// The layout that this program writes, and the newest that it reads.
pub(super) const LAYOUT: u32 = 1;
/// What the first line begins with.
pub(super) const HEADER: &str = "fencepost shares ";

/// Why a record cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    /// A newer program wrote it, with this layout.
    Newer(u32),
    /// It is not a record of shares: this line, counted from one, is wrong.
    Line(usize),
}

impl Roster {
    /// Returns the text of this roster.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        // Writing to a string never fails.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> fmt::Result {
        writeln!(text, "{HEADER}{LAYOUT}")?;
        writeln!(text, "era {}", Escaped(&self.era))?;
        match self.capacity {
            Some(Capacity::Permits(permits)) => writeln!(text, "capacity permits={permits}")?,
            Some(Capacity::ReadWrite) => writeln!(text, "capacity read-write")?,
            None => writeln!(text, "capacity unknown")?,
        }
        writeln!(
            text,
            "last epoch={} ticket={}",
            self.last_epoch, self.last_ticket
        )?;
        self.shares
            .iter()
            .try_for_each(|share| writeln!(text, "{share}"))?;
        self.line
            .iter()
            .try_for_each(|waiting| writeln!(text, "{waiting}"))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "share owner={} {}", self.owner, self.need)?;
        if let Need::Permits(_) = self.need {
            write!(f, " slots={}", self.slots)?;
        }
        let [since, ends, ttl] = [self.since, self.ends, self.ttl].map(Seconds);
        write!(
            f,
            " epoch={} since={since} ends={ends} ttl={ttl}",
            self.epoch
        )?;
        write!(f, " label={}", Escaped(&self.label))
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "waits owner={} {}", self.owner, self.need)?;
        write!(f, " ticket={} since={}", self.ticket, Seconds(self.since))?;
        if let Some(until) = self.called_until {
            write!(f, " called={}", Seconds(until))?;
        }
        write!(f, " label={}", Escaped(&self.label))
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Permits(count) => write!(f, "permits={count}"),
            Self::Read => f.write_str("read"),
            Self::Write => f.write_str("write"),
        }
    }
}

/// A time, exactly and without zeros at its end.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0.as_secs(), self.0.subsec_nanos());
        if nanos == 0 {
            return write!(f, "{seconds}");
        }
        let digits = format!("{nanos:09}");
        write!(f, "{seconds}.{}", digits.trim_end_matches('0'))
    }
}

/// A text that cannot end its line.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            if c == '%' || hides_or_breaks_text(c) {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    write!(f, "%{byte:02x}")?;
                }
            } else {
                f.write_char(c)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
