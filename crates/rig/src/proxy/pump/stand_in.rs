//! Errors that the proxy sends in place of the replies of a Redis server.

use std::sync::Mutex;

use super::Road;
use crate::proxy::{CommandJudge, Direction, Faults, StandIn, lock};
use crate::wire::{Conversation, command_name};

/// What the server is asked in place of a command that must not reach it. Its reply keeps the order of the replies.
const IN_ITS_PLACE: &[u8] = b"*1\r\n$4\r\nPING\r\n";

impl Road<'_> {
    /// Returns who decides about commands, if this is the way to a server of Redis.
    pub(super) fn command_judge(&self) -> Option<CommandJudge> {
        let is_resp = |conversation: &Mutex<Conversation>| lock(conversation).is_resp();
        let is_way =
            self.direction == Direction::ToServer && self.conversation.is_some_and(is_resp);
        is_way
            .then(|| lock(&self.shared.command_judge).clone())
            .flatten()
    }

    /// Returns what stands in for the reply to this command, if it is a step outside a transaction and the judge says so.
    pub(super) fn judged(&mut self, command: &[u8], judge: &CommandJudge) -> Option<StandIn> {
        let name = command_name(command)?;
        let was_in_transaction = || {
            let conversation = self.conversation?;
            Some(lock(conversation).is_in_transaction())
        };
        let is_in_transaction = self.is_in_transaction.or_else(was_in_transaction);
        match name.as_str() {
            "MULTI" => self.is_in_transaction = Some(true),
            "EXEC" | "DISCARD" => self.is_in_transaction = Some(false),
            _ if is_in_transaction != Some(true) => return judge(&name),
            _ => {}
        }
        None
    }

    /// Sends a command, or another one in its place, to whose reply the error will be preferred.
    pub(super) fn replace(&mut self, command: &[u8], stand_in: StandIn, faults: &Faults) {
        if faults.swallow[self.direction as usize] {
            return self.swallow(command);
        }
        let sent = match stand_in.is_carried_out {
            true => command,
            false => IN_ITS_PLACE,
        };
        self.take_piece(sent, faults);
        if let Some(piece) = self.waiting.back_mut() {
            piece.stand_in = Some(stand_in.error);
        }
    }

    /// Returns what comes from a server of Redis, with errors in place of some replies. `None` for other servers.
    pub(super) fn replaced(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let conversation = self.conversation?;
        lock(conversation).replaced(bytes)
    }
}
