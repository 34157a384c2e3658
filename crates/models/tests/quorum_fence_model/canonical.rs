//! Canonical states of the quorum model: states that differ only in the names of nodes and clients are equal.

use std::hash::{Hash, Hasher};

use crate::setup::Setup;
use crate::state::{CLIENTS_MAX, NODES, Node, Phase, Request, State, Wire};

type Order = [usize; CLIENTS_MAX];

/// Returns the canonical state and its fingerprint.
pub(crate) fn canonical(state: State, setup: &Setup) -> (State, u64) {
    let state = without_the_past(state, setup);
    let orders: &[Order] = match setup.clients {
        3 => &[
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ],
        2 => &[[0, 1, 2], [1, 0, 2]],
        _ => &[[0, 1, 2]],
    };
    let candidates = orders.iter().map(|order| {
        let renamed = sorted_nodes(with_clients(&state, order), setup);
        (renamed, fingerprint(&renamed))
    });
    candidates
        .min_by_key(|(_, print)| *print)
        .unwrap_or((state, 0))
}

/// Removes everything that no longer makes a difference.
pub(crate) fn without_the_past(mut state: State, setup: &Setup) -> State {
    for client in 0..setup.clients {
        for node in 0..NODES {
            while is_idle_talk(&state, setup, client, node) {
                let wire = &mut state.wires[client][node];
                if let Some(Request::Release { attempt }) = wire.pop() {
                    wire.paid(attempt);
                }
            }
        }
        if is_gone(&state, client) {
            state.clients[client].attempt = 0;
        }
    }
    state
}

/// Returns whether the next request has no effect: it needs a key that does not exist and that only a later request can create,
/// and nobody receives the answer.
fn is_idle_talk(state: &State, setup: &Setup, client: usize, node: usize) -> bool {
    let has_key = state.nodes[node]
        .key
        .is_some_and(|key| usize::from(key.client) == client);
    let phase = state.clients[client].phase;
    let hears = !matches!(phase, Phase::Idle | Phase::Dead);
    match state.wires[client][node].requests[0] {
        Some(Request::Release { .. }) => !has_key,
        Some(Request::Accept { .. }) => setup.accept_needs_key && !has_key && !hears,
        // An extension can set a key.
        Some(Request::Lock { .. } | Request::Extend { .. }) | None => false,
    }
}

/// Returns whether neither the nodes nor the connections contain anything of this client, so that its next attempt is like its
/// first.
fn is_gone(state: &State, client: usize) -> bool {
    let is_silent = |wire: &Wire| {
        wire.requests[0].is_none() && wire.owed.is_none() && wire.owed_taken.is_none()
    };
    let is_ours = |node: &Node| {
        node.key
            .is_some_and(|key| usize::from(key.client) == client)
    };
    matches!(state.clients[client].phase, Phase::Idle | Phase::Dead)
        && state.wires[client].iter().all(is_silent)
        && !state.nodes.iter().any(is_ours)
}

/// Renames the clients in this order.
fn with_clients(state: &State, order: &Order) -> State {
    let mut renamed = *state;
    for (to, &from) in order.iter().enumerate() {
        renamed.clients[to] = state.clients[from];
        renamed.wires[to] = state.wires[from];
    }
    for node in &mut renamed.nodes {
        if let Some(key) = &mut node.key {
            let to = order
                .iter()
                .position(|&from| from == usize::from(key.client));
            key.client = to.unwrap_or_default() as u8;
        }
    }
    renamed
}

fn sorted_nodes(state: State, setup: &Setup) -> State {
    // A node with a different clock keeps its name.
    let first = usize::from(setup.first_is_ahead > 0);
    let print = |node: usize| {
        let mut print = Print::default();
        state.nodes[node].hash(&mut print);
        for client in 0..setup.clients {
            state.wires[client][node].hash(&mut print);
            state.clients[client].votes[node].hash(&mut print);
            state.clients[client].known[node].hash(&mut print);
        }
        print.finish()
    };
    let prints = [print(0), print(1), print(2)];
    let mut order = [0, 1, 2];
    order[first..].sort_unstable_by_key(|&node| prints[node]);
    let mut renamed = state;
    for (to, from) in order.into_iter().enumerate() {
        renamed.nodes[to] = state.nodes[from];
        for client in 0..setup.clients {
            renamed.wires[client][to] = state.wires[client][from];
            renamed.clients[client].votes[to] = state.clients[client].votes[from];
            renamed.clients[client].known[to] = state.clients[client].known[from];
        }
    }
    renamed
}

fn fingerprint(state: &State) -> u64 {
    let mut print = Print::default();
    state.hash(&mut print);
    print.finish()
}

/// A hash that is fast, and good enough for about ten million states.
#[derive(Default)]
struct Print(u64);

impl Print {
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 29;
    }
}

impl Hasher for Print {
    fn finish(&self) -> u64 {
        let mut print = Self(self.0);
        print.mix(0x5851_f42d_4c95_7f2d);
        print.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.mix(u64::from(*byte)));
    }

    fn write_u8(&mut self, word: u8) {
        self.mix(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }

    fn write_usize(&mut self, word: usize) {
        self.mix(word as u64);
    }

    fn write_isize(&mut self, word: isize) {
        self.mix(word as u64);
    }
}
