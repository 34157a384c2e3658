//! Joining and leaving the line in the Redis model: the sorted set and the hash of records.

use crate::advance::is_fresh;
use crate::server::Script;
use crate::state::{Entry, Owner, Record, Request, Token};
use crate::variants::Flaw;

impl Script<'_> {
    /// `ZADD NX`. Returns the ticket that it would have entered with.
    pub(crate) fn enter_line(&mut self, known_ticket: u8) -> u8 {
        let is_known = known_ticket > 0 && !self.setup.has(Flaw::ReentryDrawsANewTicket);
        let ticket = if is_known {
            known_ticket
        } else {
            self.state.latest_ticket() + 1
        };
        if self.state.server.entry(self.token).is_some() {
            return ticket;
        }
        let entry = Entry {
            token: self.token,
            ticket,
            age: if is_known {
                self.setup.times.liveness
            } else {
                0
            },
            stamp_age: self.command.stamp_age,
            channel: self.channel,
        };
        let line = &mut self.state.server.line;
        let place = line.partition_point(|other| other.ticket < ticket);
        line.insert(place, entry);
        self.note_arrival(ticket);
        self.mark_key();
        ticket
    }

    /// Tells the holder, if it is one of our clients, that somebody waits.
    fn mark_key(&mut self) {
        let key = self.state.server.key.as_mut();
        let key = key.filter(|key| key.owner != Owner::Plain);
        if let Some(key) = key
            && !self.setup.has(Flaw::EnqueueDoesNotMark)
        {
            key.is_marked = true;
        }
    }

    /// A client that never learned its first ticket cannot return to its place.
    fn note_arrival(&mut self, ticket: u8) {
        let asks_for_a_ticket =
            self.command.request == Request::Acquire && self.command.ticket == 0;
        let wait = self.token.wait;
        let client = self.state.client(self.token);
        if client.wait == wait && (client.noted.arrival == 0 || asks_for_a_ticket) {
            client.noted.arrival = ticket;
        }
    }

    /// Records that the caller is alive, and on which channel. A record is written only where ADVANCE will look for it and
    /// remove it. If it were written for a fresh entry, it would outlive the wait.
    pub(crate) fn refresh(&mut self) {
        let entry = self.state.server.entry(self.token);
        if entry.is_some_and(is_fresh) && !self.setup.has(Flaw::RecordForAFreshEntry) {
            return;
        }
        self.drop_record(self.token);
        self.state.server.records.push(Record {
            token: self.token,
            alive_for: self.setup.times.liveness,
            stamp_age: self.command.stamp_age,
            channel: self.channel,
        });
    }

    pub(crate) fn drop_record(&mut self, token: Token) {
        self.state.server.records.retain(|it| it.token != token);
    }

    pub(crate) fn drop_entry(&mut self, token: Token) {
        self.state.server.line.retain(|it| it.token != token);
    }
}
