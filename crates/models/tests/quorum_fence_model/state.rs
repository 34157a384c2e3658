//! The state of the quorum model: three nodes, the clients, and the requests between them.

use std::array;

use crate::setup::Setup;

pub(crate) const NODES: usize = 3;
pub(crate) const MAJORITY: usize = 2;
pub(crate) const CLIENTS_MAX: usize = 3;
/// The maximum number of pending requests from one client to one node.
pub(crate) const ON_THE_WAY_MAX: usize = 4;
/// Epochs per tick if the server's clock lifts them: more than any setup can use in a tick.
pub(crate) const EPOCHS_PER_TICK: u8 = 8;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) nodes: [Node; NODES],
    pub(crate) clients: [Client; CLIENTS_MAX],
    pub(crate) wires: [[Wire; NODES]; CLIENTS_MAX],
    pub(crate) faults_left: u8,
    /// Counted only if the servers' clocks matter.
    pub(crate) clock: u8,
    /// Whether no fault has removed a key early.
    pub(crate) is_exclusive: bool,
    /// The set of granted epochs.
    pub(crate) granted: u64,
}

/// What a server stores about the lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Node {
    pub(crate) key: Option<Key>,
    /// The counter; 0 if there is none.
    pub(crate) counter: u8,
    /// Whether it serves nobody before the next tick.
    pub(crate) is_starting: bool,
    /// The number of ticks for which it grants no key, because it may have forgotten the owner of the lock.
    pub(crate) young: u8,
}

/// The lock's key with its value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) client: u8,
    /// The number of the attempt that wrote it.
    pub(crate) attempt: u8,
    /// The extension that set it; 0 if an attempt did.
    pub(crate) taken_by: u8,
    /// The count that was drawn here, or the epoch that was accepted.
    pub(crate) count: u8,
    pub(crate) left: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Idle,
    /// It requests the key on every node.
    Locking,
    /// It has a majority of keys, and asks every node to accept this epoch.
    Accepting(u8),
    /// A majority has accepted this epoch. Only the check of the time is left.
    Agreed(u8),
    /// The same with the epoch of the lease that it already has.
    Kept(u8),
    Holding(u8),
    Dead,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Vote {
    None,
    /// Another client has the key, or the epoch is refused. Contains the node's counter if that is the reason.
    No(u8),
    /// The key is ours, with this count; or the epoch is accepted, or the lease is extended.
    Yes(u8),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    pub(crate) attempt: u8,
    /// The number of ticks for which the client would still believe in a grant.
    pub(crate) left: u8,
    pub(crate) votes: [Vote; NODES],
    /// The last epoch that was granted to it and not released. The protocol does not use it; the promises are checked against
    /// it.
    pub(crate) lease: Option<u8>,
    /// The epoch of the lease that it remembers from before it started to ask.
    pub(crate) before: Option<u8>,
    /// The nodes that reported that they already had its key, where that makes a difference.
    pub(crate) known: [bool; NODES],
    /// The same as `left` for a pending extension.
    pub(crate) extending: Option<u8>,
    /// The number of extensions it has requested for this lease.
    pub(crate) extensions: u8,
    /// The last successful extension; 0 if there is none. Keys that later ones set do not vote.
    pub(crate) confirmed: u8,
    /// Whether a majority has said that it does not have this lease.
    pub(crate) is_lost: bool,
    /// The highest epoch that had been granted when it started to ask, for the lock or for an extension.
    pub(crate) older: u8,
    /// The last epoch that was granted to it, if the servers' clocks lift counters.
    pub(crate) seen: u8,
    pub(crate) attempts_left: u8,
    pub(crate) raises_left: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    /// Requests the key. A key of the same client from this attempt or an earlier one counts as released.
    Lock {
        attempt: u8,
        void: Option<u8>,
        /// A missing counter is raised past this epoch.
        seen: u8,
    },
    Accept {
        attempt: u8,
        epoch: u8,
    },
    /// Extends the lease, and sets a key that is missing.
    Extend {
        attempt: u8,
        epoch: u8,
        extension: u8,
        confirmed: u8,
        /// Whether it waits for a new connection.
        is_waiting: bool,
    },
    Release {
        attempt: u8,
    },
}

/// The keys of this attempt that extensions set after this one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Taken {
    pub(crate) attempt: u8,
    pub(crate) after: u8,
}

/// One client's connection to one node. It keeps the order of requests as long as it lasts.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Wire {
    pub(crate) requests: [Option<Request>; ON_THE_WAY_MAX],
    /// A release without an answer, which is sent again at any time. It covers this attempt and earlier ones.
    pub(crate) owed: Option<u8>,
    /// The same for keys that extensions of a lost lease set in vain.
    pub(crate) owed_taken: Option<Taken>,
    /// Whether the next request that draws a count is the first over this connection.
    pub(crate) is_new: bool,
}

impl State {
    pub(crate) fn new(setup: &Setup) -> Self {
        let client = |at: usize| Client {
            phase: Phase::Idle,
            attempt: 0,
            left: 0,
            votes: [Vote::None; NODES],
            lease: None,
            before: None,
            known: [false; NODES],
            extending: None,
            extensions: 0,
            confirmed: 0,
            is_lost: false,
            older: 0,
            seen: 0,
            attempts_left: setup.attempts[at],
            raises_left: 0,
        };
        let wire = Wire {
            requests: [None; ON_THE_WAY_MAX],
            owed: None,
            owed_taken: None,
            is_new: true,
        };
        let start = Self {
            nodes: array::from_fn(|at| Node {
                counter: setup.counters[at],
                ..Node::default()
            }),
            clients: array::from_fn(client),
            wires: [[wire; NODES]; CLIENTS_MAX],
            faults_left: setup.faults,
            clock: 0,
            is_exclusive: true,
            granted: 0,
        };
        if setup.begins_held {
            start.held_by_the_first(setup)
        } else {
            start
        }
    }

    /// Makes the first client the holder on the first two nodes. It has not asked the third.
    fn held_by_the_first(mut self, setup: &Setup) -> Self {
        let epoch = setup.counters[0];
        let holder = &mut self.clients[0];
        holder.phase = Phase::Holding(epoch);
        holder.lease = setup.holds_while_it_asks().then_some(epoch);
        holder.attempt = 1;
        holder.left = setup.ttl;
        self.granted = 1 << epoch;
        for node in 0..MAJORITY {
            self.nodes[node].key = Some(Key {
                client: 0,
                attempt: 1,
                taken_by: 0,
                count: epoch,
                left: setup.ttl,
            });
        }
        self
    }

    /// Returns the highest epoch granted so far; 0 if there is none.
    pub(crate) fn highest(&self) -> u8 {
        63_u32.saturating_sub(self.granted.leading_zeros()) as u8
    }

    pub(crate) fn send(&mut self, client: usize, node: usize, request: Request) {
        self.wires[client][node].push(request);
    }

    pub(crate) fn send_to_all(&mut self, client: usize, request: Request) {
        for node in 0..NODES {
            self.send(client, node, request);
        }
    }

    /// Returns whether one more request fits on the connection to every node.
    pub(crate) fn has_room(&self, client: usize) -> bool {
        self.wires[client]
            .iter()
            .all(|wire| wire.requests[ON_THE_WAY_MAX - 2].is_none())
    }
}

impl Wire {
    fn push(&mut self, request: Request) {
        let free = self.requests.iter_mut().find(|slot| slot.is_none());
        *free.expect("moves leave room for a release") = Some(request);
    }

    pub(crate) fn pop(&mut self) -> Option<Request> {
        let first = self.requests[0].take();
        self.requests.rotate_left(1);
        first
    }

    /// Records that a release was answered. A later one may still be owed.
    pub(crate) fn paid(&mut self, attempt: u8) {
        self.owed = self.owed.filter(|owed| *owed > attempt);
    }

    /// Breaks the connection, so that pending requests are lost. An extension of a held lease may not have been sent yet; then
    /// it waits for the next connection.
    pub(crate) fn cut(&mut self) {
        let mut waiting = self.requests;
        let is_release =
            |request: &Option<Request>| matches!(request, Some(Request::Release { .. }));
        let is_given_back = self.requests.iter().any(is_release);
        for request in &mut waiting {
            match request {
                Some(Request::Extend { is_waiting, .. }) if !is_given_back => *is_waiting = true,
                _ => *request = None,
            }
        }
        self.requests = [None; ON_THE_WAY_MAX];
        waiting
            .into_iter()
            .flatten()
            .for_each(|request| self.push(request));
        self.is_new = true;
    }

    /// Notes that keys that this client set in vain must be released. If an earlier release is owed, one release covers both.
    pub(crate) fn owe_taken(&mut self, taken: Taken) {
        match &mut self.owed {
            Some(attempt) => *attempt = taken.attempt,
            None => self.owed_taken = Some(taken),
        }
    }

    /// Returns whether an extension was sent and not executed yet.
    pub(crate) fn has_extension(&self) -> bool {
        let mut requests = self.requests.iter().flatten();
        requests.any(|request| matches!(request, Request::Extend { .. }))
    }

    /// Removes and returns the extensions that wait for a connection.
    pub(crate) fn take_waiting(&mut self) -> impl Iterator<Item = Request> + use<> {
        let all = std::mem::replace(&mut self.requests, [None; ON_THE_WAY_MAX]);
        let is_waiting = |request: &Request| {
            matches!(
                request,
                Request::Extend {
                    is_waiting: true,
                    ..
                }
            )
        };
        let sent = all
            .into_iter()
            .flatten()
            .filter(|request| !is_waiting(request));
        sent.for_each(|request| self.push(request));
        all.into_iter().flatten().filter(is_waiting)
    }
}

impl Client {
    /// Returns how many nodes have refused.
    pub(crate) fn no(&self) -> usize {
        let is_no = |vote: &&Vote| matches!(vote, Vote::No(_));
        self.votes.iter().filter(is_no).count()
    }

    pub(crate) fn yes(&self) -> usize {
        let is_yes = |vote: &&Vote| matches!(vote, Vote::Yes(_));
        self.votes.iter().filter(is_yes).count()
    }

    /// Returns how many nodes report that they had its key all the time. Unless `by_keys_alone`, only those count whose count
    /// is its epoch.
    pub(crate) fn known(&self, epoch: u8, by_keys_alone: bool) -> usize {
        let proves = |vote: Vote| match vote {
            Vote::Yes(count) => count == epoch || by_keys_alone,
            _ => false,
        };
        let both = self.known.into_iter().zip(self.votes);
        both.filter(|(known, vote)| *known && proves(*vote)).count()
    }

    /// Returns whether it is a holder that still believes.
    pub(crate) fn believes(&self) -> bool {
        matches!(self.phase, Phase::Holding(_)) && self.left > 0
    }

    /// Returns to the start. The next attempt begins with new votes.
    pub(crate) fn rest(&mut self) {
        self.phase = Phase::Idle;
        self.left = 0;
        self.votes = [Vote::None; NODES];
        self.before = None;
        self.known = [false; NODES];
        self.extending = None;
        self.extensions = 0;
        self.confirmed = 0;
        self.is_lost = false;
        self.older = 0;
        self.raises_left = 0;
    }
}
