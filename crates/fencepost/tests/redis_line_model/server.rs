//! The scripts, each one atomic, as they run inside Redis.

use crate::invariants::Promise;
use crate::setup::Setup;
use crate::state::{
    Answer, Channel, Command, Entry, Key, Link, Message, Owner, Phase, Record, Request, State,
    Ticks, Token,
};
use crate::variants::Flaw;

/// Which of a client's connections a command came by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    Current,
    /// One that the client has given up: nobody reads the answer.
    Previous,
}

/// Whom ADVANCE gave the key to.
enum Next {
    Nobody,
    Caller { fence: u8 },
    Another,
}

/// What counts for an entry when its turn has come.
struct Standing {
    is_alive: bool,
    stamp_age: Ticks,
    channel: Channel,
}

/// Executes a command that has reached the server.
pub(crate) fn execute(state: &mut State, setup: &Setup, client: usize, command: Command, via: Via) {
    let token = Token {
        client: client as u8,
        wait: command.wait,
    };
    let channel = match via {
        _ if setup.poll_mode => Channel::Silent,
        Via::Current => Channel::Current,
        Via::Previous => Channel::Previous,
    };
    let mut script = Script {
        lift: command.lift && !setup.has(Flaw::NeverLifts),
        state,
        setup,
        token,
        channel,
        command,
    };
    if !setup.has(Flaw::LiftWaitsForAGrant) {
        script.lift_fence();
    }
    let answer = match command.request {
        Request::Acquire => script.acquire(),
        Request::Try => script.try_acquire(),
        Request::BeatWaiting => script.beat_waiting(),
        Request::BeatHolding => script.beat_holding(),
        Request::Leave => script.leave(),
    };
    if via == Via::Current && state.clients[client].link == Link::Up {
        state.clients[client].replies.push(Message {
            answer,
            wait: command.wait,
            stamp_age: command.stamp_age,
        });
    }
}

struct Script<'a> {
    state: &'a mut State,
    setup: &'a Setup,
    token: Token,
    channel: Channel,
    command: Command,
    lift: bool,
}

impl Script<'_> {
    fn acquire(&mut self) -> Answer {
        let ttl = self.setup.times.ttl;
        if self.state.server.key.is_none() && self.state.server.line.is_empty() {
            return self.take(ttl);
        }
        if self.state.server.is_owned_by(self.token) {
            return self.confirm(ttl);
        }
        let stood_in_line = self.state.server.entry(self.token).is_some();
        let told_ticket = self.enter_line(self.command.ticket);
        if stood_in_line || self.command.ticket > 0 {
            self.refresh();
        }
        if self.state.server.key.is_none()
            && let Next::Caller { fence } = self.advance(Some(ttl))
        {
            return Answer::Granted { fence, lease: ttl };
        }
        Answer::Queued {
            ticket: match self.state.server.entry(self.token) {
                Some(entry) if !self.setup.has(Flaw::QueuedTellsTheTimeNow) => entry.ticket,
                _ => told_ticket,
            },
        }
    }

    /// Enters nowhere and overtakes nobody; but those in line who are dead must not keep it out.
    fn try_acquire(&mut self) -> Answer {
        let ttl = self.setup.times.ttl;
        if self.state.server.is_owned_by(self.token) {
            return self.confirm(ttl);
        }
        if self.state.server.key.is_none() {
            let is_free = self.state.server.line.is_empty()
                || self.setup.has(Flaw::TryOvertakes)
                || (!self.setup.has(Flaw::TryTrustsTheLine)
                    && matches!(self.advance(None), Next::Nobody));
            if is_free {
                return self.take(ttl);
            }
        }
        if self.state.server.key.is_none() && !self.somebody_stands_before(u8::MAX) {
            self.state.convict(Promise::TryFindsAFreeLock);
        }
        Answer::Busy
    }

    fn beat_waiting(&mut self) -> Answer {
        let lease = self.setup.times.claim;
        if self.state.server.is_owned_by(self.token) {
            return self.confirm_waiter(lease);
        }
        let Some(&Entry { ticket, .. }) = self.state.server.entry(self.token) else {
            if !self.setup.has(Flaw::BeatEntersTheLine) {
                return Answer::Gone;
            }
            let ticket = self.enter_line(0);
            return Answer::Queued { ticket };
        };
        self.refresh();
        if self.state.server.key.is_none()
            && !self.setup.has(Flaw::BeatDoesNotAdvance)
            && let Next::Caller { fence } = self.advance(Some(lease))
        {
            return Answer::Granted { fence, lease };
        }
        Answer::Queued { ticket }
    }

    fn beat_holding(&mut self) -> Answer {
        if !self.state.server.is_owned_by(self.token) {
            return Answer::Lost;
        }
        self.extend(self.setup.times.ttl);
        Answer::Kept
    }

    fn leave(&mut self) -> Answer {
        let is_owner = self.state.server.is_owned_by(self.token);
        if is_owner || (self.setup.has(Flaw::ReleaseDoesNotCompare) && self.has_held()) {
            if !self.setup.has(Flaw::CancelOnlyLeavesTheLine) || self.has_held() {
                self.release();
            }
            return Answer::Left { released: true };
        }
        if !self.setup.has(Flaw::LeaveKeepsTheEntry) {
            self.drop_entry(self.token);
        }
        if !self.setup.has(Flaw::LeaveKeepsTheRecord) {
            self.drop_record(self.token);
        }
        if self.state.server.key.is_none() {
            self.advance(None);
        }
        Answer::Left { released: false }
    }

    fn release(&mut self) {
        let wait = self.token.wait;
        let client = self.state.client(self.token);
        client.noted.let_go |= client.wait == wait;
        if let Next::Nobody = self.advance(None) {
            self.state.server.key = None;
        }
    }

    fn has_held(&self) -> bool {
        let client = &self.state.clients[usize::from(self.token.client)];
        client.wait == self.token.wait && client.noted.has_held
    }

    /// ADVANCE: the key is free or being released, and goes to the first in line who is alive. The caller, if it waits
    /// itself, names the lease it would get.
    fn advance(&mut self, callers_lease: Option<Ticks>) -> Next {
        while !self.state.server.line.is_empty() {
            let last_or_first = match self.setup.has(Flaw::LastComeFirstServed) {
                true => self.state.server.line.len() - 1,
                false => 0,
            };
            let entry = self.state.server.line.remove(last_or_first);
            let standing = self.judged(&entry);
            if !standing.is_alive {
                self.note_skipped(&entry);
            }
            if !is_fresh(&entry) {
                self.drop_record(entry.token);
            }
            if !standing.is_alive {
                continue;
            }
            let fence = self.draw_fence();
            if let Some(lease) = callers_lease
                && entry.token == self.token
            {
                self.grant(entry.token, fence, lease, false);
                return Next::Caller { fence };
            }
            if self.receivers(entry.token, standing.channel) == 0
                && !self.setup.has(Flaw::GrantsToNobody)
            {
                continue;
            }
            let lease = match self.setup.has(Flaw::GrantsTheFullTtl) {
                true => self.setup.times.ttl,
                false => self.setup.times.claim,
            };
            self.grant(entry.token, fence, lease, true);
            self.publish(entry.token, &standing, fence, lease);
            return Next::Another;
        }
        Next::Nobody
    }

    /// What ADVANCE makes of an entry.
    fn judged(&self, entry: &Entry) -> Standing {
        let mut standing = match self.setup.has(Flaw::RecordsAreNotRead) {
            true => self.standing_by_member(entry),
            false => self.standing(entry),
        };
        standing.is_alive |= self.setup.has(Flaw::NoLivenessCheck);
        standing
    }

    fn standing(&self, entry: &Entry) -> Standing {
        match self.state.server.record(entry.token) {
            Some(record) if !is_fresh(entry) => Standing {
                is_alive: record.alive_for > 0,
                stamp_age: record.stamp_age,
                channel: record.channel,
            },
            _ => self.standing_by_member(entry),
        }
    }

    fn standing_by_member(&self, entry: &Entry) -> Standing {
        Standing {
            is_alive: entry.age < self.setup.times.liveness,
            stamp_age: entry.stamp_age,
            channel: entry.channel,
        }
    }

    /// What PUBLISH answers. A refusal by the ACL counts as delivered: poll mode.
    fn receivers(&self, token: Token, channel: Channel) -> u8 {
        let client = &self.state.clients[usize::from(token.client)];
        let subscribed = match channel {
            Channel::Current => client.link == Link::Up,
            Channel::Previous => client.previous.is_some(),
            Channel::Dead => false,
            Channel::Silent => true,
        };
        u8::from(subscribed) + u8::from(self.setup.monitor)
    }

    fn publish(&mut self, token: Token, standing: &Standing, fence: u8, lease: Ticks) {
        let client = self.state.client(token);
        if standing.channel == Channel::Current && client.link == Link::Up {
            client.pushes.push(Message {
                answer: Answer::Granted { fence, lease },
                wait: token.wait,
                stamp_age: standing.stamp_age,
            });
        }
    }

    /// `SET NX` by somebody for whom nobody alive has to wait.
    fn take(&mut self, lease: Ticks) -> Answer {
        let fence = self.draw_fence();
        self.grant(self.token, fence, lease, false);
        Answer::Granted { fence, lease }
    }

    fn grant(&mut self, token: Token, fence: u8, lease: Ticks, is_claim: bool) {
        if fence <= self.state.issued {
            self.state.convict(Promise::FencesGrow);
        }
        if let Some(arrival) = self.arrival(token)
            && self.somebody_stands_before(arrival)
        {
            self.state.convict(Promise::FirstComeFirstServed);
        }
        self.state.issued = fence;
        self.state.server.key = Some(Key {
            owner: Owner::Ours(token),
            remaining: lease,
            is_claim,
        });
    }

    /// The caller owns the key already.
    fn confirm(&mut self, lease: Ticks) -> Answer {
        self.extend(lease);
        self.drop_entry(self.token);
        self.drop_record(self.token);
        self.told_fence(lease)
    }

    fn confirm_waiter(&mut self, lease: Ticks) -> Answer {
        if let Some(key) = &mut self.state.server.key {
            key.remaining = match self.setup.has(Flaw::BeatShortensTheLease) {
                true => lease,
                false => key.remaining.max(lease),
            };
        }
        self.told_fence(lease)
    }

    fn extend(&mut self, lease: Ticks) {
        if let Some(key) = &mut self.state.server.key {
            key.remaining = key.remaining.max(lease);
            key.is_claim = false;
        }
    }

    /// The owner reads the counter: nobody else has been granted anything since.
    fn told_fence(&mut self, lease: Ticks) -> Answer {
        let fence = self.state.server.fence;
        if fence < self.state.issued {
            self.state.convict(Promise::FencesGrow);
        }
        self.state.issued = fence;
        Answer::Granted { fence, lease }
    }

    /// FENCE: `INCR`, and past the clock when the counter is new.
    fn draw_fence(&mut self) -> u8 {
        let is_new = self.state.server.fence == 0 && !self.setup.has(Flaw::PlainIncrement);
        let lifts = is_new || (self.lift && self.setup.has(Flaw::LiftWaitsForAGrant));
        if lifts {
            self.raise_fence();
        }
        self.state.server.fence += 1;
        self.state.server.fence
    }

    fn lift_fence(&mut self) {
        if self.lift {
            self.raise_fence();
            self.state.server.fence += 1;
        }
    }

    /// The clock is ahead of every fence that was ever drawn.
    fn raise_fence(&mut self) {
        self.state.server.fence = self.state.server.fence.max(self.state.issued);
    }

    /// `ZADD NX`. Answers the ticket it would have entered with.
    fn enter_line(&mut self, known_ticket: u8) -> u8 {
        let is_known = known_ticket > 0 && !self.setup.has(Flaw::ReentryDrawsANewTicket);
        let ticket = match is_known {
            true => known_ticket,
            false => self.state.latest_ticket() + 1,
        };
        if self.state.server.entry(self.token).is_some() {
            return ticket;
        }
        let entry = Entry {
            token: self.token,
            ticket,
            age: if is_known { self.setup.times.liveness } else { 0 },
            stamp_age: self.command.stamp_age,
            channel: self.channel,
        };
        let line = &mut self.state.server.line;
        let place = line.partition_point(|other| other.ticket < ticket);
        line.insert(place, entry);
        self.note_arrival(ticket);
        ticket
    }

    /// A client that never learned its first ticket cannot come back to its place.
    fn note_arrival(&mut self, ticket: u8) {
        let asks_for_a_ticket =
            self.command.request == Request::Acquire && self.command.ticket == 0;
        let wait = self.token.wait;
        let client = self.state.client(self.token);
        if client.wait == wait && (client.noted.arrival == 0 || asks_for_a_ticket) {
            client.noted.arrival = ticket;
        }
    }

    /// Says that the caller is alive, and where. A record is written only where ADVANCE will look for it, and take it
    /// away: written for a fresh entry, it would outlive the wait.
    fn refresh(&mut self) {
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

    fn drop_record(&mut self, token: Token) {
        self.state.server.records.retain(|it| it.token != token);
    }

    fn drop_entry(&mut self, token: Token) {
        self.state.server.line.retain(|it| it.token != token);
    }

    /// Whether somebody who came before the given arrival stands in the line. The onlooker's question: no script asks.
    fn somebody_stands_before(&self, arrival: u8) -> bool {
        let mut line = self.state.server.line.iter();
        line.any(|entry| self.stands_before(entry, arrival))
    }

    /// Whether this entry is of somebody who waits, alive and within reach, and came before.
    fn stands_before(&self, entry: &Entry, arrival: u8) -> bool {
        let standing = self.standing(entry);
        self.arrival(entry.token).is_some_and(|it| it < arrival)
            && self.state.clients[usize::from(entry.token.client)].is_well()
            && standing.is_alive
            && self.receivers(entry.token, standing.channel) > 0
    }

    /// Whoever is taken for dead must be.
    fn note_skipped(&mut self, entry: &Entry) {
        if self.stands_before(entry, u8::MAX) {
            self.state.convict(Promise::FirstComeFirstServed);
        }
    }

    /// When the client of this token came, if it still waits. One that has never been in line comes last.
    fn arrival(&self, token: Token) -> Option<u8> {
        let client = &self.state.clients[usize::from(token.client)];
        let waits = client.wait == token.wait && client.phase == Phase::Want;
        waits.then_some(match client.noted.arrival {
            0 => u8::MAX,
            ticket => ticket,
        })
    }
}

/// So young that no heartbeat can have come yet: the record is not looked for.
fn is_fresh(entry: &Entry) -> bool {
    entry.age == 0
}
