//! The moves of clients and nodes in the quorum model.

use crate::faults::{faults, strike};
use crate::node;
use crate::setup::{Flaw, Setup};
use crate::state::{Client, MAJORITY, NODES, Phase, Request, State, Taken, Vote};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Move {
    /// A client asks all nodes for the key.
    Ask(usize),
    /// A client requests the same claim again; the previous attempt was dropped and not released.
    AskAgain(usize),
    /// A node executes a client's next request.
    Serve {
        client: usize,
        node: usize,
    },
    /// A client with the answers of these nodes (one bit per node) takes the largest of their counts as its epoch.
    Propose {
        client: usize,
        heard: u8,
    },
    /// A client that asked while it held the lock learns from a majority that it had the lock all the time, and keeps its
    /// epoch.
    Keep(usize),
    /// A client that was refused an epoch proposes a larger one.
    Raise(usize),
    /// A client checks the time, and then believes or gives up.
    Conclude(usize),
    /// A client gives up and releases everywhere.
    GiveUp(usize),
    /// A holder releases everywhere.
    Done(usize),
    /// A holder asks for an extension.
    Extend(usize),
    /// A majority has extended.
    Extended(usize),
    /// A majority has refused the extension, so the lease is lost. The holder may not know it yet.
    Lose(usize),
    /// A node releases a key that was set in vain.
    OwedTaken {
        client: usize,
        node: usize,
    },
    /// A release that was lost with its connection is finally executed.
    Owed {
        client: usize,
        node: usize,
    },
    Tick,
    Cut {
        client: usize,
        node: usize,
    },
    Restart(usize),
    RestartEmpty(usize),
    Flushed(usize),
    KeyLost(usize),
    Die(usize),
}

pub(crate) fn enabled(state: &State, setup: &Setup) -> Vec<Move> {
    let mut moves = Vec::with_capacity(24);
    for client in 0..setup.clients {
        of_client(state, setup, client, &mut moves);
        for node in 0..NODES {
            let wire = &state.wires[client][node];
            if wire.requests[0].is_some() && !state.nodes[node].is_starting {
                moves.push(Move::Serve { client, node });
            }
            if !state.nodes[node].is_starting {
                debts(state, client, node, &mut moves);
            }
        }
    }
    if setup.ticks_max.is_none_or(|max| state.clock < max) {
        moves.push(Move::Tick);
    }
    if state.faults_left > 0 {
        faults(state, setup, &mut moves);
    }
    moves
}

/// Adds the releases that are owed. They are sent again at any time, but over the same connection, so not before an extension
/// of the same attempt that was sent.
fn debts(state: &State, client: usize, node: usize, moves: &mut Vec<Move>) {
    let wire = &state.wires[client][node];
    let is_extended = wire.has_extension();
    let is_cut = |attempt| {
        let is_behind = is_extended && attempt == state.clients[client].attempt;
        !is_behind && !wire.requests.contains(&Some(Request::Release { attempt }))
    };
    if wire.owed.is_some_and(is_cut) {
        moves.push(Move::Owed { client, node });
    }
    if wire.owed_taken.is_some() && !is_extended {
        moves.push(Move::OwedTaken { client, node });
    }
}

fn of_client(state: &State, setup: &Setup, at: usize, moves: &mut Vec<Move>) {
    let client = &state.clients[at];
    let may_ask = client.attempts_left > 0 && state.has_room(at);
    match client.phase {
        Phase::Idle if may_ask => moves.push(Move::Ask(at)),
        Phase::Idle | Phase::Dead => {}
        Phase::Locking => {
            if gives_up(client, setup) {
                moves.push(Move::GiveUp(at));
            }
            if keeps(client, setup) {
                moves.push(Move::Keep(at));
            }
            if state.has_room(at) {
                let subsets = 1..1_u8 << NODES;
                let fits = |heard: &u8| can_propose(client, *heard);
                moves.extend(
                    subsets
                        .filter(fits)
                        .map(|heard| Move::Propose { client: at, heard }),
                );
            }
        }
        Phase::Accepting(_) => {
            if gives_up(client, setup) {
                moves.push(Move::GiveUp(at));
            }
            if client.yes() >= needed(setup, Flaw::MinorityAccepts) {
                moves.push(Move::Conclude(at));
            }
            let is_behind = client
                .votes
                .iter()
                .any(|vote| matches!(vote, Vote::No(1..)));
            if is_behind && client.raises_left > 0 && state.has_room(at) {
                moves.push(Move::Raise(at));
            }
        }
        Phase::Agreed(_) | Phase::Kept(_) => moves.push(Move::Conclude(at)),
        Phase::Holding(_) => {
            moves.push(Move::Done(at));
            let asks_again = setup.holder_asks_again || (setup.asks_after_a_loss && client.is_lost);
            if asks_again && may_ask {
                moves.push(Move::AskAgain(at));
            }
            // A lease that was found lost stays lost, without another request.
            let is_over = client.is_lost && !setup.has(Flaw::ForgetsTheLoss);
            let is_first = client.attempts_left == setup.attempts[at];
            let may_go_on = !is_over && (is_first || !setup.asks_after_a_loss);
            let may_extend = client.extensions < setup.extends && client.left > 0 && may_go_on;
            if may_extend && state.has_room(at) {
                moves.push(Move::Extend(at));
            }
            let is_extended = client.yes() >= needed(setup, Flaw::MinorityExtends);
            if client.extending.is_some() && is_extended {
                moves.push(Move::Extended(at));
            }
            if client.extending.is_some() && client.no() >= MAJORITY && !client.is_lost {
                moves.push(Move::Lose(at));
            }
        }
    }
    let has_asked = matches!(
        client.phase,
        Phase::Locking | Phase::Accepting(_) | Phase::Agreed(_) | Phase::Kept(_)
    );
    if setup.asks_again && has_asked && may_ask {
        moves.push(Move::AskAgain(at));
    }
}

/// Returns whether the client may give up: it was refused somewhere, is out of time, or is cancelled at any time.
fn gives_up(client: &Client, setup: &Setup) -> bool {
    let is_refused = client.votes.iter().any(|vote| matches!(vote, Vote::No(_)));
    setup.cancels || client.left == 0 || is_refused
}

fn needed(setup: &Setup, flaw: Flaw) -> usize {
    if setup.has(flaw) { 1 } else { MAJORITY }
}

/// Returns whether a majority of nodes has the lease as it was granted, with its epoch.
fn keeps(client: &Client, setup: &Setup) -> bool {
    let by_keys_alone = setup.has(Flaw::KeepsByKeysAlone);
    client.before.is_some_and(|epoch| {
        client.known(epoch, by_keys_alone) >= needed(setup, Flaw::MinorityKeeps)
            && client.yes() >= MAJORITY
    })
}

fn can_propose(client: &Client, heard: u8) -> bool {
    let all_yes = (0..NODES)
        .filter(|node| heard & 1 << node != 0)
        .all(|node| matches!(client.votes[node], Vote::Yes(_)));
    all_yes && heard.count_ones() as usize >= MAJORITY
}

pub(crate) fn after(state: &State, setup: &Setup, step: Move) -> State {
    let mut next = *state;
    match step {
        Move::Ask(at) => ask(&mut next, setup, at),
        Move::AskAgain(at) => ask(&mut next, setup, at),
        Move::Serve { client, node } => node::serve(&mut next, setup, client, node),
        Move::Propose { client, heard } => propose(&mut next, setup, client, heard),
        Move::Keep(at) => keep(&mut next, at),
        Move::Raise(at) => raise(&mut next, at),
        Move::Conclude(at) => conclude(&mut next, setup, at),
        Move::GiveUp(at) | Move::Done(at) => give_back(&mut next, setup, at),
        Move::Extend(at) => extend(&mut next, setup, at),
        Move::Extended(at) => {
            let client = &mut next.clients[at];
            // A lost lease stays lost.
            if client.left > 0 {
                client.left = client.left.max(client.extending.unwrap_or(0));
            }
            client.extending = None;
            client.older = 0;
            client.confirmed = client.extensions;
        }
        Move::Lose(at) => lose(&mut next, at),
        Move::OwedTaken { client, node } => {
            if let Some(taken) = next.wires[client][node].owed_taken.take() {
                node::release_taken(&mut next.nodes[node], client as u8, taken);
            }
        }
        Move::Owed { client, node } => {
            let owed = next.wires[client][node].owed.take();
            let up_to = owed.filter(|_| !setup.has(Flaw::OwedReleaseTakesAnything));
            node::release(&mut next.nodes[node], client as u8, up_to);
        }
        Move::Tick => tick(&mut next, setup),
        fault => {
            next.faults_left -= 1;
            strike(&mut next, setup, fault);
        }
    }
    next
}

fn ask(state: &mut State, setup: &Setup, at: usize) {
    let older = state.highest();
    let client = &mut state.clients[at];
    let before = match client.phase {
        Phase::Holding(epoch) if !client.is_lost => Some(epoch),
        _ => None,
    };
    client.rest();
    client.before = before;
    client.phase = Phase::Locking;
    client.attempt += 1;
    client.attempts_left -= 1;
    client.raises_left = 1;
    client.left = setup.ttl;
    client.older = older;
    let attempt = client.attempt;
    let seen = if setup.has(Flaw::NothingIsSeen) {
        0
    } else {
        client.seen
    };
    for node in 0..NODES {
        let wire = &state.wires[at][node];
        let void = wire.owed.or(wire.owed_taken.map(|taken| taken.attempt));
        let request = Request::Lock {
            attempt,
            void,
            seen,
        };
        state.send(at, node, request);
    }
}

fn propose(state: &mut State, setup: &Setup, at: usize, heard: u8) {
    let client = &mut state.clients[at];
    let counts = (0..NODES)
        .filter(|node| heard & 1 << node != 0)
        .filter_map(|node| match client.votes[node] {
            Vote::Yes(count) => Some(count),
            _ => None,
        });
    let epoch = counts.clone().max().expect("a majority");
    let agreeing = counts.filter(|count| *count == epoch).count();
    client.votes = [Vote::None; NODES];
    if setup.has(Flaw::ValidityFromTheAnswer) {
        client.left = setup.ttl;
    }
    if setup.has(Flaw::NoWriteBack) || (setup.shortcut && agreeing >= MAJORITY) {
        client.phase = Phase::Agreed(epoch);
        return;
    }
    client.phase = Phase::Accepting(epoch);
    let attempt = client.attempt;
    state.send_to_all(at, Request::Accept { attempt, epoch });
}

fn keep(state: &mut State, at: usize) {
    let client = &mut state.clients[at];
    let epoch = client.before.expect("only who had a lease keeps it");
    client.votes = [Vote::None; NODES];
    client.phase = Phase::Kept(epoch);
}

fn raise(state: &mut State, at: usize) {
    let client = &mut state.clients[at];
    let counter = |vote: &Vote| match vote {
        Vote::No(counter) => *counter,
        _ => 0,
    };
    let epoch = 1 + client.votes.iter().map(counter).max().unwrap_or(0);
    client.votes = [Vote::None; NODES];
    client.raises_left -= 1;
    client.phase = Phase::Accepting(epoch);
    let attempt = client.attempt;
    state.send_to_all(at, Request::Accept { attempt, epoch });
}

fn conclude(state: &mut State, setup: &Setup, at: usize) {
    let client = &mut state.clients[at];
    if client.left == 0 && !setup.has(Flaw::NoLookAtTheTime) {
        return give_back(state, setup, at);
    }
    let (Phase::Accepting(epoch) | Phase::Agreed(epoch) | Phase::Kept(epoch)) = client.phase else {
        unreachable!("only these conclude");
    };
    client.votes = [Vote::None; NODES];
    client.raises_left = 1;
    client.older = 0;
    client.before = None;
    client.known = [false; NODES];
    client.lease = setup.holds_while_it_asks().then_some(epoch);
    client.seen = if setup.lifts { epoch } else { 0 };
    client.phase = Phase::Holding(epoch);
}

fn give_back(state: &mut State, setup: &Setup, at: usize) {
    let client = state.clients[at];
    for node in 0..NODES {
        let said_yes = matches!(client.votes[node], Vote::Yes(_));
        let is_holder = matches!(client.phase, Phase::Holding(_));
        if said_yes || is_holder || !setup.has(Flaw::ReleasesOnlyWhereGranted) {
            let attempt = client.attempt;
            state.wires[at][node].owed = Some(attempt);
            state.wires[at][node].owed_taken = None;
            // An extension that waits for a connection may be sent after the release. Then it sets nothing, and makes no
            // difference.
            let waiting = state.wires[at][node].take_waiting();
            state.send(at, node, Request::Release { attempt });
            if setup.has(Flaw::TakesAfterTheRelease) {
                waiting.for_each(|late| state.send(at, node, late));
            }
        }
    }
    state.clients[at].rest();
    state.clients[at].lease = None;
}

fn extend(state: &mut State, setup: &Setup, at: usize) {
    let older = state.highest();
    let client = &mut state.clients[at];
    let Phase::Holding(epoch) = client.phase else {
        unreachable!("only holders extend");
    };
    client.extending = Some(setup.ttl);
    client.extensions += 1;
    client.older = older;
    client.votes = [Vote::None; NODES];
    // A client that forgot its loss sets no key, and all its keys vote.
    let (epoch, confirmed) = if client.is_lost {
        (0, u8::MAX)
    } else {
        (epoch, client.confirmed)
    };
    let request = Request::Extend {
        attempt: client.attempt,
        epoch,
        extension: client.extensions,
        confirmed,
        is_waiting: false,
    };
    state.send_to_all(at, request);
}

/// The keys of the lease remain until its holder releases them. Keys that were set in vain are released.
fn lose(state: &mut State, at: usize) {
    let client = &mut state.clients[at];
    client.is_lost = true;
    client.extending = None;
    client.older = 0;
    client.votes = [Vote::None; NODES];
    let taken = Taken {
        attempt: client.attempt,
        after: client.confirmed,
    };
    for wire in &mut state.wires[at] {
        wire.owe_taken(taken);
        // An extension that waits for a connection no longer sets a key.
        drop(wire.take_waiting());
    }
}

fn tick(state: &mut State, setup: &Setup) {
    for node in &mut state.nodes {
        node.is_starting = false;
        node.young = node.young.saturating_sub(1);
        node.key = node.key.and_then(|mut key| {
            key.left -= 1;
            (key.left > 0).then_some(key)
        });
    }
    for client in &mut state.clients {
        client.left = client.left.saturating_sub(1);
        client.extending = client.extending.map(|left| left.saturating_sub(1));
    }
    if setup.ticks_max.is_some() {
        state.clock += 1;
    }
}
