//! The recorder of a run: numbers and timestamps events, keeps them in memory, and appends each one to a file.

use std::fs::File;
use std::io::{self, Write};
use std::time::Instant;

use serde::Serialize;

use super::{Event, Header, History, What};

/// Numbers and timestamps events, keeps them in memory, and appends each one to a file.
#[derive(Debug)]
pub struct Recorder {
    history: History,
    started: Instant,
    file: Option<Lines>,
}

impl Recorder {
    /// Starts the clock. If there is a file, writes the header to it.
    ///
    /// # Errors
    /// Returns an error if the header cannot be written.
    pub fn start(header: Header, file: Option<File>) -> io::Result<Self> {
        let mut file = file.map(|file| Lines {
            file,
            good_bytes: 0,
        });
        if let Some(file) = &mut file {
            file.write(&header)?;
        }
        Ok(Self {
            history: History {
                header,
                events: Vec::new(),
            },
            started: Instant::now(),
            file,
        })
    }

    /// Resets the clock to zero.
    pub fn restart_clock(&mut self) {
        self.started = Instant::now();
    }

    /// Records an event that happened at `at`.
    ///
    /// # Errors
    /// Returns an error if the event cannot be written. The file then ends with the previous event.
    pub fn record(&mut self, at: Instant, who: Option<&str>, what: What) -> io::Result<&Event> {
        let at_ns = at.saturating_duration_since(self.started).as_nanos();
        let n = self.history.events.len() as u64 + 1;
        let event = Event {
            n,
            at_ns: u64::try_from(at_ns).unwrap_or(u64::MAX),
            who: who.map(str::to_owned),
            what,
        };
        if let Some(file) = &mut self.file {
            file.write(&event)?;
        }
        let events = &mut self.history.events;
        events.push(event);
        Ok(&events[events.len() - 1])
    }

    /// Returns the number of recorded events.
    pub fn len(&self) -> usize {
        self.history.events.len()
    }

    /// Returns `true` if no event has been recorded yet.
    pub fn is_empty(&self) -> bool {
        self.history.events.is_empty()
    }

    /// Returns the run as recorded so far.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Ends the recording and returns the complete run.
    pub fn finish(self) -> History {
        self.history
    }
}

impl History {
    /// Writes the history to a file, as it is written during a run.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written. It then ends with the last complete line.
    pub fn write(&self, file: File) -> io::Result<()> {
        let mut lines = Lines {
            file,
            good_bytes: 0,
        };
        lines.write(&self.header)?;
        self.events.iter().try_for_each(|event| lines.write(event))
    }
}

/// A file of complete lines. If a line cannot be written in full, the part that was written is removed.
#[derive(Debug)]
struct Lines {
    file: File,
    good_bytes: u64,
}

impl Lines {
    fn write(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        let written = self.file.write_all(&line);
        match &written {
            Ok(()) => self.good_bytes += line.len() as u64,
            // Devices and pipes have no length, so the partial line stays there.
            Err(_) => drop(self.file.set_len(self.good_bytes)),
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::history::tests::header;
    use crate::protocol::Promise;

    #[test]
    fn a_file_holds_the_header_and_every_event_on_lines_of_their_own() {
        let mut file = tempfile::tempfile().unwrap();
        let header = header(1, 1, Promise::Nothing);
        let mut recorder =
            Recorder::start(header.clone(), Some(file.try_clone().unwrap())).unwrap();
        recorder.restart_clock();
        let later = recorder.started + Duration::from_micros(1500);
        recorder
            .record(recorder.started, None, What::StockSet { units: 1 })
            .unwrap();
        recorder
            .record(later, Some("proc_0"), What::Purchase { op: 1, quantity: 1 })
            .unwrap();
        let history = recorder.finish();

        let mut text = String::new();
        io::Seek::rewind(&mut file).unwrap();
        io::Read::read_to_string(&mut file, &mut text).unwrap();
        let (first, rest) = text.split_once('\n').unwrap();
        assert_eq!(serde_json::from_str::<Header>(first).unwrap(), header);
        let events: Vec<Event> = rest
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(events, history.events);
        assert_eq!(
            rest.lines().nth(1).unwrap(),
            r#"{"n":2,"at_ns":1500000,"who":"proc_0","event":"purchase","op":1,"quantity":1}"#
        );
    }

    #[test]
    fn a_full_disk_is_told() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let error = Recorder::start(header(1, 1, Promise::Nothing), Some(full)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
