//! Collects the output of all children into one stream, in the order in which it was read.
//!
//! The output of a program that we do not trust is bounded: see [`bounded_feed`].

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longer lines of a trusted program are split here.
const PIECE_BYTES_MAX: u64 = 64 * 1024;
/// A longer line of an untrusted program ends its output. Messages are far shorter; an error may carry a stack trace.
const LINE_BYTES_MAX: u64 = 16 * 1024;
/// How many lines of one untrusted program wait to be handled. Then its pipe fills, and the program has to wait.
const LINES_WAITING_MAX: usize = 16;

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
    /// A line without its end. Bytes that are not UTF-8 are replaced.
    Line(String),
    /// The beginning of a line that is too long. Only a [`bounded_feed`] has such lines, and nothing more is read from this child.
    TooLong(String),
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
pub struct Feed(Arc<Stream>);

/// The sending end, shared by the threads that read from the children.
#[derive(Debug)]
pub struct FeedSender(Arc<Stream>);

#[derive(Debug)]
struct Stream {
    is_bounded: bool,
    waiting: Mutex<Waiting>,
    /// Something was read, or nobody reads any more.
    filled: Condvar,
    /// Something was taken.
    taken: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    items: VecDeque<FeedItem>,
    /// How many of the items belong to each child.
    of_child: HashMap<usize, usize>,
    senders: usize,
    is_given_up: bool,
}

/// Creates a stream for trusted programs. Their output is kept until it is read, and a line longer than 64 KiB comes in pieces.
pub fn feed() -> (Feed, FeedSender) {
    Stream::open(false)
}

/// Creates a stream for programs that we do not trust, whose output must not fill the memory.
///
/// A program whose lines are not taken is held up by its full pipe, and holds up nobody else. A line longer than 16 KiB is the last thing
/// that is read from a program: the rest could be endless.
pub fn bounded_feed() -> (Feed, FeedSender) {
    Stream::open(true)
}

impl Feed {
    /// Returns the next item, waiting up to `within` for it.
    ///
    /// # Errors
    /// Returns a [`Silence`] that says why there is none.
    pub fn next(&self, within: Duration) -> Result<FeedItem, Silence> {
        let is_empty = |waiting: &mut Waiting| waiting.items.is_empty() && waiting.senders > 0;
        let waiting = self.0.lock();
        let woken = self.0.filled.wait_timeout_while(waiting, within, is_empty);
        let (mut waiting, _) = woken.unwrap_or_else(PoisonError::into_inner);
        let Some(item) = waiting.items.pop_front() else {
            return Err(match waiting.senders {
                0 => Silence::Ended,
                _ => Silence::TimedOut,
            });
        };
        if let Some(left) = waiting.of_child.get_mut(&item.child) {
            *left -= 1;
        }
        self.0.taken.notify_all();
        Ok(item)
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        waiting.is_given_up = true;
        waiting.items.clear();
        self.0.taken.notify_all();
    }
}

impl Clone for FeedSender {
    fn clone(&self) -> Self {
        self.0.lock().senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl Drop for FeedSender {
    fn drop(&mut self) {
        self.0.lock().senders -= 1;
        self.0.filled.notify_all();
    }
}

impl FeedSender {
    /// Reads lines until the output is closed, or nobody wants them any more.
    pub(crate) fn listen(&self, child: usize, output: impl Read) {
        let mut output = BufReader::new(output);
        let mut wanted = true;
        while wanted && let Some(output) = self.0.read(&mut output) {
            let is_last = matches!(output, Output::TooLong(_));
            wanted = self.0.push(child, output) && !is_last;
        }
        self.0.push(child, Output::Closed);
    }
}

impl Stream {
    fn open(is_bounded: bool) -> (Feed, FeedSender) {
        let stream = Arc::new(Self {
            is_bounded,
            waiting: Mutex::new(Waiting {
                senders: 1,
                ..Waiting::default()
            }),
            filled: Condvar::new(),
            taken: Condvar::new(),
        });
        (Feed(Arc::clone(&stream)), FeedSender(stream))
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, output: &mut impl BufRead) -> Option<Output> {
        if !self.is_bounded {
            return read_line(output).map(Output::Line);
        }
        // One byte more than allowed shows that the line is too long.
        let line = read_until_newline(output, LINE_BYTES_MAX + 1)?;
        Some(if line.len() as u64 > LINE_BYTES_MAX {
            Output::TooLong(text(&line))
        } else {
            Output::Line(text(&line))
        })
    }

    /// Stamps and appends an item under one lock, so that the stream is in the order of the stamps. Waits for room first: an item is
    /// stamped when it is accepted. Returns `false` if nobody takes items any more.
    fn push(&self, child: usize, output: Output) -> bool {
        let is_full = |waiting: &mut Waiting| {
            let of_child = waiting.of_child.get(&child);
            self.is_bounded
                && !waiting.is_given_up
                && of_child.is_some_and(|lines| *lines >= LINES_WAITING_MAX)
        };
        let waiting = self.taken.wait_while(self.lock(), is_full);
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        if waiting.is_given_up {
            return false;
        }
        *waiting.of_child.entry(child).or_default() += 1;
        let at = Instant::now();
        waiting.items.push_back(FeedItem { child, at, output });
        self.filled.notify_one();
        true
    }
}

/// Returns one line without its end, or `None` at the end of the stream or when it cannot be read any more. The part of a line beyond
/// 64 KiB comes as another line.
pub(crate) fn read_line(input: &mut impl BufRead) -> Option<String> {
    read_until_newline(input, PIECE_BYTES_MAX).map(|line| text(&line))
}

fn read_until_newline(input: &mut impl BufRead, bytes_max: u64) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    match input.take(bytes_max).read_until(b'\n', &mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => {
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            Some(line)
        }
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
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
    fn a_long_line_of_a_trusted_program_comes_in_pieces() {
        let read = outputs(&vec![b'x'; PIECE_BYTES_MAX as usize + 1]);
        let Output::Line(first) = &read[0] else {
            panic!("{read:?}")
        };
        assert_eq!(first.len() as u64, PIECE_BYTES_MAX);
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

    #[test]
    fn an_endless_line_of_an_untrusted_program_is_cut_and_the_last_thing_read() {
        let (feed, sender) = bounded_feed();
        let listener = std::thread::spawn(move || sender.listen(0, std::io::repeat(b'x')));
        let outputs = std::iter::from_fn(|| feed.next(Duration::from_secs(20)).ok());
        let outputs: Vec<Output> = outputs.map(|item| item.output).collect();
        let [Output::TooLong(beginning), Output::Closed] = outputs.as_slice() else {
            panic!("{outputs:?}")
        };
        assert_eq!(beginning.len() as u64, LINE_BYTES_MAX + 1);
        listener.join().unwrap();
        let longest = [vec![b'x'; LINE_BYTES_MAX as usize], vec![b'\n']].concat();
        let (feed, sender) = bounded_feed();
        sender.listen(0, longest.as_slice());
        let read = feed.next(Duration::ZERO).unwrap().output;
        assert!(matches!(read, Output::Line(_)), "{read:?}");
    }

    /// Counts what is read from it.
    struct Counted(Arc<std::sync::atomic::AtomicUsize>);

    impl Read for Counted {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let bytes = buffer.len().min(6);
            buffer[..bytes].copy_from_slice(&b"flood\n"[..bytes]);
            self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Ok(bytes)
        }
    }

    #[test]
    fn a_flood_waits_holds_up_nobody_else_and_ends_with_the_stream() {
        let (feed, sender) = bounded_feed();
        let reads = Arc::default();
        let (flood, other) = (Counted(Arc::clone(&reads)), sender.clone());
        let flooding = std::thread::spawn(move || sender.listen(0, flood));
        while reads.load(std::sync::atomic::Ordering::SeqCst) <= LINES_WAITING_MAX {
            std::thread::yield_now();
        }
        other.listen(1, &b"hello\n"[..]);
        let waiting = feed.0.lock().items.len();
        assert_eq!(waiting, LINES_WAITING_MAX + 2);
        assert_eq!(
            reads.load(std::sync::atomic::Ordering::SeqCst),
            LINES_WAITING_MAX + 1
        );
        drop(feed);
        flooding.join().unwrap();
    }
}
