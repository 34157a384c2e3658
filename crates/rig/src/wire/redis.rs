//! RESP: every command has one reply, in order.

use std::collections::VecDeque;

use super::stand_in::StandIns;
use crate::frames::Frames;

/// How much of a command is looked at: enough for its name and first argument.
const HEAD_BYTES: usize = 96;

/// Commands about the connection or the server, not about a lock.
const CHECKS: [&str; 16] = [
    "PING",
    "ECHO",
    "HELLO",
    "AUTH",
    "SELECT",
    "CLIENT",
    "INFO",
    "ROLE",
    "COMMAND",
    "CONFIG",
    "READONLY",
    "READWRITE",
    "QUIT",
    "RESET",
    "CLUSTER",
    "SENTINEL",
];

/// The commands that were sent and not answered yet.
#[derive(Debug, Default)]
pub(super) struct Commands {
    sent: Frames,
    /// The start of the command that is being sent.
    head: Vec<u8>,
    /// For each unanswered command, whether it is a step.
    unanswered: VecDeque<bool>,
    received: Frames,
    /// Whether messages may come unasked in a form of their own, as in RESP3.
    has_pushes: bool,
    /// Whether the connection only listens to channels; then nothing on it is an answer.
    only_listens: bool,
    is_in_transaction: bool,
    stand_ins: StandIns,
}

impl Commands {
    pub(super) fn asked(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (length, ended) = self.sent.follow(bytes, 1);
            let room = HEAD_BYTES.saturating_sub(self.head.len()).min(length);
            self.head.extend_from_slice(&bytes[..room]);
            bytes = &bytes[length..];
            if ended == 1 {
                let head = std::mem::take(&mut self.head);
                self.note(&words(&head));
            }
        }
    }

    fn note(&mut self, words: &[String]) {
        let name = words.first().map_or("", String::as_str);
        if name == "HELLO" && words.get(1).is_some_and(|version| version == "3") {
            self.has_pushes = true;
        }
        match name {
            "MULTI" => self.is_in_transaction = true,
            "EXEC" | "DISCARD" => self.is_in_transaction = false,
            _ => {}
        }
        if is_subscription(name) {
            // Its answers are messages like those of the channel.
            self.only_listens |= !self.has_pushes;
            return;
        }
        self.unanswered.push_back(!CHECKS.contains(&name));
        self.stand_ins.expect();
    }

    /// Returns whether a transaction was begun, and neither executed nor discarded.
    pub(super) fn is_in_transaction(&self) -> bool {
        self.is_in_transaction
    }

    /// Lets an error stand in for the reply to the last command.
    pub(super) fn stand_in(&mut self, error: &'static str) {
        self.stand_ins.stand_in(error);
    }

    /// Returns what comes from the server, with errors in place of the replies for which they stand in.
    pub(super) fn replaced(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.stand_ins.replaced(bytes, self.only_listens)
    }

    pub(super) fn answered(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            let begins = self.received.is_between() && !matches!(bytes[at], b'>' | b'\r' | b'\n');
            let is_step = begins && !self.only_listens && self.unanswered.pop_front() == Some(true);
            if is_step {
                // One byte tells nothing yet. From there on, the message is under way and does not begin again.
                self.received.follow(&bytes[at..=at], 1);
                return Some(at + 1);
            }
            at += self.received.follow(&bytes[at..], 1).0;
        }
        None
    }
}

/// Returns the name of a command in upper case, if it is a step.
pub(crate) fn command_name(command: &[u8]) -> Option<String> {
    let head = &command[..command.len().min(HEAD_BYTES)];
    let name = words(head).into_iter().next()?;
    let is_step = !CHECKS.contains(&name.as_str()) && !is_subscription(&name);
    is_step.then_some(name)
}

fn is_subscription(name: &str) -> bool {
    name.ends_with("SUBSCRIBE")
}

/// Returns the first words of a command in upper case, whether it is an array of strings or a line.
fn words(head: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(head).to_uppercase();
    if !text.starts_with('*') {
        return text.split_whitespace().map(str::to_owned).collect();
    }
    let lines = text.split("\r\n").skip(2).step_by(2);
    lines.take(2).map(str::to_owned).collect()
}
