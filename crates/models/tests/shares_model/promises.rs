//! What must hold in every state, and after every replacement.

use std::collections::BTreeSet;

use fencepost::OwnerId;
use fencepost::shares::machine::{Capacity, Need, Roster, Share};

use crate::moves::writes;
use crate::world::{Change, Then, World};

pub(crate) type Broken = &'static str;

pub(crate) const TOGETHER: Broken = "more is held than there is";
pub(crate) const SAME_SLOT: Broken = "two holders have the same permit";
pub(crate) const EPOCH_FELL: Broken = "an epoch is not larger than all before it";
pub(crate) const REVIVED: Broken = "a share came without being granted";
pub(crate) const TURN_TAKEN: Broken = "somebody took what was kept for a waiter in its turn";
pub(crate) const OVERTAKEN: Broken = "somebody was overtaken";
pub(crate) const BACK_AGAIN: Broken = "what was released is back";
pub(crate) const GAP: Broken = "somebody wrote between the writing and the reading of a downgrade";
pub(crate) const STARVED: Broken = "somebody waits for ever";
pub(crate) const LEFT_BEHIND: Broken = "something is left when everybody is gone";

/// Checks a state.
pub(crate) fn hold(world: &World) -> Result<(), Broken> {
    let held: Vec<_> = world
        .clients
        .iter()
        .filter_map(|client| client.held.as_ref())
        .collect();
    let roster = world.settled();
    let needs: Vec<Need> = held.iter().map(|held| held.need).collect();
    require(fit(roster.capacity, &needs), TOGETHER)?;
    let slots: Vec<u32> = held.iter().flat_map(|held| held.slots.iter()).collect();
    require(BTreeSet::from_iter(&slots).len() == slots.len(), SAME_SLOT)?;
    require(everybody_has_its_place(world, &roster), OVERTAKEN)?;
    let shares = roster.shares.iter().map(|share| share.owner);
    let mut owners = shares.chain(roster.line.iter().map(|waiting| waiting.owner));
    require(
        owners.all(|owner| !world.released.contains(&owner)),
        BACK_AGAIN,
    )
}

/// Checks a replacement that just took effect. Its sender has seen the record as it was `before`.
pub(crate) fn of_a_replacement(
    world: &World,
    change: &Change,
    before: &Roster,
) -> Result<(), Broken> {
    let after = &change.roster;
    let is_new = |share: &&Share| !before.shares.iter().any(|other| other.owner == share.owner);
    let mut new = after.shares.iter().filter(is_new);
    let is_grant = matches!(change.then, Then::Granted { .. });
    let Some(share) = new.next() else {
        return Ok(());
    };
    require(is_grant, REVIVED)?;
    let others = world
        .clients
        .iter()
        .filter(|client| client.owner != share.owner);
    let others = others.filter_map(|client| client.held.as_ref());
    let needs = others.map(|held| held.need).chain([share.need]);
    require(fit(after.capacity, &needs.collect::<Vec<_>>()), TOGETHER)?;
    require(share.epoch > world.highest, EPOCH_FELL)?;
    require(!world.clients[change.of].somebody_wrote, GAP)?;
    kept_for_those_who_are_called(before, after, share.owner)?;
    nobody_was_overtaken(world, change, before)
}

/// What is kept for those who were called before is still there beside the new share.
fn kept_for_those_who_are_called(
    before: &Roster,
    after: &Roster,
    new: OwnerId,
) -> Result<(), Broken> {
    let called = before
        .line
        .iter()
        .filter(|waiting| waiting.called_until.is_some());
    let called = called.filter(|waiting| waiting.owner != new);
    let mut needs: Vec<Need> = called.map(|waiting| waiting.need).collect();
    if needs.is_empty() {
        return Ok(());
    }
    needs.extend(after.shares.iter().map(|share| share.need));
    require(fit(after.capacity, &needs), TURN_TAKEN)
}

/// Returns whether all of them can be held at the same time.
fn fit(capacity: Option<Capacity>, needs: &[Need]) -> bool {
    match capacity {
        Some(Capacity::Permits(permits)) => {
            needs.iter().map(|need| need.permits()).sum::<u32>() <= permits
        }
        _ => needs.len() <= 1 || !needs.iter().any(|need| writes(*need)),
    }
}

/// Nobody who came later is granted a share while an earlier one stands in line, unless it was called first.
fn nobody_was_overtaken(world: &World, change: &Change, before: &Roster) -> Result<(), Broken> {
    let client = &world.clients[change.of];
    let was_called = before
        .waiting(client.owner)
        .is_some_and(|waiting| waiting.called_until.is_some());
    // A downgrade takes nothing that was not taken.
    if was_called || client.writer.is_some() {
        return Ok(());
    }
    let ticket = client.place.map_or(u64::MAX, |place| place.ticket);
    let ahead = before.line.iter().filter(|waiting| waiting.ticket < ticket);
    let mut waits = ahead.filter(|waiting| waiting.called_until.is_none());
    require(waits.next().is_none(), OVERTAKEN)
}

/// Whoever stands in line has the ticket that it got first, even if it was passed over in the meantime.
fn everybody_has_its_place(world: &World, roster: &Roster) -> bool {
    world.clients.iter().all(|client| {
        let (place, waiting) = (client.place, roster.waiting(client.owner));
        match (place, waiting) {
            (Some(place), Some(waiting)) => waiting.ticket == place.ticket,
            _ => true,
        }
    })
}

fn require(holds: bool, promise: Broken) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(promise) }
}
