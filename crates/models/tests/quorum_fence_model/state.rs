//! The world at one moment: three nodes, the clients, and what is on its way between them.

use std::array;

use crate::setup::Setup;

pub(crate) const NODES: usize = 3;
pub(crate) const MAJORITY: usize = 2;
pub(crate) const CLIENTS_MAX: usize = 3;
/// Requests that may be on their way from one client to one node.
pub(crate) const ON_THE_WAY_MAX: usize = 4;
/// Epochs per tick where a server's time lifts them: more than a world here can use up in a tick.
pub(crate) const EPOCHS_PER_TICK: u8 = 8;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) nodes: [Node; NODES],
    pub(crate) clients: [Client; CLIENTS_MAX],
    pub(crate) wires: [[Wire; NODES]; CLIENTS_MAX],
    pub(crate) faults_left: u8,
    /// Counted only where the servers' time matters.
    pub(crate) clock: u8,
    /// No fault has taken a key away before its time.
    pub(crate) is_exclusive: bool,
    /// Epochs that were granted, as a set.
    pub(crate) granted: u64,
}

/// What a server keeps of the lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Node {
    pub(crate) key: Option<Key>,
    /// 0: there is none.
    pub(crate) counter: u8,
    /// Serves nobody before the next tick.
    pub(crate) is_starting: bool,
    /// Ticks for which it gives no key to anybody, because it may have forgotten whose the lock is.
    pub(crate) young: u8,
}

/// The lock's key with its value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) client: u8,
    /// The stamp of the request that wrote it.
    pub(crate) attempt: u8,
    /// The extension that took it; 0: an attempt did.
    pub(crate) taken_by: u8,
    /// The count that was drawn here for it, or the epoch that was accepted.
    pub(crate) count: u8,
    pub(crate) left: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Idle,
    /// Asks for the key on every node.
    Locking,
    /// Has a majority of keys, and asks every node to accept this epoch.
    Accepting(u8),
    /// A majority has this epoch for it; what is left is a look at the time.
    Agreed(u8),
    /// The same with the epoch of the lease that it has already.
    Kept(u8),
    Holding(u8),
    Dead,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Vote {
    None,
    /// Somebody else has the key, or the epoch is refused; with the node's counter where that is why.
    No(u8),
    /// The key is ours, with this count; or the epoch is accepted, or the lease extended.
    Yes(u8),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    pub(crate) attempt: u8,
    /// Ticks for which a grant would still be believed in.
    pub(crate) left: u8,
    pub(crate) votes: [Vote; NODES],
    /// The last epoch that was granted to it and not given back. Nobody acts by it; the promises are held against it.
    pub(crate) lease: Option<u8>,
    /// The epoch of the lease that it remembers to have had when it began to ask.
    pub(crate) before: Option<u8>,
    /// The nodes that have said that they had its key before; where it makes a difference.
    pub(crate) known: [bool; NODES],
    /// The same as `left` for an extension that is under way.
    pub(crate) extending: Option<u8>,
    /// How many extensions of this lease it has asked for.
    pub(crate) extensions: u8,
    /// The last of them that succeeded; 0: none. Keys that later ones took do not vote.
    pub(crate) confirmed: u8,
    /// A majority has said that it does not have this lease.
    pub(crate) is_lost: bool,
    /// The highest epoch that had been granted when it began to ask, for the lock or for an extension.
    pub(crate) older: u8,
    /// The last epoch that was granted to it; where servers' time lifts counters.
    pub(crate) seen: u8,
    pub(crate) attempts_left: u8,
    pub(crate) raises_left: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    /// A key of the asker's own from this attempt or an earlier one counts as released.
    Lock {
        attempt: u8,
        void: Option<u8>,
        /// A counter that is gone passes this epoch.
        seen: u8,
    },
    Accept {
        attempt: u8,
        epoch: u8,
    },
    /// Takes a key that is not there.
    Extend {
        attempt: u8,
        epoch: u8,
        extension: u8,
        confirmed: u8,
        /// It waits for a new connection.
        is_waiting: bool,
    },
    Release {
        attempt: u8,
    },
}

/// Keys of this attempt that extensions took after this one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Taken {
    pub(crate) attempt: u8,
    pub(crate) after: u8,
}

/// One client's connection to one node: in order, as long as it lasts.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Wire {
    pub(crate) requests: [Option<Request>; ON_THE_WAY_MAX],
    /// A release whose answer was not heard, and that is sent again at any time: it is about this attempt and those before.
    pub(crate) owed: Option<u8>,
    /// The same of keys that extensions of a lost lease took in vain.
    pub(crate) owed_taken: Option<Taken>,
    /// The next request that draws a count is the first over this connection.
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
        match setup.begins_held {
            true => start.held_by_the_first(setup),
            false => start,
        }
    }

    /// The first client holds the lock on the first two nodes, and has asked nothing of the third.
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

    /// The highest epoch granted so far; 0: none.
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

    /// Whether one more request would go through to every node.
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

    /// A release was answered; a later one may still be owed.
    pub(crate) fn paid(&mut self, attempt: u8) {
        self.owed = self.owed.filter(|owed| *owed > attempt);
    }

    /// The connection breaks: what was on its way is lost. An extension of a lease that is still held may not have been sent yet; then it
    /// waits for the next connection.
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

    /// Keys that this client took in vain are to be released. Where an earlier release is owed, one release is about both.
    pub(crate) fn owe_taken(&mut self, taken: Taken) {
        match &mut self.owed {
            Some(attempt) => *attempt = taken.attempt,
            None => self.owed_taken = Some(taken),
        }
    }

    /// An extension was sent and has not been carried out.
    pub(crate) fn has_extension(&self) -> bool {
        let mut requests = self.requests.iter().flatten();
        requests.any(|request| matches!(request, Request::Extend { .. }))
    }

    /// Takes out the extensions that wait for a connection.
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
    /// How many nodes have refused.
    pub(crate) fn no(&self) -> usize {
        let is_no = |vote: &&Vote| matches!(vote, Vote::No(_));
        self.votes.iter().filter(is_no).count()
    }

    pub(crate) fn yes(&self) -> usize {
        let is_yes = |vote: &&Vote| matches!(vote, Vote::Yes(_));
        self.votes.iter().filter(is_yes).count()
    }

    /// How many nodes say that they had its key all the time; only those whose count is the epoch it has, if they are to prove it.
    pub(crate) fn known(&self, epoch: u8, by_keys_alone: bool) -> usize {
        let proves = |vote: Vote| match vote {
            Vote::Yes(count) => count == epoch || by_keys_alone,
            _ => false,
        };
        let both = self.known.into_iter().zip(self.votes);
        both.filter(|(known, vote)| *known && proves(*vote)).count()
    }

    /// A holder that still believes.
    pub(crate) fn believes(&self) -> bool {
        matches!(self.phase, Phase::Holding(_)) && self.left > 0
    }

    /// Back to the start; the next attempt begins with new votes.
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
