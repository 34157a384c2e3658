//! Prints to the terminal: survives a closed pipe, and uses colours only on a terminal.

use std::cell::RefCell;
use std::io::{self, IsTerminal, Write};
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Where the output of a thread goes.
#[derive(Debug, Clone, Default)]
pub(crate) enum Output {
    /// To standard output and standard error, immediately.
    #[default]
    Shown,
    /// Into a buffer, which is printed later in one piece.
    Kept(Arc<Mutex<Vec<u8>>>),
}

thread_local! {
    static OUTPUT: RefCell<Output> = const { RefCell::new(Output::Shown) };
}

impl Output {
    /// Returns the output of the current thread.
    pub(crate) fn of_this_thread() -> Self {
        OUTPUT.with_borrow(Clone::clone)
    }

    /// Takes the buffered text out of the buffer, if there is one.
    pub(crate) fn take(&self) -> Vec<u8> {
        match self {
            Self::Shown => Vec::new(),
            Self::Kept(text) => {
                mem::take(&mut *text.lock().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }

    /// Writes a line, which includes its line end. Ignores a closed pipe (`| head`).
    pub(crate) fn write(&self, mut shown: impl Write, line: &[u8]) {
        match self {
            Self::Shown => {
                let _ = shown.write_all(line).and_then(|()| shown.flush());
            }
            Self::Kept(text) => {
                let mut text = text.lock().unwrap_or_else(PoisonError::into_inner);
                text.extend_from_slice(line);
            }
        }
    }
}

/// Buffers the output of this thread from now on.
pub(crate) fn keep_output() -> Output {
    let output = Output::Kept(Arc::default());
    OUTPUT.set(output.clone());
    output
}

/// Writes a line to the output of this thread.
pub(crate) fn say(line: impl AsRef<str>) {
    let output = Output::of_this_thread();
    if cfg!(test) && matches!(output, Output::Shown) {
        // Test runners capture only `println!`.
        return println!("{}", line.as_ref());
    }
    output.write(
        io::stdout().lock(),
        format!("{}\n", line.as_ref()).as_bytes(),
    );
}

/// Prints a headline for a part of the work.
pub(crate) fn headline(text: &str) {
    say(format!("\n{}", paint("1", &format!("== {text}"))));
}

pub(crate) fn green(text: &str) -> String {
    paint("32", text)
}

pub(crate) fn red(text: &str) -> String {
    paint("31", text)
}

fn paint(code: &str, text: &str) -> String {
    if wants_colour() {
        format!("\x1b[{code}m{text}\x1b[0m")
    } else {
        text.into()
    }
}

/// Returns whether the output is a terminal and the user did not ask for plain text.
pub(crate) fn wants_colour() -> bool {
    let asked_for_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !asked_for_plain
}

/// Removes colours and cursor movements from a line.
pub(crate) fn without_escapes(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\x1b' && chars.next_if_eq(&'[').is_some() {
            // A control sequence ends with its first letter.
            while chars.next().is_some_and(|c| !c.is_ascii_alphabetic()) {}
        } else {
            plain.push(c);
        }
    }
    plain
}

/// Formats a duration: `3.2 s`, `4 min 05 s`.
pub(crate) fn duration(took: Duration) -> String {
    let seconds = took.as_secs();
    if seconds < 60 {
        format!("{:.1} s", took.as_secs_f64())
    } else {
        format!("{} min {:02} s", seconds / 60, seconds % 60)
    }
}

/// A line of the summary of a task: what ran, how it ended, and how long it took.
pub(crate) struct SummaryLine {
    pub(crate) name: String,
    pub(crate) result: String,
    pub(crate) took: Duration,
}

/// Prints the summary of a task below its headline.
pub(crate) fn summary(lines: impl IntoIterator<Item = SummaryLine>) {
    let row = |line: SummaryLine| vec![line.name, line.result, duration(line.took)];
    headline("results");
    say(table(&lines.into_iter().map(row).collect::<Vec<_>>()));
}

/// Formats rows as columns, each as wide as its widest cell. The last column is not padded.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells
            .map(|cell| without_escapes(cell).chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let padding = width - without_escapes(cell).chars().count();
            line.push_str(&format!("{cell}{}  ", " ".repeat(padding)));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.trim_end().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_disappear_and_text_stays() {
        assert_eq!(
            without_escapes("a \x1b[1;32mgreen\x1b[0m word\x1b[K"),
            "a green word"
        );
        assert_eq!(without_escapes("plain [1m"), "plain [1m");
        assert_eq!(without_escapes("cut \x1b["), "cut ");
    }

    #[test]
    fn what_a_thread_says_can_be_kept() {
        let kept = std::thread::spawn(|| {
            let output = keep_output();
            say("first");
            output.write(io::stderr(), b"second\n");
            output.take()
        });
        assert_eq!(kept.join().unwrap(), b"first\nsecond\n");
        assert!(matches!(Output::of_this_thread(), Output::Shown));
    }

    #[test]
    fn columns_line_up() {
        let rows = [
            vec!["a".into(), "x".into()],
            vec!["long".into(), "y".into()],
        ];
        assert_eq!(table(&rows), "a     x\nlong  y");
    }

    #[test]
    fn durations_read_well() {
        assert_eq!(duration(Duration::from_millis(3_210)), "3.2 s");
        assert_eq!(duration(Duration::from_secs(245)), "4 min 05 s");
    }
}
