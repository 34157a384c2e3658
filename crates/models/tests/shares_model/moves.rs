//! Every step that can be taken in a state, and the state after it.

use std::time::Duration;

use fencepost::OwnerId;
use fencepost::backend::{Part, Renewal};
use fencepost::random::SeededRandom;
use fencepost::shares::machine::{Asking, Claimed, Impossible, Need};

use crate::flaws;
use crate::promises::{self, Broken};
use crate::setup::{Flaw, Setup};
use crate::world::{Aim, Change, Held, TTL, Then, World};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Move {
    /// A client reads the record and decides, or sends what it has decided.
    Step(usize),
    /// A client sends what it has decided, and gets no answer.
    Lose(usize),
    /// A replacement arrives whose answer was lost.
    Late(usize),
    /// A holder is done, or a future is dropped.
    Leave(usize),
    Renew(usize),
    /// A writer becomes a reader.
    Downgrade(usize),
    Crash(usize),
    /// Time passes until the next lease or turn ends.
    Tick,
    /// The store loses the record.
    Disaster,
}

pub(crate) fn enabled(world: &World) -> Vec<Move> {
    let mut moves = Vec::new();
    for (at, client) in world.clients.iter().enumerate() {
        if !client.is_alive() {
            continue;
        }
        if client.aim != Aim::Leave {
            moves.push(Move::Leave(at));
        }
        if client.aim == Aim::Hold {
            moves.extend((world.renewals > 0).then_some(Move::Renew(at)));
            moves.extend(client.may_downgrade.then_some(Move::Downgrade(at)));
        } else {
            moves.push(Move::Step(at));
        }
        if client.decided.is_some() && world.losses > 0 {
            moves.push(Move::Lose(at));
        }
        if world.crashes > 0 {
            moves.push(Move::Crash(at));
        }
    }
    moves.extend((0..world.late.len()).map(Move::Late));
    if world.ticks > 0 && next_event(world).is_some() {
        moves.push(Move::Tick);
    }
    if world.disasters > 0 && world.record.is_some() {
        moves.push(Move::Disaster);
    }
    moves
}

/// Returns the state after a step.
///
/// # Errors
/// Returns the promise that the step breaks.
pub(crate) fn after(world: &World, setup: &Setup, step: Move) -> Result<World, Broken> {
    let mut next = world.clone();
    match step {
        Move::Step(at) => take_step(&mut next, setup, at)?,
        Move::Lose(at) => {
            let client = &mut next.clients[at];
            client.is_unsure = true;
            next.late.extend(client.decided.take());
            next.losses -= 1;
        }
        Move::Late(which) => {
            let change = next.late.remove(which);
            replace(&mut next, setup, &change)?;
        }
        Move::Leave(at) => {
            let sent = next.clients[at].leave();
            next.late.extend(sent);
        }
        Move::Renew(at) => {
            next.clients[at].aim = Aim::Renew;
            next.renewals -= 1;
        }
        Move::Downgrade(at) => downgrade(&mut next, setup, at)?,
        Move::Crash(at) => {
            let client = &mut next.clients[at];
            (client.aim, client.held) = (Aim::Gone, None);
            next.late.extend(client.decided.take());
            next.crashes -= 1;
        }
        Move::Tick => {
            tick(&mut next);
            next.ticks -= 1;
        }
        Move::Disaster => {
            next.record = None;
            next.floor = world.highest + 10;
            next.disasters -= 1;
            // Only the fences protect the resource now.
            next.clients
                .iter_mut()
                .for_each(|client| client.held = None);
            outdate(&mut next);
        }
    }
    // What can never arrive any more makes no difference.
    if !setup.has(Flaw::ComparesNothing) {
        next.late.retain(|change| change.is_fresh);
    }
    promises::hold(&next)?;
    Ok(next)
}

pub(crate) fn tick(world: &mut World) {
    let now = next_event(world).unwrap_or(world.now);
    world.now = now;
    for client in &mut world.clients {
        client.held = client.held.take().filter(|held| held.until > now);
    }
}

/// Returns when the next lease or turn ends, if that ever comes.
pub(crate) fn next_event(world: &World) -> Option<Duration> {
    const NEVER: Duration = Duration::from_secs(1_000_000);
    world.settled().next_event().filter(|at| *at < NEVER)
}

/// Nothing that was read before is the latest any more.
fn outdate(world: &mut World) {
    let decided = world
        .clients
        .iter_mut()
        .filter_map(|client| client.decided.as_mut());
    decided
        .chain(&mut world.late)
        .for_each(|change| change.is_fresh = false);
}

pub(crate) fn take_step(world: &mut World, setup: &Setup, at: usize) -> Result<(), Broken> {
    match world.clients[at].decided.take() {
        Some(change) => {
            if replace(world, setup, &change)? {
                learn(world, at, change.then);
            }
        }
        None => decide(world, setup, at),
    }
    Ok(())
}

/// Replaces the record if it is still the one that was read. Returns whether it did.
fn replace(world: &mut World, setup: &Setup, change: &Change) -> Result<bool, Broken> {
    if !change.is_fresh && !setup.has(Flaw::ComparesNothing) {
        return Ok(false);
    }
    let before = world.settled_at(change.at);
    world.record = Some(change.roster.clone());
    outdate(world);
    promises::of_a_replacement(world, change, &before)?;
    if let Then::Granted { epoch, held } = &change.then {
        world.highest = world.highest.max(*epoch);
        if writes(held.need) {
            for (at, client) in world.clients.iter_mut().enumerate() {
                client.somebody_wrote |= client.is_becoming_a_reader() && at != change.of;
            }
        }
    }
    Ok(true)
}

fn decide(world: &mut World, setup: &Setup, at: usize) {
    let mut roster = world.settled();
    let (now, floor) = (world.now, world.floor);
    let client = &mut world.clients[at];
    flaws::before(setup, &mut roster, world.record.as_ref(), client, now);
    let then = match client.aim {
        Aim::Hold | Aim::Gone => return,
        Aim::Try | Aim::Wait => {
            let asking = match client.aim {
                Aim::Wait if setup.has(Flaw::ForgetsPlaces) => Asking::InLine(None),
                Aim::Wait => Asking::InLine(client.place),
                _ => Asking::Once,
            };
            let floor = if setup.has(Flaw::IgnoresTheFloor) {
                0
            } else {
                floor
            };
            match flaws::claim(setup, &mut roster, &client.claim(), asking, now, floor) {
                Ok(Claimed::Granted { epoch, slots }) => {
                    let need = client.need();
                    let until = now + TTL;
                    let held = Held { need, slots, until };
                    Then::Granted { epoch, held }
                }
                Ok(Claimed::Waits {
                    place,
                    joined: true,
                }) => Then::InLine(place),
                Ok(Claimed::Waits {
                    place,
                    joined: false,
                }) => {
                    client.place = Some(place);
                    return;
                }
                Ok(Claimed::Busy) | Err(Impossible::NotWriting) => {
                    client.aim = Aim::Leave;
                    return;
                }
                Err(other) => panic!("{other:?}"),
            }
        }
        Aim::Renew => match roster.renew(client.owner, TTL, now) {
            Renewal::Extended => Then::Renewed(now + TTL),
            Renewal::Lost => {
                client.leave();
                return;
            }
        },
        Aim::Leave => {
            let (_, has_changed) = roster.release(client.owner, now);
            let is_stored = client.is_stored(world.record.as_ref());
            let is_stored = is_stored && !setup.has(Flaw::ForgetsWhatIsStored);
            let is_sure = !client.is_unsure || setup.has(Flaw::ReleasesWithoutReplacing);
            if !has_changed && !is_stored && is_sure {
                learn(world, at, Then::Left);
                return;
            }
            Then::Left
        }
    };
    flaws::after(setup, &mut roster);
    world.clients[at].decided = Some(Change {
        of: at,
        is_fresh: true,
        at: now,
        roster,
        then,
    });
}

fn learn(world: &mut World, at: usize, then: Then) {
    let now = world.now;
    let client = &mut world.clients[at];
    match then {
        Then::Granted { held, .. } => {
            client.aim = Aim::Hold;
            client.held = Some(held).filter(|held| held.until > now);
            client.writer = None;
            if let Part::ReadInPlaceOf(writer) = client.part {
                world.released.insert(writer);
            }
        }
        Then::InLine(place) => client.place = Some(place),
        Then::Renewed(until) => {
            client.aim = Aim::Hold;
            match &mut client.held {
                Some(held) => held.until = held.until.max(until),
                // What was lost stays lost, even if an answer says otherwise.
                None => drop(client.leave()),
            }
        }
        Then::Left => {
            world.released.insert(client.owner);
            // A downgrade that was dropped leaves two owners.
            match client.writer.take() {
                Some(writer) => (client.owner, client.is_unsure) = (writer, false),
                None => client.aim = Aim::Gone,
            }
        }
    }
}

/// The guard of the writer is consumed, and a new owner asks for its place.
fn downgrade(world: &mut World, setup: &Setup, at: usize) -> Result<(), Broken> {
    let client = &mut world.clients[at];
    let writer = client.owner;
    client.may_downgrade = false;
    if client.held.take().is_none() {
        let sent = client.leave();
        world.late.extend(sent);
        return Ok(());
    }
    client.writer = Some(writer);
    client.aim = Aim::Try;
    client.part = Part::ReadInPlaceOf(writer);
    client.owner = OwnerId::random(&SeededRandom::new(100 + at as u64));
    if setup.has(Flaw::DowngradesInTwoSteps) {
        client.part = Part::Read;
        client.aim = Aim::Wait;
        let mut roster = world.settled();
        roster.release(writer, world.now);
        world.record = Some(roster);
        outdate(world);
    }
    Ok(())
}

/// Whether a part writes.
pub(crate) fn writes(need: Need) -> bool {
    need == Need::Write
}
