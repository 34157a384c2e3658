//! A minimal client for RESP, the protocol of Redis.
//!
//! It is for the few commands that the rig and tests need. Locks on trial use their own client.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// The maximum length of an answer. A longer one does not come from a server that understood the command.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
const NESTING_MAX: usize = 8;

/// An answer of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A simple string, such as `OK`.
    Word(String),
    /// An error message.
    Error(String),
    /// A whole number.
    Number(i64),
    /// A bulk string; bytes that are not UTF-8 are replaced.
    Text(String),
    /// A null value.
    Nil,
    /// Several answers.
    List(Vec<Value>),
}

/// A connection that sends one command at a time.
#[derive(Debug)]
pub struct Connection(BufReader<TcpStream>);

impl Connection {
    /// Connects. Connecting, and each later answer, may take up to `timeout`.
    ///
    /// # Errors
    /// Returns the system's error; if the name has several addresses, that of the last one.
    pub fn open(address: impl ToSocketAddrs, timeout: Duration) -> io::Result<Self> {
        let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(timeout))?;
                    stream.set_write_timeout(Some(timeout))?;
                    return Ok(Self(BufReader::new(stream)));
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Sends a command and reads its answer.
    ///
    /// # Errors
    /// Returns the system's error, or [`InvalidData`](io::ErrorKind::InvalidData) if the answer is not RESP. After an error, the
    /// connection must not be used any more.
    pub fn ask(&mut self, words: &[&str]) -> io::Result<Value> {
        self.send(words)?;
        self.hear()
    }

    /// Sends one command, and does not wait for its answer.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn send(&mut self, words: &[&str]) -> io::Result<()> {
        let mut command = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            command.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
        self.0.get_mut().write_all(&command)
    }

    /// Waits for the next answer, or for the next message of a channel.
    ///
    /// # Errors
    /// Returns the same errors as [`ask`](Self::ask).
    pub fn hear(&mut self) -> io::Result<Value> {
        read(&mut self.0, NESTING_MAX)
    }
}

fn read(input: &mut impl BufRead, depth: usize) -> io::Result<Value> {
    let line = read_line(input)?;
    let mut letters = line.chars();
    let kind = letters.next();
    let rest = letters.as_str();
    match kind {
        Some('+') => Ok(Value::Word(rest.into())),
        Some('-') => Ok(Value::Error(rest.into())),
        Some(':') => Ok(Value::Number(rest.parse().map_err(|_| foreign(&line))?)),
        Some('$') => match length(rest, &line)? {
            None => Ok(Value::Nil),
            Some(length) => {
                let mut bytes = vec![0; length + 2];
                input.read_exact(&mut bytes)?;
                bytes.truncate(length);
                Ok(Value::Text(String::from_utf8_lossy(&bytes).into_owned()))
            }
        },
        Some('*') if depth > 0 => match length(rest, &line)? {
            None => Ok(Value::Nil),
            Some(length) => (0..length)
                .map(|_| read(input, depth - 1))
                .collect::<io::Result<_>>()
                .map(Value::List),
        },
        _ => Err(foreign(&line)),
    }
}

fn read_line(input: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    input
        .take(ANSWER_BYTES_MAX as u64)
        .read_until(b'\n', &mut line)?;
    let text = String::from_utf8_lossy(&line).into_owned();
    match text.strip_suffix("\r\n") {
        Some(line) => Ok(line.into()),
        None if line.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
        None => Err(foreign(&text)),
    }
}

/// Parses a length; `None` for −1, which means null.
fn length(text: &str, line: &str) -> io::Result<Option<usize>> {
    if text == "-1" {
        return Ok(None);
    }
    let length: usize = text.parse().map_err(|_| foreign(line))?;
    if length > ANSWER_BYTES_MAX {
        return Err(foreign(line));
    }
    Ok(Some(length))
}

fn foreign(line: &str) -> io::Error {
    let start: String = line.chars().take(60).flat_map(char::escape_debug).collect();
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("not the answer of a Redis server: '{start}'"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(bytes: &[u8]) -> io::Result<Value> {
        read(&mut &bytes[..], NESTING_MAX)
    }

    #[test]
    fn every_kind_of_answer_is_understood() {
        let text = |text: &str| Value::Text(text.into());
        assert_eq!(answer(b"+OK\r\n").unwrap(), Value::Word("OK".into()));
        assert_eq!(
            answer(b"-ERR no\r\n").unwrap(),
            Value::Error("ERR no".into())
        );
        assert_eq!(answer(b":-2\r\n").unwrap(), Value::Number(-2));
        assert_eq!(answer(b"$4\r\na\r\nb\r\n").unwrap(), text("a\r\nb"));
        assert_eq!(answer(b"$-1\r\n").unwrap(), Value::Nil);
        assert_eq!(
            answer(b"*2\r\n$1\r\nx\r\n*1\r\n:7\r\n").unwrap(),
            Value::List(vec![text("x"), Value::List(vec![Value::Number(7)])])
        );
    }

    #[test]
    fn what_is_not_an_answer_is_told_so() {
        for bytes in [
            "HTTP/1.1 400\r\n",
            "$99999999999\r\n",
            "$x\r\n",
            ":\r\n",
            "+no end",
        ] {
            let error = answer(bytes.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{bytes}");
        }
        let deep = "*1\r\n".repeat(NESTING_MAX + 1) + ":1\r\n";
        assert_eq!(
            answer(deep.as_bytes()).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
        for bytes in ["", "$4\r\nab"] {
            let error = answer(bytes.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{bytes}");
        }
    }
}
