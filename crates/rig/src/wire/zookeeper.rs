//! ZooKeeper: packets with a length. A reply carries the number of its request; pings and watches have numbers below zero.

use super::{Framed, Part, number};

/// The length, and the number of the request.
const HEAD_BYTES: usize = 8;

/// The packets from the server.
#[derive(Debug, Default)]
pub(super) struct Packets {
    received: Framed,
    /// The session has been set up.
    is_connected: bool,
}

impl Packets {
    pub(super) fn answered(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            let length = |head: &[u8]| number(&head[..4]).saturating_sub(4);
            let (part, length) = self.received.next(&bytes[at..], HEAD_BYTES, length)?;
            at += length;
            let Part::Head(head) = part else {
                continue;
            };
            let is_unasked = head[4] & 0x80 != 0;
            if std::mem::replace(&mut self.is_connected, true) && !is_unasked {
                return Some(at);
            }
        }
    }
}
