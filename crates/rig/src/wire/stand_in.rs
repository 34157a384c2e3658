//! Puts errors in place of replies of a Redis server.

use std::collections::VecDeque;

use crate::frames::Frames;

/// The replies that are due on a connection, and the errors that stand in for some of them.
#[derive(Debug, Default)]
pub(super) struct StandIns {
    /// For each reply, in order, the error that stands in for it.
    due: VecDeque<Option<&'static str>>,
    received: Frames,
    /// The reply that has begun is dropped.
    is_dropped: bool,
}

impl StandIns {
    /// Notes a command that will be answered.
    pub(super) fn expect(&mut self) {
        self.due.push_back(None);
    }

    /// Lets an error stand in for the reply to the last command.
    pub(super) fn stand_in(&mut self, error: &'static str) {
        if let Some(last) = self.due.back_mut() {
            *last = Some(error);
        }
    }

    /// Returns these bytes from the server with the errors in place of the replies. `only_listens`: nothing on the connection is a reply.
    pub(super) fn replaced(&mut self, bytes: &[u8], only_listens: bool) -> Vec<u8> {
        let (mut replaced, mut at) = (Vec::with_capacity(bytes.len()), 0);
        while at < bytes.len() {
            if self.received.is_between() {
                let is_reply = !only_listens && !matches!(bytes[at], b'>' | b'\r' | b'\n');
                let error = is_reply.then(|| self.due.pop_front()).flatten().flatten();
                self.is_dropped = error.is_some();
                if let Some(error) = error {
                    replaced.extend_from_slice(format!("-{error}\r\n").as_bytes());
                }
            }
            let (length, _) = self.received.follow(&bytes[at..], 1);
            if !self.is_dropped {
                replaced.extend_from_slice(&bytes[at..at + length]);
            }
            at += length;
        }
        replaced
    }
}
