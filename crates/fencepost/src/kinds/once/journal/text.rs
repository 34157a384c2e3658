//! How a journal is written, and read again.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use super::{Entry, Journal, LastRun, State};
use crate::backend::records::StoreTime;

const TITLE: &str = "fencepost runs ";
const LAYOUT: &str = "1";
/// Stands for a field that is empty.
const NOTHING: &str = "-";

/// Why a record is not a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It has a layout that this version does not know.
    Newer(String),
    /// This line is not ours, counted from one.
    Line(usize),
}

impl Journal {
    pub(crate) fn write(&self) -> String {
        let mut text = format!("{TITLE}{LAYOUT}\n");
        // Writing to a string cannot fail.
        if let Some(floor) = &self.floor {
            let _ = writeln!(text, "floor\t{floor}");
        }
        if let Some(LastRun { entry, until }) = &self.last {
            let (until_ns, era) = match until {
                Some(until) => (until.now.as_nanos().to_string(), &*until.era),
                None => (NOTHING.to_owned(), ""),
            };
            let _ = writeln!(text, "last\t{}\t{until_ns}\t{era}", entry.write());
        }
        for (slot, entry) in &self.slots {
            let _ = writeln!(text, "slot\t{slot}\t{}", entry.write());
        }
        text
    }

    pub(crate) fn read(text: &[u8]) -> Result<Self, Unreadable> {
        let text = std::str::from_utf8(text).map_err(|_| Unreadable::Line(1))?;
        let (title, lines) = text.split_once('\n').ok_or(Unreadable::Line(1))?;
        match title.strip_prefix(TITLE) {
            Some(LAYOUT) => {}
            Some(layout) => return Err(Unreadable::Newer(layout.to_owned())),
            None => return Err(Unreadable::Line(1)),
        }
        let mut journal = Self::default();
        for (index, line) in lines.lines().enumerate() {
            let read = journal.read_line(line);
            read.ok_or(Unreadable::Line(index + 2))?;
        }
        Ok(journal)
    }

    fn read_line(&mut self, line: &str) -> Option<()> {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields[..] {
            ["floor", floor] => self.floor = Some(floor.to_owned()),
            ["last", ref entry @ .., until, era] => {
                let until = match until {
                    NOTHING => None,
                    until => Some(StoreTime {
                        now: nanoseconds(until)?,
                        era: era.into(),
                    }),
                };
                let entry = Entry::read(entry)?;
                self.last = Some(LastRun { entry, until });
            }
            ["slot", slot, ref entry @ ..] => {
                let slots: &mut BTreeMap<_, _> = &mut self.slots;
                slots.insert(slot.to_owned(), Entry::read(entry)?);
            }
            _ => return None,
        }
        Some(())
    }
}

impl Entry {
    fn write(&self) -> String {
        let ended = self.ended_ms.map(|ended| ended.to_string());
        format!(
            "{}\t{}\t{}\t{}\t{}",
            self.fence,
            self.state.as_str(),
            self.by,
            self.started_ms,
            ended.as_deref().unwrap_or(NOTHING)
        )
    }

    fn read(fields: &[&str]) -> Option<Self> {
        let [fence, state, by, started, ended] = *fields else {
            return None;
        };
        Some(Self {
            fence: fence.parse().ok()?,
            state: State::read(state)?,
            by: by.into(),
            started_ms: started.parse().ok()?,
            ended_ms: match ended {
                NOTHING => None,
                ended => Some(ended.parse().ok()?),
            },
        })
    }
}

impl State {
    fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    fn read(text: &str) -> Option<Self> {
        let all = [Self::Started, Self::Completed, Self::Failed];
        all.into_iter().find(|state| state.as_str() == text)
    }
}

fn nanoseconds(text: &str) -> Option<Duration> {
    let all: u128 = text.parse().ok()?;
    let seconds = u64::try_from(all / 1_000_000_000).ok()?;
    // The remainder is below 10⁹.
    Some(Duration::new(seconds, (all % 1_000_000_000) as u32))
}
