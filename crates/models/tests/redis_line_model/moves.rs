//! The moves of the Redis line model: every step that clients, server and network can take next.

use crate::client::{Manner, receive_push, receive_reply};
use crate::network;
use crate::server::{self, Via};
use crate::setup::Setup;
use crate::state::{Answer, Client, Health, Key, Link, Owner, Phase, Request, State};
use crate::variants::Flaw;

/// One step. The number is the index of the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Move {
    Tick,
    Start(usize, Manner),
    StartNext(usize, Manner),
    Execute(usize),
    ReadReply(usize),
    /// The second number is the index of the push.
    ReadPush(usize, usize),
    Beat(usize),
    Renew(usize),
    /// A holder asks again with the same token.
    AskAgain(usize),
    Release(usize),
    GiveUp(usize),
    Cancel(usize),
    Disconnect(usize),
    NoticeCut(usize),
    Reconnect(usize),
    ExecutePrevious(usize),
    ClosePrevious(usize),
    Freeze(usize),
    Thaw(usize),
    Kill(usize),
    DropPush(usize, usize),
    DuplicatePush(usize, usize),
    PlainTakes,
    PlainReleases,
    Replicate,
    FailOver,
    RestartEmpty,
    Flush,
    LineExpires,
}

impl Move {
    fn is_fault(self) -> bool {
        matches!(
            self,
            Self::Cancel(_)
                | Self::Disconnect(_)
                | Self::Freeze(_)
                | Self::Kill(_)
                | Self::DropPush(..)
                | Self::DuplicatePush(..)
                | Self::FailOver
                | Self::RestartEmpty
                | Self::Flush
        )
    }
}

/// Returns the state after the move, not yet in canonical form.
pub(crate) fn after(state: &State, setup: &Setup, step: Move) -> State {
    let mut next = state.clone();
    next.faults_left -= u8::from(step.is_fault());
    if step == Move::Tick && state.somebody_is_late() {
        next.late_ticks_left = state.late_ticks_left.map(|left| left - 1);
    }
    apply(&mut next, setup, step);
    next
}

pub(crate) fn apply(state: &mut State, setup: &Setup, step: Move) {
    match step {
        Move::Tick => state.tick(&setup.times),
        Move::Start(client, manner) => state.clients[client].start(manner),
        Move::StartNext(client, manner) => state.clients[client].start_next(setup, manner),
        Move::Execute(client) => {
            let command = state.clients[client].commands.remove(0);
            server::execute(state, setup, client, command, Via::Current);
        }
        Move::ReadReply(client) => receive_reply(state, setup, client),
        Move::ReadPush(client, push) => receive_push(state, setup, client, push),
        Move::Beat(client) => state.clients[client].send(Request::BeatWaiting),
        Move::Renew(client) => state.clients[client].send(Request::BeatHolding),
        Move::AskAgain(client) => state.clients[client].ask(),
        Move::Release(client) | Move::GiveUp(client) | Move::Cancel(client) => {
            state.clients[client].release();
        }
        Move::Disconnect(client) => network::disconnect(state, client),
        Move::NoticeCut(client) => network::notice_cut(state, client),
        Move::Reconnect(client) => network::reconnect(state, setup, client),
        Move::ExecutePrevious(client) => {
            if let Some(previous) = &mut state.clients[client].previous {
                let command = previous.remove(0);
                server::execute(state, setup, client, command, Via::Previous);
            }
        }
        Move::ClosePrevious(client) => network::close_previous(state, client),
        Move::Freeze(client) => state.clients[client].health = Health::Frozen,
        Move::Thaw(client) => state.clients[client].health = Health::Well,
        Move::Kill(client) => network::kill(state, client),
        Move::DropPush(client, push) => {
            state.clients[client].pushes.remove(push);
        }
        Move::DuplicatePush(client, push) => {
            let copy = state.clients[client].pushes[push];
            state.clients[client].pushes.push(copy);
        }
        Move::PlainTakes => {
            state.plain_turns_left -= 1;
            state.server.key = Some(Key {
                owner: Owner::Plain,
                remaining: setup.times.ttl,
                has_waiter_lease: false,
                fence: 0,
                is_marked: false,
                is_guessed: false,
            });
        }
        Move::PlainReleases => state.server.key = None,
        Move::Replicate => state.replica = Some(state.server.clone()),
        Move::FailOver => network::fail_over(state),
        Move::RestartEmpty => network::restart_empty(state),
        Move::Flush => network::flush(state),
        Move::LineExpires => {
            state.server.line.clear();
            state.server.records.clear();
        }
    }
}

/// Returns the moves that the state allows.
pub(crate) fn enabled(state: &State, setup: &Setup) -> Vec<Move> {
    let mut moves = Vec::with_capacity(16);
    let has_time = state.late_ticks_left != Some(0) || !state.somebody_is_late();
    if has_time && time_matters(state) {
        moves.push(Move::Tick);
    }
    for (index, client) in state.clients.iter().enumerate() {
        moves_of_connections(client, index, &mut moves);
        match client.health {
            Health::Well => moves_of_client(client, index, setup, &mut moves),
            Health::Frozen => moves.push(Move::Thaw(index)),
            Health::Killed => {}
        }
        if state.faults_left > 0 {
            faults_of_client(client, index, setup, &mut moves);
        }
    }
    moves_of_others(state, setup, &mut moves);
    moves
}

fn time_matters(state: &State) -> bool {
    let is_busy = |client: &Client| {
        let previous = client.previous.iter().flatten();
        client.belief > 0
            || client.commands.iter().chain(previous).next().is_some()
            || !client.replies.is_empty()
            || !client.pushes.is_empty()
    };
    state.server.key.is_some()
        || !state.server.line.is_empty()
        || !state.server.records.is_empty()
        || state.clients.iter().any(is_busy)
}

fn moves_of_connections(client: &Client, index: usize, moves: &mut Vec<Move>) {
    if client.link == Link::Up && !client.commands.is_empty() {
        moves.push(Move::Execute(index));
    }
    if let Some(previous) = &client.previous {
        if !previous.is_empty() {
            moves.push(Move::ExecutePrevious(index));
        }
        moves.push(Move::ClosePrevious(index));
    }
}

fn moves_of_client(client: &Client, index: usize, setup: &Setup, moves: &mut Vec<Move>) {
    match client.link {
        Link::Up => {}
        Link::Cut => moves.push(Move::NoticeCut(index)),
        Link::Down if client.is_done() => {}
        Link::Down => moves.push(Move::Reconnect(index)),
    }
    if !client.replies.is_empty() {
        moves.push(Move::ReadReply(index));
    }
    distinct_pushes(client, |push| moves.push(Move::ReadPush(index, push)));
    match client.phase {
        Phase::Idle if client.link == Link::Up => {
            moves.extend(manners(client, setup).map(|manner| Move::Start(index, manner)));
        }
        Phase::Want if client.may_beat(setup) && beats(client, setup) => {
            moves.push(Move::Beat(index))
        }
        Phase::Releasing if may_start_next(client, setup) => {
            moves.extend(manners(client, setup).map(|manner| Move::StartNext(index, manner)));
        }
        Phase::Hold if client.belief == 0 => moves.push(Move::GiveUp(index)),
        Phase::Hold => {
            if client.may_beat(setup) {
                moves.push(Move::Renew(index));
                moves.extend(setup.asks_again.then_some(Move::AskAgain(index)));
            }
            moves.push(Move::Release(index));
        }
        _ => {}
    }
}

fn manners(client: &Client, setup: &Setup) -> impl Iterator<Item = Manner> {
    let plain_commands = client
        .may_use_plain_commands(setup)
        .then_some(Manner::PlainCommands);
    [Manner::Script].into_iter().chain(plain_commands)
}

fn may_start_next(client: &Client, setup: &Setup) -> bool {
    setup.eager && client.wait < setup.waits && client.unsettled == 0 && client.link == Link::Up
}

/// Returns whether the client sends heartbeats while it waits.
pub(crate) fn beats(client: &Client, setup: &Setup) -> bool {
    !client.only_tries && !setup.has(Flaw::PublishWithoutPoll)
}

fn distinct_pushes(client: &Client, mut each: impl FnMut(usize)) {
    for (push, message) in client.pushes.iter().enumerate() {
        if push == 0 || client.pushes[push - 1] != *message {
            each(push);
        }
    }
}

fn faults_of_client(client: &Client, index: usize, setup: &Setup, moves: &mut Vec<Move>) {
    let troubles = &setup.troubles;
    let is_over = client.is_done() || client.health == Health::Killed;
    if is_over {
        return;
    }
    if troubles.kill && client.phase != Phase::Idle {
        moves.push(Move::Kill(index));
    }
    if !client.is_well() {
        return;
    }
    if troubles.freeze && client.phase != Phase::Idle {
        moves.push(Move::Freeze(index));
    }
    if troubles.cancel && client.phase == Phase::Want {
        moves.push(Move::Cancel(index));
    }
    if troubles.disconnect && client.link == Link::Up && client.phase != Phase::Idle {
        moves.push(Move::Disconnect(index));
    }
    distinct_pushes(client, |push| {
        if troubles.drop_push {
            moves.push(Move::DropPush(index, push));
        }
        if troubles.duplicate_push {
            moves.push(Move::DuplicatePush(index, push));
        }
    });
}

fn moves_of_others(state: &State, setup: &Setup, moves: &mut Vec<Move>) {
    match state.server.key.map(|key| key.owner) {
        None if state.plain_turns_left > 0 => moves.push(Move::PlainTakes),
        Some(Owner::Plain) => moves.push(Move::PlainReleases),
        _ => {}
    }
    if line_may_expire(state) {
        moves.push(Move::LineExpires);
    }
    if state.faults_left == 0 {
        return;
    }
    if setup.troubles.restart_empty {
        moves.push(Move::RestartEmpty);
    }
    if setup.troubles.flush {
        moves.push(Move::Flush);
    }
    if setup.troubles.failover {
        moves.push(match state.replica {
            Some(_) => Move::FailOver,
            None => Move::Replicate,
        });
    }
}

/// Returns whether the line may expire because no heartbeat has arrived for many waiter leases.
fn line_may_expire(state: &State) -> bool {
    let is_silent = |entry: &crate::state::Entry| match state.server.record(entry.token) {
        Some(record) => record.alive_for == 0,
        None => entry.age > 0,
    };
    !state.server.line.is_empty() && state.server.line.iter().all(is_silent)
}

/// Returns whether the client would react to the message. Others may be dropped at once.
pub(crate) fn is_heard(phase: Phase, answer: Answer) -> bool {
    match phase {
        Phase::Idle | Phase::Done => false,
        Phase::Want => !matches!(
            answer,
            Answer::Kept | Answer::Lost | Answer::Released { .. }
        ),
        Phase::Hold => matches!(answer, Answer::Granted { .. } | Answer::Kept | Answer::Lost),
        Phase::Releasing => matches!(answer, Answer::Released { .. }),
    }
}
