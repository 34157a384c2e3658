//! The promises of the Redis line. Those about one state are checked here; those about a step are checked in the step
//! (`server.rs`, `client.rs`); those about the future are checked in `progress.rs`.

use std::fmt;

use crate::state::{Client, Health, Owner, Phase, State};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) enum Promise {
    /// While a client believes that it holds the lock, the server's lease of its token lasts at least as long. So two clients
    /// never believe at once. A lease that the server forgot is exempt: there the fences decide the order.
    BeliefEndsBeforeLease,
    /// Each grant has a larger fence than every grant before it, and each guard than every guard before.
    FencesGrow,
    /// The key never belongs to a token whose client has finished with it.
    NoOrphanLock,
    /// Killed waiters cost the others one waiter lease, frozen ones less than two, and never a TTL.
    DeadWaiterCostsAWaiterLease,
    /// When faults stop, every living client finishes.
    NobodyIsStuck,
    /// When all clients are done, no entry and no record is left of them.
    NothingIsLeftBehind,
    /// A living waiter in line is served before those that arrived later.
    FirstComeFirstServed,
    /// A client reports "released" only if it ended its own lease.
    ReleaseIsHonest,
    /// A try is refused only while the lock is held or a living client waits for it.
    TryFindsAFreeLock,
    /// A release hands the lock to the first waiter, which need not find out by a heartbeat. So a granted lock is marked while
    /// there is a line.
    ReleaseHandsOn,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BeliefEndsBeforeLease => "a belief ends before the lease",
            Self::FencesGrow => "fences grow",
            Self::NoOrphanLock => "no orphan lock",
            Self::DeadWaiterCostsAWaiterLease => "a dead waiter costs a waiter lease, never a TTL",
            Self::NobodyIsStuck => "nobody is stuck",
            Self::NothingIsLeftBehind => "nothing is left behind",
            Self::FirstComeFirstServed => "first come, first served",
            Self::ReleaseIsHonest => "a release is honest",
            Self::TryFindsAFreeLock => "a try finds a free lock",
            Self::ReleaseHandsOn => "a release hands on",
        })
    }
}

/// Returns the promise that the state breaks, if any.
pub(crate) fn broken(state: &State) -> Option<Promise> {
    if (0..state.clients.len()).any(|client| believes_too_long(state, client)) {
        return Some(Promise::BeliefEndsBeforeLease);
    }
    if is_orphaned(state) {
        return Some(Promise::NoOrphanLock);
    }
    state
        .broken
        .or(is_unaware(state).then_some(Promise::ReleaseHandsOn))
}

fn believes_too_long(state: &State, index: usize) -> bool {
    let client = &state.clients[index];
    if client.phase != Phase::Hold || client.belief == 0 || client.noted.lease_forgotten {
        return false;
    }
    let lease = match state.server.key {
        Some(key) if key.owner == Owner::Ours(state.token(index)) => key.remaining,
        _ => 0,
    };
    client.belief > lease
}

/// Returns whether somebody waits for a lock that its holder would delete without checking the line. A guessed lock may have
/// bypassed a line; its client has yet to learn that.
fn is_unaware(state: &State) -> bool {
    let Some(key) = state.server.key.filter(|key| !key.is_marked) else {
        return false;
    };
    let Owner::Ours(token) = key.owner else {
        return false;
    };
    let client = &state.clients[usize::from(token.client)];
    let is_granted = client.phase == Phase::Hold && client.wait == token.wait;
    !state.server.line.is_empty() && (is_granted || !key.is_guessed)
}

fn is_orphaned(state: &State) -> bool {
    let Some(key) = state.server.key else {
        return false;
    };
    let Owner::Ours(token) = key.owner else {
        return false;
    };
    let is_excused = state.has_failed_over || (state.has_flushed && key.has_waiter_lease);
    let client = &state.clients[usize::from(token.client)];
    !is_excused && client.health != Health::Killed && has_finished(client, token.wait)
}

/// Returns whether the client is done with this wait: it gave up and got its answer, or was told that it had lost.
pub(crate) fn has_finished(client: &Client, wait: u8) -> bool {
    client.unsettled != wait && (client.wait != wait || client.phase == Phase::Done)
}
