//! The faults of the quorum model, and their effects on the state.

use crate::moves::Move;
use crate::setup::{Flaw, Setup};
use crate::state::{NODES, Node, Phase, State};

/// Adds the faults that may come next.
pub(crate) fn faults(state: &State, setup: &Setup, moves: &mut Vec<Move>) {
    let troubles = &setup.troubles;
    for client in 0..setup.clients {
        let is_dead = state.clients[client].phase == Phase::Dead;
        if troubles.die && !is_dead {
            moves.push(Move::Die(client));
        }
        for node in 0..NODES {
            let wire = &state.wires[client][node];
            let is_used = wire.requests[0].is_some() || wire.owed_taken.is_some();
            if troubles.cut && is_used && !is_dead {
                moves.push(Move::Cut { client, node });
            }
        }
    }
    for node in 0..NODES {
        if troubles.restart {
            moves.push(Move::Restart(node));
        }
        if troubles.restart_empty {
            moves.push(Move::RestartEmpty(node));
        }
        if troubles.flushed {
            moves.push(Move::Flushed(node));
        }
        if troubles.key_lost && state.nodes[node].key.is_some() {
            moves.push(Move::KeyLost(node));
        }
    }
}

/// Applies the effect of a fault to the state.
pub(crate) fn strike(state: &mut State, setup: &Setup, fault: Move) {
    match fault {
        Move::Cut { client, node } => cut(state, setup, client, node),
        Move::Restart(node) => restart(state, setup, node),
        Move::RestartEmpty(node) => {
            restart(state, setup, node);
            forget(&mut state.nodes[node]);
            state.nodes[node].young = setup.restart_delay;
            state.is_exclusive &= setup.restart_delay >= setup.ttl;
        }
        Move::Flushed(node) => {
            forget(&mut state.nodes[node]);
            state.is_exclusive = false;
        }
        Move::KeyLost(node) => {
            state.nodes[node].key = None;
            state.is_exclusive = false;
        }
        Move::Die(client) => {
            state.clients[client].rest();
            state.clients[client].lease = None;
            state.clients[client].phase = Phase::Dead;
            for wire in &mut state.wires[client] {
                wire.owed = None;
                wire.owed_taken = None;
            }
        }
        _ => unreachable!("not a fault"),
    }
}

fn forget(node: &mut Node) {
    node.key = None;
    node.counter = 0;
}

fn restart(state: &mut State, setup: &Setup, node: usize) {
    (0..setup.clients).for_each(|client| cut(state, setup, client, node));
    state.nodes[node].is_starting = true;
}

/// Cuts a connection. The client is notified that the answers it waited for will not arrive.
fn cut(state: &mut State, setup: &Setup, client: usize, node: usize) {
    let wire = &mut state.wires[client][node];
    wire.cut();
    if setup.has(Flaw::ReleasesTakenKeysOnce) {
        wire.owed_taken = None;
    }
}
