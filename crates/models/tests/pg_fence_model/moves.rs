//! The state of the Postgres fence model, and every step that can happen next.

use crate::server::{DRAWS_PER_TICK, Server, UNITS};
use crate::setup::{Flaw, Setup};

pub(crate) const SESSIONS_MAX: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Phase {
    Idle,
    /// It has the right to lift.
    Lifting,
    /// It has computed the value that it will set the lift (or the only sequence) to.
    Lifts(u8),
    /// It asks for the lock. Contains the lift at that time.
    Asks(u8),
    /// It has the lock.
    Locked(u8),
    /// It has read the lift.
    Read(u8),
    /// It has drawn its fence, and its transaction ends now.
    Drawn(u8),
    /// It was told its fence, and holds the lock.
    Holds,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Session {
    pub(crate) phase: Phase,
    pub(crate) is_lifted: bool,
    /// A number that was drawn together with an earlier one, for later use.
    pub(crate) kept: Option<u8>,
    pub(crate) draws_left: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) sessions: [Session; SESSIONS_MAX],
    pub(crate) clock: u8,
    pub(crate) drawn_this_tick: u8,
    pub(crate) crashes_left: u8,
    pub(crate) failovers_left: u8,
    /// The largest fence that was reported to any holder.
    pub(crate) highest: u8,
    /// Whether the last reported fence was not larger than all before.
    pub(crate) has_fallen: bool,
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        let session = |at: usize| Session {
            phase: Phase::Idle,
            is_lifted: setup.has(Flaw::NoLift),
            kept: None,
            draws_left: if at < setup.sessions { setup.draws } else { 0 },
        };
        Self {
            server: Server::default(),
            sessions: std::array::from_fn(session),
            clock: 1,
            drawn_this_tick: 0,
            crashes_left: setup.crashes,
            failovers_left: setup.failovers,
            highest: 0,
            has_fallen: false,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Move {
    /// A session takes its next step.
    Step(usize),
    /// Time passes.
    Tick,
    /// The server writes its log to the disk on its own.
    Flush,
    /// The standby receives what is on disk.
    Replicate,
    Crash,
    /// The server is lost, and the standby takes over with what it has.
    Failover,
}

pub(crate) fn enabled(world: &World, setup: &Setup) -> Vec<Move> {
    let mut moves = Vec::new();
    let can_step = |at: &usize| step(world, setup, *at).is_some();
    moves.extend((0..setup.sessions).filter(can_step).map(Move::Step));
    if world.clock < setup.clock_max {
        moves.push(Move::Tick);
    }
    if world.crashes_left + world.failovers_left > 0 && world.server.disk != world.server.log {
        moves.push(Move::Flush);
    }
    if world.failovers_left > 0 && world.server.standby != world.server.disk {
        moves.push(Move::Replicate);
    }
    if world.crashes_left > 0 {
        moves.push(Move::Crash);
    }
    if world.failovers_left > 0 {
        moves.push(Move::Failover);
    }
    moves
}

pub(crate) fn after(world: &World, setup: &Setup, taken: Move) -> World {
    let mut next = *world;
    match taken {
        Move::Step(at) => return step(world, setup, at).expect("an enabled step"),
        Move::Tick => tick(&mut next, 1),
        Move::Flush => next.server.flush(),
        Move::Replicate => next.server.replicate(),
        Move::Crash => {
            next.crashes_left -= 1;
            next.server.comes_back_with(next.server.disk);
            forget_sessions(&mut next, setup);
            match setup.crash_sets_back {
                // The numbers that the log counts ahead are skipped. Starting a server takes longer than that.
                0 => tick(&mut next, 1),
                back => next.clock = next.clock.saturating_sub(back),
            }
        }
        Move::Failover => {
            next.failovers_left -= 1;
            next.server.comes_back_with(next.server.standby);
            forget_sessions(&mut next, setup);
            // An outage takes some time.
            tick(&mut next, 1);
            next.clock = next.clock.saturating_sub(setup.standby_is_behind);
        }
    }
    next
}

fn tick(world: &mut World, ticks: u8) {
    world.clock += ticks;
    world.drawn_this_tick = 0;
}

fn forget_sessions(world: &mut World, setup: &Setup) {
    for session in &mut world.sessions {
        session.phase = Phase::Idle;
        session.kept = None;
        session.is_lifted &= setup.has(Flaw::KeptByClient) || setup.has(Flaw::NoLift);
    }
}

/// Returns the state after the next step of a session; `None` if it waits, or has nothing more to do.
fn step(world: &World, setup: &Setup, at: usize) -> Option<World> {
    let mut next = *world;
    let World {
        server,
        sessions,
        drawn_this_tick,
        highest,
        has_fallen,
        ..
    } = &mut next;
    let session = &mut sessions[at];
    let own = Some(at as u8);
    session.phase = match session.phase {
        Phase::Idle if session.draws_left == 0 => return None,
        Phase::Idle if !session.is_lifted => {
            if server.lifter.is_some() && !setup.has(Flaw::LiftersTogether) {
                return None;
            }
            server.lifter = own;
            Phase::Lifting
        }
        Phase::Idle => Phase::Asks(server.lift),
        Phase::Lifting => Phase::Lifts(target(server, setup, world.clock)),
        Phase::Lifts(value) => {
            if setup.has(Flaw::OneSequence) {
                server.set_count(value);
            } else {
                server.set_lift(value);
            }
            server.lifter = None;
            session.is_lifted = true;
            Phase::Idle
        }
        Phase::Asks(lift) => {
            if server.holder.is_some() {
                return None;
            }
            server.holder = own;
            Phase::Locked(lift)
        }
        Phase::Locked(lift) => {
            if setup.has(Flaw::ReadBeforeTheLock) {
                Phase::Read(lift)
            } else {
                Phase::Read(server.lift)
            }
        }
        Phase::Read(lift) => {
            if world.drawn_this_tick >= DRAWS_PER_TICK {
                return None;
            }
            let number = session.kept.take().unwrap_or_else(|| {
                let first = server.draw();
                if setup.has(Flaw::Cached) {
                    session.kept = Some(server.draw());
                }
                first
            });
            session.draws_left -= 1;
            *drawn_this_tick += 1;
            Phase::Drawn(lift + number)
        }
        Phase::Drawn(fence) => {
            if !setup.has(Flaw::NoFlush) && !setup.told_in_transaction {
                server.flush();
            }
            *has_fallen = fence <= *highest;
            *highest = fence.max(*highest);
            Phase::Holds
        }
        Phase::Holds => {
            server.holder = None;
            Phase::Idle
        }
    };
    Some(next)
}

/// Returns the value that a lift sets: the next fence is past the clock, and never lower than before.
fn target(server: &Server, setup: &Setup, clock: u8) -> u8 {
    let time = clock * UNITS;
    if setup.has(Flaw::OneSequence) {
        return server.count.max(time);
    }
    let counted = if setup.has(Flaw::CountedTwice) {
        0
    } else {
        server.count
    };
    server.lift.max(time.saturating_sub(counted))
}
