//! Finds the boundaries of RESP messages in a stream that arrives in pieces.

/// How much of a line is parsed: enough for its type and a length.
const HEAD_BYTES: usize = 24;

/// Follows one direction of a connection and counts its top-level messages.
///
/// Understands commands and answers in RESP2 and RESP3, and inline commands. In other protocols, each line counts as a message.
#[derive(Debug, Clone, Default)]
pub(crate) struct Frames {
    /// The start of the line that is being read.
    head: Vec<u8>,
    /// How many bytes of a string are still to come, including its line end.
    body_left: u64,
    /// How many elements are still to come, for each level of nesting.
    parts_left: Vec<u64>,
}

impl Frames {
    /// Follows `bytes` up to the end of `most` messages. Returns how many bytes that are, and how many messages end in them.
    pub(crate) fn follow(&mut self, bytes: &[u8], most: u64) -> (usize, u64) {
        let (mut at, mut ended) = (0, 0);
        while at < bytes.len() && ended < most {
            if self.body_left > 0 {
                let step = self.body_left.min((bytes.len() - at) as u64);
                self.body_left -= step;
                at += step as usize;
                if self.body_left == 0 {
                    ended += u64::from(self.part_ends());
                }
                continue;
            }
            let byte = bytes[at];
            at += 1;
            if byte == b'\n' {
                ended += u64::from(self.line_ends());
            } else if self.head.len() < HEAD_BYTES {
                self.head.push(byte);
            }
        }
        (at, ended)
    }

    /// Returns whether the bytes so far end at a message boundary.
    pub(crate) fn is_between(&self) -> bool {
        self.head.is_empty() && self.body_left == 0 && self.parts_left.is_empty()
    }

    /// Handles a complete line. Returns whether a message ends with it.
    fn line_ends(&mut self) -> bool {
        let head = std::mem::take(&mut self.head);
        let text = std::str::from_utf8(&head).unwrap_or_default().trim_end();
        let number = text.get(1..).and_then(|digits| digits.parse::<u64>().ok());
        match (text.chars().next(), number) {
            (Some('$' | '!' | '='), Some(length)) => {
                self.body_left = length.saturating_add(2);
                false
            }
            (Some('*' | '~' | '>'), Some(parts @ 1..)) => self.level(parts),
            (Some('%'), Some(pairs @ 1..)) => self.level(pairs.saturating_mul(2)),
            // Attributes belong to the following message and end with it.
            (Some('|'), Some(pairs)) => self.level(pairs.saturating_mul(2).saturating_add(1)),
            // An empty line between messages does not count as a message.
            (None, _) if self.parts_left.is_empty() => false,
            _ => self.part_ends(),
        }
    }

    fn level(&mut self, parts: u64) -> bool {
        self.parts_left.push(parts);
        false
    }

    /// Handles a complete element. Returns whether it was the last of a top-level message.
    fn part_ends(&mut self) -> bool {
        while let Some(left) = self.parts_left.last_mut() {
            *left -= 1;
            if *left > 0 {
                return false;
            }
            self.parts_left.pop();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] =
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\n*1\r\n$\r\nPING\r\n*0\r\n+OK\r\n$-1\r\n\
        %1\r\n+a\r\n*2\r\n:1\r\n$0\r\n\r\n|1\r\n+ttl\r\n:9\r\n$2\r\nhi\r\n>2\r\n$3\r\nmsg\r\n_\r\n";
    const MESSAGES: u64 = 8;

    #[test]
    fn messages_are_counted_however_the_stream_is_cut() {
        for size in [1, 2, 3, 7, STREAM.len()] {
            let mut frames = Frames::default();
            let pieces = STREAM.chunks(size);
            let ended: u64 = pieces
                .map(|piece| {
                    let (followed, ended) = frames.follow(piece, u64::MAX);
                    assert_eq!(followed, piece.len());
                    ended
                })
                .sum();
            assert_eq!(ended, MESSAGES, "in pieces of {size}");
            assert!(frames.is_between());
        }
    }

    #[test]
    fn following_stops_where_the_last_wanted_message_ends() {
        let mut frames = Frames::default();
        let first = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\n*1\r\n$\r\n";
        assert_eq!(frames.follow(STREAM, 1), (first.len(), 1));
        assert_eq!(frames.follow(&STREAM[first.len()..], 1), (6, 1));
        assert_eq!(frames.follow(STREAM, 0), (0, 0));
    }

    #[test]
    fn lines_of_something_else_count_one_each() {
        let mut frames = Frames::default();
        let text = format!("hello\n\n{}\nlast", "x".repeat(1000));
        assert_eq!(frames.follow(text.as_bytes(), u64::MAX), (text.len(), 2));
    }
}
