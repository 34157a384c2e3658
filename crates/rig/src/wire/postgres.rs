//! Postgres: a query, or a group of messages up to a Sync, has a reply that ends with "ready for query".

use std::collections::VecDeque;

use super::{Framed, Part, number};

const ENCRYPTION: [usize; 2] = [80_877_103, 80_877_104];
const CANCEL: usize = 80_877_102;
/// How much of a query is looked at.
const QUERY_BYTES: usize = 64;

/// The groups that were sent and not answered completely.
#[derive(Debug, Default)]
pub(super) struct Groups {
    sent: Framed,
    /// The connection has been set up: messages have a type.
    is_typed: bool,
    /// The type of the message that is being sent.
    kind: u8,
    body: Vec<u8>,
    /// Messages of a group were sent, and its Sync was not.
    is_open: bool,
    /// Whether each group is a step. The first may be the set-up.
    unanswered: VecDeque<bool>,
    /// Whether the reply to the first of them has begun.
    has_begun: bool,
    received: Framed,
    /// Requests for encryption, which are answered with one byte each.
    bytes_due: usize,
    /// The rest is encrypted.
    is_opaque: bool,
}

impl Groups {
    pub(super) fn asked(&mut self, mut bytes: &[u8]) {
        while !self.is_opaque {
            let next = if self.is_typed {
                let length = |head: &[u8]| number(&head[1..]).saturating_sub(4);
                self.sent.next(bytes, 5, length)
            } else {
                let length = |head: &[u8]| number(&head[..4]).saturating_sub(8);
                self.sent.next(bytes, 8, length)
            };
            let Some((part, length)) = next else {
                return;
            };
            bytes = &bytes[length..];
            match part {
                Part::Head(head) if self.is_typed => self.begin(&head),
                Part::Head(head) => self.greet(number(&head[4..])),
                Part::Body(piece, ended) => {
                    let room = QUERY_BYTES.saturating_sub(self.body.len()).min(piece.len());
                    self.body.extend_from_slice(&piece[..room]);
                    if ended {
                        self.note();
                    }
                }
            }
        }
    }

    /// Handles a message of the set-up, which has no type.
    fn greet(&mut self, code: usize) {
        match code {
            code if ENCRYPTION.contains(&code) => self.bytes_due += 1,
            CANCEL => {}
            _ => {
                self.is_typed = true;
                self.unanswered.push_back(false);
            }
        }
    }

    fn begin(&mut self, head: &[u8]) {
        self.kind = head[0];
        self.body.clear();
        if self.sent.left == 0 {
            self.note();
        }
    }

    fn note(&mut self) {
        let text = match self.kind {
            b'Q' => Some(&self.body[..]),
            // The name of the statement comes first.
            b'P' => self.body.splitn(2, |byte| *byte == 0).nth(1),
            _ => None,
        };
        let is_step = !text.is_some_and(is_check);
        match self.kind {
            b'Q' | b'F' => self.unanswered.push_back(is_step),
            b'P' | b'B' | b'D' | b'E' | b'C' if !self.is_open => {
                self.is_open = true;
                self.unanswered.push_back(is_step);
            }
            // A Sync by itself is answered, too.
            b'S' if !std::mem::take(&mut self.is_open) => self.unanswered.push_back(false),
            _ => {}
        }
        self.kind = 0;
    }

    pub(super) fn answered(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() && !self.is_opaque {
            if self.bytes_due > 0 {
                self.bytes_due -= 1;
                self.is_opaque = bytes[at] != b'N';
                at += 1;
                continue;
            }
            let length = |head: &[u8]| number(&head[1..]).saturating_sub(4);
            let (part, length) = self.received.next(&bytes[at..], 5, length)?;
            at += length;
            if let Part::Head(head) = part
                && self.is_step_reply(head[0])
            {
                return Some(at);
            }
        }
        None
    }

    /// Handles the type of a message. Returns whether the reply to a step begins with it.
    fn is_step_reply(&mut self, kind: u8) -> bool {
        // Notices, settings and notifications come unasked.
        if matches!(kind, b'N' | b'S' | b'A') {
            return false;
        }
        let begins = !std::mem::replace(&mut self.has_begun, true);
        let is_step = begins && self.unanswered.front() == Some(&true);
        if kind == b'Z' {
            self.unanswered.pop_front();
            self.has_begun = false;
        }
        is_step
    }
}

/// Returns whether a query is about the connection only.
fn is_check(text: &[u8]) -> bool {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text).trim().to_uppercase();
    let text = text.trim_end_matches(';').trim_end();
    matches!(text, "" | "SELECT 1" | "SELECT VERSION()")
        || text.starts_with("SET ")
        || text.starts_with("SHOW ")
}
