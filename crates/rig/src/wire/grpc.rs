//! gRPC over HTTP/2: what the server sends on a stream after the client has sent a message there is its reply.

use std::collections::HashSet;

use super::{Framed, Part, number};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The length, the type, the flags and the stream.
const HEAD_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;

/// The streams of a connection.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// How much of the preface was sent.
    preface: usize,
    sent: Framed,
    received: Framed,
    /// The streams with a message of the client that the server has not answered.
    asked: HashSet<usize>,
    /// This is not HTTP/2, or it is encrypted.
    is_opaque: bool,
}

impl Streams {
    pub(super) fn asked(&mut self, bytes: &[u8]) {
        let mut rest = self.after_preface(bytes);
        while !self.is_opaque
            && let Some((part, length)) = next(&mut self.sent, rest)
        {
            rest = &rest[length..];
            let Part::Head(head) = part else {
                continue;
            };
            match head[3] {
                DATA if self.sent.left > 0 => {
                    self.asked.insert(stream(&head));
                }
                // The client has cancelled its request.
                RESET => {
                    self.asked.remove(&stream(&head));
                }
                _ => {}
            }
        }
    }

    fn after_preface<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let due = &PREFACE[self.preface..];
        let (sent, rest) = bytes.split_at(bytes.len().min(due.len()));
        self.is_opaque |= !due.starts_with(sent);
        self.preface += sent.len();
        rest
    }

    pub(super) fn answered(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while !self.is_opaque {
            let (part, length) = next(&mut self.received, &bytes[at..])?;
            at += length;
            let Part::Head(head) = part else {
                continue;
            };
            let is_reply = matches!(head[3], DATA | HEADERS) && self.received.left > 0;
            // A reset ends the request, too, but is no reply to it.
            let is_end = is_reply || head[3] == RESET;
            let was_asked = is_end && self.asked.remove(&stream(&head));
            if was_asked && is_reply {
                return Some(at);
            }
        }
        None
    }
}

fn next<'a>(frames: &mut Framed, bytes: &'a [u8]) -> Option<(Part<'a>, usize)> {
    frames.next(bytes, HEAD_BYTES, |head| number(&head[..3]))
}

fn stream(head: &[u8]) -> usize {
    number(&head[5..9]) & 0x7fff_ffff
}
