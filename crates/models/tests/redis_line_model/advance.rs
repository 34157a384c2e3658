//! ADVANCE, the core of the Redis line: decides whose turn it is, and how that waiter learns of it.

use crate::invariants::Promise;
use crate::server::Script;
use crate::state::{
    Answer, Channel, Entry, Health, Key, Link, Message, Owner, Phase, Ticks, Token,
};
use crate::variants::Flaw;

/// Whom ADVANCE gave the key to.
pub(crate) enum Next {
    Nobody,
    Caller { fence: u8 },
    Another,
}

/// How the owner got the key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Given {
    /// Nobody waited.
    Free,
    /// From the line, in the answer to its own request.
    InTurn,
    /// From the line, by a push.
    Unheard,
}

/// What decides about an entry when its turn has come.
struct Standing {
    is_alive: bool,
    stamp_age: Ticks,
    channel: Channel,
}

impl Script<'_> {
    /// ADVANCE: the key is free or being released, and goes to the first living waiter in line. A caller that waits itself
    /// passes the lease it would get.
    pub(crate) fn advance(&mut self, callers_lease: Option<Ticks>) -> Next {
        while !self.state.server.line.is_empty() {
            let last_or_first = if self.setup.has(Flaw::LastComeFirstServed) {
                self.state.server.line.len() - 1
            } else {
                0
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
                self.grant(entry.token, fence, lease, Given::InTurn);
                return Next::Caller { fence };
            }
            if self.receivers(entry.token, standing.channel) == 0
                && !self.setup.has(Flaw::GrantsToNobody)
            {
                continue;
            }
            let lease = if self.setup.has(Flaw::GrantsTheFullTtl) {
                self.setup.times.ttl
            } else {
                self.setup.times.waiter_lease
            };
            self.grant(entry.token, fence, lease, Given::Unheard);
            self.publish(entry.token, &standing, fence, lease);
            return Next::Another;
        }
        Next::Nobody
    }

    /// Removes the entry before the caller's own if it is dead, and the last one if the caller is the first. The real script
    /// waits longer before it does.
    pub(crate) fn bury(&mut self) {
        let line = &self.state.server.line;
        let Some(own) = line.iter().position(|entry| entry.token == self.token) else {
            return;
        };
        let place = own.checked_sub(1).unwrap_or(line.len() - 1);
        let entry = line[place];
        let is_alive = self.standing(&entry).is_alive && !self.setup.has(Flaw::BuriesTheLiving);
        if place == own || is_alive {
            return;
        }
        self.note_skipped(&entry);
        self.drop_entry(entry.token);
        self.drop_record(entry.token);
    }

    /// Returns how ADVANCE judges an entry.
    fn judged(&self, entry: &Entry) -> Standing {
        let mut standing = if self.setup.has(Flaw::RecordsAreNotRead) {
            self.standing_by_member(entry)
        } else {
            self.standing(entry)
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

    /// Returns the answer of PUBLISH. A refusal by the ACL counts as delivered: poll mode.
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
                is_forgotten: false,
            });
        }
    }

    pub(crate) fn grant(&mut self, token: Token, fence: u8, lease: Ticks, given: Given) {
        self.note_issued(fence);
        if let Some(arrival) = self.arrival(token)
            && self.somebody_stands_before(arrival)
        {
            self.state.convict(Promise::FirstComeFirstServed);
        }
        self.state.server.key = Some(Key {
            owner: Owner::Ours(token),
            remaining: lease,
            has_waiter_lease: given == Given::Unheard,
            fence,
            is_marked: given != Given::Free,
            is_guessed: false,
        });
    }

    /// Returns whether a waiter that arrived before this arrival is in line. Only the observer asks this; no script does.
    pub(crate) fn somebody_stands_before(&self, arrival: u8) -> bool {
        let mut line = self.state.server.line.iter();
        line.any(|entry| self.stands_before(entry, arrival))
    }

    /// Returns whether this entry belongs to a waiting client that is alive, reachable and arrived earlier.
    fn stands_before(&self, entry: &Entry, arrival: u8) -> bool {
        let standing = self.standing(entry);
        self.arrival(entry.token).is_some_and(|it| it < arrival)
            && self.state.clients[usize::from(entry.token.client)].is_well()
            && standing.is_alive
            && self.receivers(entry.token, standing.channel) > 0
    }

    /// Checks that a waiter that was considered dead is dead.
    fn note_skipped(&mut self, entry: &Entry) {
        if self.stands_before(entry, u8::MAX) {
            self.state.convict(Promise::FirstComeFirstServed);
        }
    }

    /// Returns when the client of this token arrived, if it still waits. A client that has never been in line comes last.
    fn arrival(&self, token: Token) -> Option<u8> {
        let client = &self.state.clients[usize::from(token.client)];
        let waits = client.health != Health::Killed
            && client.phase == Phase::Want
            && client.wait == token.wait;
        waits.then_some(match client.noted.arrival {
            0 => u8::MAX,
            ticket => ticket,
        })
    }
}

/// Returns whether the entry is so young that no heartbeat can have arrived yet. Then the record is not read.
pub(crate) fn is_fresh(entry: &Entry) -> bool {
    entry.age == 0
}
