//! What a broken variant does otherwise. The state machine itself has no switches: the model garbles what it is given, or what it returns.

use std::time::Duration;

use fencepost::Claim;
use fencepost::shares::machine::{Asking, Claimed, Impossible, Roster};

use crate::setup::{Flaw, Setup};
use crate::world::{Aim, Client, TTL};

/// Changes what a client sees before it decides.
pub(crate) fn before(
    setup: &Setup,
    seen: &mut Roster,
    stored: Option<&Roster>,
    client: &Client,
    now: Duration,
) {
    if setup.has(Flaw::RevivesEndedLeases)
        && client.aim == Aim::Renew
        && let Some(stored) = stored
        && let Some(share) = stored
            .shares
            .iter()
            .find(|share| share.owner == client.owner)
        && !seen.shares.iter().any(|share| share.owner == client.owner)
    {
        let mut revived = share.clone();
        revived.ends = now + TTL;
        seen.shares.push(revived);
    }
}

/// Asks for a share.
pub(crate) fn claim(
    setup: &Setup,
    roster: &mut Roster,
    claim: &Claim,
    asking: Asking,
    now: Duration,
    floor: u64,
) -> Result<Claimed, Impossible> {
    if asking != Asking::Once {
        return roster.claim(claim, asking, now, floor);
    }
    let line = roster.line.clone();
    roster.line.retain(|waiting| match waiting.called_until {
        Some(_) => !setup.has(Flaw::KeepsNoRoom),
        None => !setup.has(Flaw::Overtakes),
    });
    let claimed = roster.claim(claim, asking, now, floor);
    roster.line = line;
    claimed
}

/// Changes what a client writes.
pub(crate) fn after(setup: &Setup, written: &mut Roster) {
    if setup.has(Flaw::HasNoWindow) {
        for waiting in &mut written.line {
            waiting.called_until = waiting.called_until.map(|_| Duration::MAX);
        }
    }
    if setup.has(Flaw::KeepsTheEpoch) {
        written.last_epoch = 0;
    }
}
