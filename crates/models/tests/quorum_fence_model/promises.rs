//! The promises of the quorum fence, checked for every step from one state to the next.

use std::fmt;

use crate::setup::Setup;
use crate::state::{Client, Key, NODES, Phase, State};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Promise {
    /// No epoch is granted twice, whatever happened to the lock.
    EpochsAreUnique,
    /// A client that starts to ask after a grant gets a larger epoch, whatever happened to the lock.
    LaterIsLarger,
    /// As long as no key disappeared early, epochs increase in the order of the grants.
    EpochsRise,
    /// As long as no key disappeared early, at most one client believes that it holds the lock.
    OneHolder,
    /// A client that asks for an extension after another got a larger epoch is refused, whatever happened to the lock.
    LossIsTold,
    /// A client that has given up, and whose requests are all executed, has left nothing. A client whose lease is lost has left
    /// nothing that was set in vain.
    NothingIsLeft,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EpochsAreUnique => "no epoch is granted twice",
            Self::LaterIsLarger => "who asks after a grant gets a larger epoch",
            Self::EpochsRise => "epochs rise in the order of the grants",
            Self::OneHolder => "one client believes to hold the lock",
            Self::LossIsTold => "nobody is extended after a larger epoch was granted",
            Self::NothingIsLeft => "who has given up leaves nothing",
        })
    }
}

/// Returns the promise that the step between two states breaks. Records a grant.
pub(crate) fn broken(before: &State, next: &mut State, setup: &Setup) -> Option<Promise> {
    let believers = next.clients.iter().filter(|client| client.believes());
    let two_believe = next.is_exclusive && believers.count() > 1;
    let grant = (0..setup.clients).find_map(|client| grant(before, next, client));
    if let Some(grant) = grant {
        // A lease that is kept has an epoch that was granted to this client, and that is not behind any other.
        let (highest, own) = (next.highest(), u8::from(grant.is_kept));
        let is_known = next.granted >> grant.epoch & 1 == 1;
        next.granted |= 1 << grant.epoch;
        if is_known && !grant.is_kept {
            return Some(Promise::EpochsAreUnique);
        }
        if grant.epoch + own <= grant.older {
            return Some(Promise::LaterIsLarger);
        }
        if next.is_exclusive && grant.epoch + own <= highest && !two_believe {
            return Some(Promise::EpochsRise);
        }
    }
    if two_believe {
        return Some(Promise::OneHolder);
    }
    if (0..setup.clients).any(|client| is_extended_too_late(before, next, client)) {
        return Some(Promise::LossIsTold);
    }
    let leaves = |client| has_left_something(next, client);
    (0..setup.clients)
        .any(leaves)
        .then_some(Promise::NothingIsLeft)
}

struct Grant {
    epoch: u8,
    /// The highest epoch from before it started to ask.
    older: u8,
    /// Whether it had this lease before and still has it.
    is_kept: bool,
}

/// Returns the lease that was just granted to this client.
fn grant(before: &State, next: &State, client: usize) -> Option<Grant> {
    let was = before.clients[client].phase;
    match next.clients[client].phase {
        Phase::Holding(epoch) if !matches!(was, Phase::Holding(_)) => Some(Grant {
            epoch,
            older: before.clients[client].older,
            is_kept: before.clients[client].lease == Some(epoch),
        }),
        _ => None,
    }
}

/// Returns whether this client was just extended although another had a larger epoch when it asked.
fn is_extended_too_late(before: &State, next: &State, client: usize) -> bool {
    let (was, is) = (&before.clients[client], &next.clients[client]);
    let has_ended = was.extending.is_some() && is.extending.is_none();
    let is_extended = has_ended && is.believes() && was.is_lost == is.is_lost;
    is_extended && matches!(is.phase, Phase::Holding(epoch) if epoch < was.older)
}

fn has_left_something(state: &State, client: usize) -> bool {
    let Client {
        phase,
        attempt,
        confirmed,
        is_lost,
        ..
    } = state.clients[client];
    let was_in_vain = |key: Key| key.attempt == attempt && key.taken_by > confirmed;
    (0..NODES).any(|node| {
        let wire = &state.wires[client][node];
        let is_silent =
            wire.requests[0].is_none() && wire.owed.is_none() && wire.owed_taken.is_none();
        let key = state.nodes[node].key;
        let key = key.filter(|key| usize::from(key.client) == client);
        let is_left = |key: Key| phase == Phase::Idle || (is_lost && was_in_vain(key));
        is_silent && key.is_some_and(is_left)
    })
}
