//! A saved history: the file format with its seal, reading it back, and judging it again.

use std::fs::File;
use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

use crate::history::{Event, Header, History, SCHEMA};
use crate::text::foreign::{harmless, parse};
use crate::verdict::{Outcome, Verdict};
use crate::{holds, retry, sale};

/// The last line of a complete history: the verdict at the time of recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// The verdict.
    pub verdict: Outcome,
    /// The reason.
    pub because: String,
    /// The number of events it rests on.
    pub events: usize,
}

impl Seal {
    /// Creates the seal for this verdict on `events` events.
    pub fn of(verdict: &Verdict, events: usize) -> Self {
        Self {
            verdict: verdict.outcome,
            because: verdict.because.clone(),
            events,
        }
    }

    /// Appends the seal to a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write(&self, file: &mut File) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        file.write_all(&line)
    }
}

/// The contents of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Saved {
    /// The recorded run.
    pub history: History,
    /// The recorded verdict; `None` if the run was not completed.
    pub seal: Option<Seal>,
    /// The number of the last line, if that line is cut off.
    pub cut_line: Option<usize>,
}

/// A saved history with its new verdict.
#[derive(Debug, Clone)]
pub struct Rejudged {
    /// The contents of the file.
    pub saved: Saved,
    /// The verdict of the current checks.
    pub verdict: Verdict,
    /// The rounds of a comparison, each with its own verdict; empty for other runs.
    pub rounds: Vec<retry::Round>,
}

impl Rejudged {
    /// Judges the history again, from the file alone.
    pub fn of(saved: Saved) -> Self {
        let (verdict, rounds) = judge(&saved.history);
        Self {
            saved,
            verdict,
            rounds,
        }
    }

    /// Returns whether the new verdict equals the recorded one; `None` if none was recorded.
    pub fn stands(&self) -> Option<bool> {
        let recorded = self.saved.seal.as_ref()?.verdict;
        Some(recorded == self.verdict.outcome)
    }

    /// Returns the line that is cut off, and the last event before it.
    pub fn cut(&self) -> Option<(usize, usize)> {
        let line = self.saved.cut_line?;
        Some((line, self.saved.history.events.len()))
    }

    /// Returns the command that repeats the run; empty if the strategy or the store is not one of ours.
    pub fn reproduce(&self) -> String {
        let history = &self.saved.history;
        let trial = holds::Trial::of(&history.header).map(|trial| trial.reproduce());
        let sale = || Some(sale::Sale::of(&history.header)?.reproduce());
        let comparison = || Some(retry::Comparison::of(history)?.reproduce());
        trial.or_else(sale).or_else(comparison).unwrap_or_default()
    }
}

/// Returns the verdict on a history of any scenario, and the rounds that it consists of, if it has several.
fn judge(history: &History) -> (Verdict, Vec<retry::Round>) {
    let mut rounds = Vec::new();
    let verdict = match history.header.scenario.as_str() {
        sale::SCENARIO => {
            let facts = sale::facts::Facts::of(&history.events);
            sale::verdict::judge(&history.header, &facts)
        }
        retry::SCENARIO => {
            rounds = retry::Round::all_in(&history.header, &history.events);
            retry::verdict::judge(&history.header, &rounds)
        }
        _ => {
            let facts = holds::facts::Facts::of(&history.events);
            holds::verdict::judge(&history.header, &facts)
        }
    };
    (verdict, rounds)
}

/// The reason why a file is not a history.
#[derive(Debug, thiserror::Error)]
pub enum NotAHistory {
    /// The file cannot be read.
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    /// A line is not what is expected there.
    #[error("line {line}: {what}")]
    Line {
        /// The number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
}

impl Saved {
    /// Reads a history. Ignores a last line that is cut off.
    ///
    /// # Errors
    /// Returns a [`NotAHistory`] that says what is wrong, and where.
    pub fn read(input: impl BufRead) -> Result<Self, NotAHistory> {
        let mut lines = Lines::new(input);
        let (_, first) = lines
            .next_line()?
            .ok_or_else(|| wrong(1, "the file is empty"))?;
        let mut saved = Self {
            history: History {
                header: header(&first)?,
                events: Vec::new(),
            },
            seal: None,
            cut_line: None,
        };
        while let Some((number, line)) = lines.next_line()? {
            let is_whole = line.ends_with('\n');
            match saved.take(number, line.trim_end()) {
                Ok(()) => {}
                Err(_) if !is_whole && lines.is_at_end()? => saved.cut_line = Some(number),
                Err(error) => return Err(error),
            }
        }
        Ok(saved)
    }

    fn take(&mut self, number: usize, line: &str) -> Result<(), NotAHistory> {
        let events = &mut self.history.events;
        if self.seal.is_some() {
            return Err(wrong(number, "something follows the verdict"));
        }
        if let Ok(seal) = parse::<Seal>(line) {
            if seal.events != events.len() {
                let what = format!(
                    "a verdict over {} events, not {}",
                    seal.events,
                    events.len()
                );
                return Err(wrong(number, what));
            }
            self.seal = Some(seal);
            return Ok(());
        }
        let event: Event =
            parse(line).map_err(|error| wrong(number, format!("not an event ({error})")))?;
        let expected = events.len() as u64 + 1;
        if event.n != expected {
            return Err(wrong(
                number,
                format!("event #{} where #{expected} belongs", event.n),
            ));
        }
        events.push(event);
        Ok(())
    }
}

fn header(line: &str) -> Result<Header, NotAHistory> {
    let value: serde_json::Value =
        parse(line).map_err(|_| wrong(1, "not the header of a history"))?;
    match value["schema"].as_str() {
        Some(SCHEMA) => serde_json::from_value(value).map_err(|error| {
            // The error may name a field.
            let error = harmless(&error.to_string());
            wrong(1, format!("not a header of {SCHEMA} ({error})"))
        }),
        Some(other) => Err(wrong(1, format!("'{other}' is not {SCHEMA}"))),
        None => Err(wrong(1, "not the header of a history")),
    }
}

fn wrong(line: usize, what: impl Into<String>) -> NotAHistory {
    NotAHistory::Line {
        line,
        what: what.into(),
    }
}

/// Reads numbered lines, each with its line ending if it has one.
struct Lines<R> {
    input: R,
    number: usize,
}

impl<R: BufRead> Lines<R> {
    fn new(input: R) -> Self {
        Self { input, number: 0 }
    }

    fn next_line(&mut self) -> io::Result<Option<(usize, String)>> {
        let mut bytes = Vec::new();
        if self.input.read_until(b'\n', &mut bytes)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        Ok(Some((
            self.number,
            String::from_utf8_lossy(&bytes).into_owned(),
        )))
    }

    fn is_at_end(&mut self) -> io::Result<bool> {
        Ok(self.input.fill_buf()?.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::What;
    use crate::history::tests::header as sample;
    use crate::protocol::Promise;

    fn file(events: u64) -> String {
        let mut text = serde_json::to_string(&sample(1, 1, Promise::Nothing)).unwrap() + "\n";
        for n in 1..=events {
            let event = Event {
                n,
                at_ns: n,
                who: None,
                what: What::StockRead { units: 0 },
            };
            text += &(serde_json::to_string(&event).unwrap() + "\n");
        }
        text
    }

    fn read(text: &str) -> Result<Saved, String> {
        Saved::read(text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_history_comes_back_as_it_was_written() {
        let verdict = Verdict::bare(Outcome::Broken, "too many");
        let seal = Seal::of(&verdict, 2);
        let text = file(2) + &serde_json::to_string(&seal).unwrap() + "\n";
        let saved = read(&text).unwrap();
        assert_eq!(saved.history.events.len(), 2);
        assert_eq!((saved.seal, saved.cut_line), (Some(seal), None));
        assert_eq!(read(&file(2)).unwrap().seal, None);
    }

    #[test]
    fn a_last_line_that_is_cut_off_is_left_out() {
        let text = file(3);
        let saved = read(&text[..text.len() - 9]).unwrap();
        assert_eq!((saved.history.events.len(), saved.cut_line), (2, Some(4)));
    }

    #[test]
    fn what_is_no_history_is_said_with_its_place() {
        for (text, expected) in [
            (String::new(), "line 1: the file is empty"),
            ("hello\n".into(), "line 1: not the header of a history"),
            (
                "{\"schema\":\"fencepost/history/9\"}\n".into(),
                "line 1: 'fencepost/history/9' is not",
            ),
            (file(1) + "nonsense\n" + "more\n", "line 3: not an event"),
            (file(1) + "nonsense\n", "line 3: not an event"),
            (
                file(1) + &file(2)[file(1).len()..].replace("\"n\":2", "\"n\":7"),
                "line 3: event #7 where #2",
            ),
            (
                file(1) + "{\"verdict\":\"HELD\",\"because\":\"\",\"events\":9}\n",
                "line 3: a verdict over 9",
            ),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
