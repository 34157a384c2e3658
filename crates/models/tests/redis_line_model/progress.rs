//! Fair runs of the Redis line model after faults stop: all living clients act at once, holders release, time passes, waiters
//! send heartbeats.
//!
//! From every state that the search reaches, such a fair run must finish every living client, must not lose more time to dead
//! waiters than promised, and must leave nothing behind. Runs soon converge, so the outcome from each state is remembered.

use crate::canonical::{ByPrint, canonical, fingerprint};
use crate::client::Manner;
use crate::invariants::{self, Promise, has_finished};
use crate::moves::{Move, apply, beats};
use crate::setup::Setup;
use crate::state::{Client, Health, Link, Owner, Phase, State, Token};
use crate::story;

/// What the server does with connections that their clients have abandoned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Leftovers {
    Executed,
    Closed,
    /// Half open, which is like a frozen client.
    Lingering,
}

/// One of the fair orders of events.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Schedule {
    backwards: bool,
    leftovers: Leftovers,
}

impl Schedule {
    fn mixed_with(self, print: u64) -> u64 {
        fingerprint(&(self, print))
    }
}

/// How long the run took from here, and for how much of it a dead waiter owned the key.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Cost {
    pub(crate) ticks: u32,
    pub(crate) dead_ticks: u32,
}

#[derive(Default)]
pub(crate) struct Progress {
    known: ByPrint<Cost>,
    pub(crate) worst: Cost,
}

/// The number of steps without time after which nothing new can happen.
const ROUNDS_MAX: usize = 60;

impl Progress {
    /// Continues from the state, which is in canonical form, under every schedule.
    pub(crate) fn judge(&mut self, state: &State, setup: &Setup) -> Result<(), Promise> {
        let calm = State {
            faults_left: 0,
            plain_turns_left: 0,
            late_ticks_left: None,
            replica: None,
            ..state.clone()
        };
        let print = fingerprint(&calm);
        let has_leftovers = state.clients.iter().any(|it| it.previous.is_some());
        let leftovers: &[Leftovers] = if has_leftovers {
            &[Leftovers::Executed, Leftovers::Closed, Leftovers::Lingering]
        } else {
            &[Leftovers::Closed]
        };
        for &leftovers in leftovers {
            for backwards in [false, true] {
                let schedule = Schedule {
                    backwards,
                    leftovers,
                };
                let cost = match self.known.get(&schedule.mixed_with(print)) {
                    Some(known) => *known,
                    None => self.run(calm.clone(), setup, schedule)?,
                };
                if cost.dead_ticks > allowance(state, setup, schedule) {
                    return Err(Promise::DeadWaiterCostsAWaiterLease);
                }
                self.worst.ticks = self.worst.ticks.max(cost.ticks);
                self.worst.dead_ticks = self.worst.dead_ticks.max(cost.dead_ticks);
            }
        }
        Ok(())
    }

    fn run(
        &mut self,
        mut state: State,
        setup: &Setup,
        schedule: Schedule,
    ) -> Result<Cost, Promise> {
        let mut path: Vec<(u64, u32)> = Vec::new();
        let mut cost = loop {
            let here = schedule.mixed_with(fingerprint(&state));
            if let Some(known) = self.known.get(&here) {
                break *known;
            }
            if path.iter().any(|(before, _)| *before == here) {
                return Err(Promise::NobodyIsStuck);
            }
            settle(&mut state, setup, schedule, &mut |state, step| {
                apply(state, setup, step)
            })?;
            if state.clients.iter().all(is_through) {
                nothing_is_left(&state)?;
                self.known.insert(here, Cost::default());
                break Cost::default();
            }
            path.push((here, u32::from(a_dead_waiter_owns_the_key(&state, setup)?)));
            pass_time(&mut state, setup, &mut |state, step| {
                apply(state, setup, step)
            });
            state = canonical(state, setup);
        };
        for (here, dead) in path.into_iter().rev() {
            cost.ticks += 1;
            cost.dead_ticks += dead;
            self.known.insert(here, cost);
        }
        Ok(cost)
    }
}

/// Returns the allowed delay: one waiter lease for killed waiters, and less than two if the server cannot see their death.
fn allowance(state: &State, setup: &Setup, schedule: Schedule) -> u32 {
    let waiter_lease = u32::from(setup.times.waiter_lease);
    let is_hidden = |client: &Client| {
        client.health == Health::Frozen
            || (client.previous.is_some() && schedule.leftovers != Leftovers::Closed)
    };
    let hidden = setup.poll_mode || setup.monitor || state.clients.iter().any(is_hidden);
    if hidden {
        2 * waiter_lease - 1
    } else {
        waiter_lease
    }
}

fn is_through(client: &Client) -> bool {
    !client.is_well() || client.is_done()
}

/// How a step is taken: silently, or with a story.
type Take<'a> = &'a mut dyn FnMut(&mut State, Move);

/// Takes every step that needs no time, until nothing changes.
fn settle(
    state: &mut State,
    setup: &Setup,
    schedule: Schedule,
    take: Take<'_>,
) -> Result<(), Promise> {
    for _ in 0..ROUNDS_MAX {
        let mut moved = false;
        for turn in 0..state.clients.len() {
            let client = if schedule.backwards {
                state.clients.len() - 1 - turn
            } else {
                turn
            };
            while let Some(step) = urgent(&state.clients[client], client, setup, schedule) {
                take(state, step);
                moved = true;
                if let Some(promise) = invariants::broken(state) {
                    return Err(promise);
                }
            }
        }
        if !moved {
            return Ok(());
        }
    }
    Err(Promise::NobodyIsStuck)
}

/// Returns what a client, or the server for it, does without delay.
fn urgent(client: &Client, index: usize, setup: &Setup, schedule: Schedule) -> Option<Move> {
    if let Some(previous) = &client.previous {
        match schedule.leftovers {
            Leftovers::Executed if !previous.is_empty() => {
                return Some(Move::ExecutePrevious(index));
            }
            Leftovers::Executed | Leftovers::Closed => return Some(Move::ClosePrevious(index)),
            Leftovers::Lingering => {}
        }
    }
    if client.link == Link::Up && !client.commands.is_empty() {
        return Some(Move::Execute(index));
    }
    if !client.is_well() {
        return None;
    }
    match client.link {
        _ if !client.replies.is_empty() => return Some(Move::ReadReply(index)),
        _ if !client.pushes.is_empty() => return Some(Move::ReadPush(index, 0)),
        Link::Cut => return Some(Move::NoticeCut(index)),
        Link::Down if !client.is_done() => return Some(Move::Reconnect(index)),
        Link::Up | Link::Down => {}
    }
    match client.phase {
        Phase::Idle if schedule.backwards && client.may_use_plain_commands(setup) => {
            Some(Move::Start(index, Manner::PlainCommands))
        }
        Phase::Idle => Some(Move::Start(index, Manner::Script)),
        Phase::Hold => Some(Move::Release(index)),
        Phase::Want | Phase::Releasing | Phase::Done => None,
    }
}

fn pass_time(state: &mut State, setup: &Setup, take: Take<'_>) {
    take(state, Move::Tick);
    for index in 0..state.clients.len() {
        let client = &state.clients[index];
        if client.is_well() && client.phase == Phase::Want && beats(client, setup) {
            take(state, Move::Beat(index));
        }
    }
}

/// Describes a fair run that ends as badly as the one that was found. States are stored without the names of their clients, so
/// it may be a different order.
pub(crate) fn tell(state: &State, setup: &Setup, promise: Promise) -> String {
    let kinds = [Leftovers::Executed, Leftovers::Closed, Leftovers::Lingering];
    let schedules = kinds.into_iter().flat_map(|leftovers| {
        [false, true].map(|backwards| Schedule {
            backwards,
            leftovers,
        })
    });
    schedules
        .filter_map(|schedule| tell_run(state.clone(), setup, schedule, promise))
        .min_by_key(String::len)
        .unwrap_or_default()
}

/// A run that has not ended after this many ticks is not described further.
const TOLD_TICKS_MAX: usize = 6;

fn tell_run(
    mut state: State,
    setup: &Setup,
    schedule: Schedule,
    promise: Promise,
) -> Option<String> {
    let allowance = allowance(&state, setup, schedule);
    let mut dead_ticks = 0;
    let mut told = String::new();
    let mut take = |state: &mut State, step: Move| {
        let before = state.clone();
        apply(state, setup, step);
        told += &story::line(&before, step, state);
    };
    for _ in 0..TOLD_TICKS_MAX {
        if let Err(broken) = settle(&mut state, setup, schedule, &mut take) {
            return (broken == promise).then_some(told);
        }
        if state.clients.iter().all(is_through) {
            let is_bad = nothing_is_left(&state) == Err(promise);
            return is_bad.then_some(told);
        }
        match a_dead_waiter_owns_the_key(&state, setup) {
            Err(broken) => return (broken == promise).then_some(told),
            Ok(is_dead) => dead_ticks += u32::from(is_dead),
        }
        pass_time(&mut state, setup, &mut take);
        if promise == Promise::DeadWaiterCostsAWaiterLease && dead_ticks > allowance {
            return Some(told);
        }
    }
    (promise == Promise::NobodyIsStuck).then_some(told)
}

fn a_dead_waiter_owns_the_key(state: &State, setup: &Setup) -> Result<bool, Promise> {
    let Some(key) = state.server.key.filter(|key| key.has_waiter_lease) else {
        return Ok(false);
    };
    let Owner::Ours(token) = key.owner else {
        return Ok(false);
    };
    let client = &state.clients[usize::from(token.client)];
    let is_dead = !client.is_well() && !client.noted.has_held;
    if is_dead && key.remaining > setup.times.waiter_lease {
        return Err(Promise::DeadWaiterCostsAWaiterLease);
    }
    Ok(is_dead)
}

fn nothing_is_left(state: &State) -> Result<(), Promise> {
    let is_over = |token: Token| {
        let client = &state.clients[usize::from(token.client)];
        client.is_well() && has_finished(client, token.wait)
    };
    let entries = state.server.line.iter().map(|it| it.token);
    let mut tokens = entries.chain(state.server.records.iter().map(|it| it.token));
    let is_excused = state.has_failed_over || state.has_flushed;
    if !is_excused && tokens.any(is_over) {
        return Err(Promise::NothingIsLeftBehind);
    }
    Ok(())
}
