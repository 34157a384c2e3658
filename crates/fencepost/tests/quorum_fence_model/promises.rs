//! What must hold in every state, and between each and the next.

use std::fmt;

use crate::setup::Setup;
use crate::state::{NODES, Phase, State};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Promise {
    /// No epoch is granted twice, whatever became of the lock.
    EpochsAreUnique,
    /// Who begins to ask after a grant gets a larger epoch, whatever became of the lock.
    LaterIsLarger,
    /// As long as no key went before its time, epochs rise in the order of the grants.
    EpochsRise,
    /// As long as no key went before its time, one client believes to hold the lock.
    OneHolder,
    /// Who has given up, and whose requests are all carried out, has left nothing.
    NothingIsLeft,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EpochsAreUnique => "no epoch is granted twice",
            Self::LaterIsLarger => "who asks after a grant gets a larger epoch",
            Self::EpochsRise => "epochs rise in the order of the grants",
            Self::OneHolder => "one client believes to hold the lock",
            Self::NothingIsLeft => "who has given up leaves nothing",
        })
    }
}

/// The promise that the step from one state to the next breaks. Notes a grant.
pub(crate) fn broken(before: &State, next: &mut State, setup: &Setup) -> Option<Promise> {
    let grant = (0..setup.clients).find_map(|client| grant(before, next, client));
    if let Some((epoch, older)) = grant {
        let highest = next.highest();
        let is_known = next.granted >> epoch & 1 == 1;
        next.granted |= 1 << epoch;
        if is_known {
            return Some(Promise::EpochsAreUnique);
        }
        if epoch <= older {
            return Some(Promise::LaterIsLarger);
        }
        if next.is_exclusive && epoch <= highest {
            return Some(Promise::EpochsRise);
        }
    }
    let believers = next.clients.iter().filter(|client| client.believes());
    if next.is_exclusive && believers.count() > 1 {
        return Some(Promise::OneHolder);
    }
    let leaves = |client| has_left_something(next, client);
    (0..setup.clients)
        .any(leaves)
        .then_some(Promise::NothingIsLeft)
}

/// The epoch that was just granted to this client, and the highest one from before it began to ask.
fn grant(before: &State, next: &State, client: usize) -> Option<(u8, u8)> {
    let was = before.clients[client].phase;
    match next.clients[client].phase {
        Phase::Holding(epoch) if !matches!(was, Phase::Holding(_)) => {
            Some((epoch, before.clients[client].older))
        }
        _ => None,
    }
}

fn has_left_something(state: &State, client: usize) -> bool {
    state.clients[client].phase == Phase::Idle
        && (0..NODES).any(|node| {
            let wire = &state.wires[client][node];
            let key = state.nodes[node].key;
            let is_ours = key.is_some_and(|key| usize::from(key.client) == client);
            is_ours && wire.requests[0].is_none() && wire.owed.is_none()
        })
}
