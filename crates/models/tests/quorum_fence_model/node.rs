//! The effect of the scripts on one node of the quorum model.

use crate::setup::{Flaw, Setup};
use crate::state::{Client, EPOCHS_PER_TICK, Key, Node, Phase, Request, State, Taken, Vote};

/// Executes the next request of a client on a node. From now on the answer can be received.
pub(crate) fn serve(state: &mut State, setup: &Setup, client: usize, node: usize) {
    let wire = &mut state.wires[client][node];
    let Some(request) = wire.pop() else { return };
    let mut now = None;
    if matches!(request, Request::Lock { .. } | Request::Extend { .. }) {
        let is_first = matches!(request, Request::Lock { .. }) && std::mem::take(&mut wire.is_new);
        let lift = is_first || state.nodes[node].counter == 0;
        let ahead = if node == 0 { setup.first_is_ahead } else { 0 };
        now = (lift && setup.lifts).then(|| EPOCHS_PER_TICK * (state.clock + 1 + ahead));
    }
    let server = &mut state.nodes[node];
    let asker = client as u8;
    let mut is_known = false;
    let (attempt, vote) = match request {
        Request::Lock {
            attempt,
            void,
            seen,
        } => {
            if !setup.has(Flaw::OldKeyCounts) && void.is_some() {
                release(server, asker, void);
            }
            is_known = server.key.is_some_and(|key| key.client == asker);
            if server.counter == 0 && seen > 0 {
                now = now.max(Some(seen + 1));
            }
            (attempt, lock(server, setup, asker, attempt, now))
        }
        Request::Accept { attempt, epoch } => (attempt, accept(server, setup, asker, epoch)),
        Request::Extend { attempt, .. } => (attempt, extend(server, setup, asker, request, now)),
        Request::Release { attempt } => {
            wire.paid(attempt);
            return release(server, asker, None);
        }
    };
    let client = &mut state.clients[client];
    // Nobody receives the answer to an earlier attempt.
    if client.attempt == attempt && is_awaited(client, request) {
        client.votes[node] = vote;
        client.known[node] = is_known && client.before.is_some();
    }
}

fn is_awaited(client: &Client, request: Request) -> bool {
    match request {
        Request::Lock { .. } => client.phase == Phase::Locking,
        Request::Accept { epoch, .. } => client.phase == Phase::Accepting(epoch),
        Request::Extend { extension, .. } => {
            let is_last = client.extensions == extension && client.extending.is_some();
            is_last && matches!(client.phase, Phase::Holding(_))
        }
        Request::Release { .. } => false,
    }
}

fn lock(node: &mut Node, setup: &Setup, client: u8, attempt: u8, now: Option<u8>) -> Vote {
    if let Some(key) = &mut node.key {
        if key.client != client {
            return Vote::No(0);
        }
        key.left = setup.ttl;
        return Vote::Yes(key.count);
    }
    if node.young > 0 {
        return Vote::None;
    }
    node.counter = (node.counter + 1).max(now.unwrap_or(0));
    node.key = Some(Key {
        client,
        attempt,
        taken_by: 0,
        count: node.counter,
        left: setup.ttl,
    });
    Vote::Yes(node.counter)
}

fn accept(node: &mut Node, setup: &Setup, client: u8, epoch: u8) -> Vote {
    let own = node.key.as_mut().filter(|key| key.client == client);
    if setup.has(Flaw::AcceptsAnything) {
        node.counter = node.counter.max(epoch);
        return Vote::Yes(epoch);
    }
    let is_own_count = own.as_ref().is_some_and(|key| key.count == epoch);
    match own {
        None if setup.accept_needs_key => return Vote::No(0),
        _ if node.counter > epoch || (node.counter == epoch && !is_own_count) => {
            return Vote::No(node.counter);
        }
        Some(key) => key.count = epoch,
        None => {}
    }
    node.counter = epoch;
    Vote::Yes(epoch)
}

/// Extends a key, or sets it where it is missing and nobody can have got a larger epoch from this node. Only those keys vote
/// that existed when an earlier extension succeeded, or that were given to the attempt.
fn extend(node: &mut Node, setup: &Setup, client: u8, request: Request, now: Option<u8>) -> Vote {
    let Request::Extend {
        attempt,
        epoch,
        extension,
        confirmed,
        ..
    } = request
    else {
        unreachable!("only an extension extends");
    };
    match &mut node.key {
        Some(key) if key.client == client => {
            key.left = setup.ttl;
            let is_confirmed = key.attempt < attempt || key.taken_by <= confirmed;
            return if is_confirmed || setup.has(Flaw::TakenKeyVotesUnconfirmed) {
                Vote::Yes(key.count)
            } else {
                Vote::No(0)
            };
        }
        Some(_) => return Vote::No(0),
        None => {}
    }
    let is_young = node.young > 0 && !setup.has(Flaw::TakesOnAYoungNode);
    let is_past = node.counter > epoch && !setup.has(Flaw::TakesPastTheCounter);
    if is_young || is_past || epoch == 0 {
        return Vote::No(0);
    }
    // A node that has lost its counter gives a larger count, so the key does not prove that the owner had the epoch all the
    // time.
    let has_forgotten = node.counter == 0 && !setup.has(Flaw::TakingDoesNotLift);
    let now = now.filter(|_| !setup.takers_clock_is_behind);
    let count = if has_forgotten {
        now.unwrap_or(0).max(epoch + 1)
    } else {
        epoch
    };
    node.counter = node.counter.max(count);
    let newer = u8::from(setup.has(Flaw::TakenKeyEscapesTheRelease));
    node.key = Some(Key {
        client,
        attempt: attempt + newer,
        taken_by: extension,
        count,
        left: setup.ttl,
    });
    if setup.has(Flaw::TakenKeyVotesAtOnce) {
        Vote::Yes(count)
    } else {
        Vote::No(0)
    }
}

/// Releases a key that an extension set after the last successful extension.
pub(crate) fn release_taken(node: &mut Node, client: u8, taken: Taken) {
    let is_meant = |key: &Key| {
        key.client == client && key.attempt == taken.attempt && key.taken_by > taken.after
    };
    node.key = node.key.filter(|key| !is_meant(key));
}

/// Releases a key; with `up_to`, only a key of that attempt or an earlier one.
pub(crate) fn release(node: &mut Node, client: u8, up_to: Option<u8>) {
    let is_meant =
        |key: &Key| key.client == client && up_to.is_none_or(|attempt| key.attempt <= attempt);
    node.key = node.key.filter(|key| !is_meant(key));
}
