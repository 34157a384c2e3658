//! Collects the output of all children into one stream, in the order in which it was read.

use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longer lines are split here, so that a child that never ends its line does not fill the memory.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// What a child did on its standard output, and when it was read.
#[derive(Debug)]
pub struct FeedItem {
    /// The number given to [`Child::spawn`](crate::Child::spawn).
    pub child: usize,
    /// When the line was read. Never earlier than that of any previous item.
    pub at: Instant,
    /// What was read.
    pub output: Output,
}

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// A line without its end. Bytes that are not UTF-8 are replaced, and the part beyond 64 KiB comes as another line.
    Line(String),
    /// The output was closed: nothing more comes from this child.
    Closed,
}

/// Why nothing was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// Nothing came in time.
    TimedOut,
    /// All children have closed their output.
    Ended,
}

/// The receiving end: the output of all children, oldest first.
#[derive(Debug)]
pub struct Feed(Receiver<FeedItem>);

impl Feed {
    /// Returns the next item, waiting up to `within` for it.
    ///
    /// # Errors
    /// Returns a [`Silence`] that says why there is none.
    pub fn next(&self, within: Duration) -> Result<FeedItem, Silence> {
        self.0.recv_timeout(within).map_err(|error| match error {
            RecvTimeoutError::Timeout => Silence::TimedOut,
            RecvTimeoutError::Disconnected => Silence::Ended,
        })
    }
}

/// The sending end, shared by the threads that read from the children.
#[derive(Debug, Clone)]
pub struct FeedSender(Arc<Mutex<Sender<FeedItem>>>);

/// Creates a stream for the children that are started with its sending end.
pub fn feed() -> (Feed, FeedSender) {
    let (sender, receiver) = channel();
    (Feed(receiver), FeedSender(Arc::new(Mutex::new(sender))))
}

impl FeedSender {
    /// Reads lines until the output is closed.
    pub(crate) fn listen(&self, child: usize, output: impl Read) {
        let mut output = BufReader::new(output);
        while let Some(line) = read_line(&mut output) {
            self.send(child, Output::Line(line));
        }
        self.send(child, Output::Closed);
    }

    /// Stamps and sends an item under one lock, so that the stream is in the order of the stamps.
    fn send(&self, child: usize, output: Output) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = Instant::now();
        // The receiver is gone if the run was given up.
        let _ = sender.send(FeedItem { child, at, output });
    }
}

/// Returns one line without its end, or `None` at the end of the stream or when it cannot be read any more.
pub(crate) fn read_line(input: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    match input.take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => {
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            Some(String::from_utf8_lossy(&line).into_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outputs(output: &[u8]) -> Vec<Output> {
        let (feed, sender) = feed();
        sender.listen(0, output);
        drop(sender);
        std::iter::from_fn(|| feed.next(Duration::from_secs(5)).ok())
            .map(|item| item.output)
            .collect()
    }

    #[test]
    fn lines_come_whole_and_the_end_is_told() {
        let line = |text: &str| Output::Line(text.into());
        assert_eq!(
            outputs(b"one\n\ntwo\xff\nlast without end"),
            [
                line("one"),
                line(""),
                line("two\u{fffd}"),
                line("last without end"),
                Output::Closed
            ]
        );
        assert_eq!(outputs(b""), [Output::Closed]);
    }

    #[test]
    fn an_endless_line_comes_in_pieces() {
        let read = outputs(&vec![b'x'; LINE_BYTES_MAX as usize + 1]);
        let Output::Line(first) = &read[0] else {
            panic!("{read:?}")
        };
        assert_eq!(first.len() as u64, LINE_BYTES_MAX);
        assert_eq!(read[1..], [Output::Line("x".into()), Output::Closed]);
    }

    #[test]
    fn stamps_never_run_backwards() {
        let (feed, sender) = feed();
        std::thread::scope(|scope| {
            for child in 0..4 {
                let sender = sender.clone();
                scope.spawn(move || sender.listen(child, "line\n".repeat(500).as_bytes()));
            }
        });
        drop(sender);
        let stamps: Vec<_> = std::iter::from_fn(|| feed.next(Duration::from_secs(5)).ok())
            .map(|item| item.at)
            .collect();
        assert_eq!(stamps.len(), 4 * 501);
        assert!(stamps.is_sorted());
    }
}
