//! Canonical states of the Redis line model: one form for all states that cannot be distinguished.
//!
//! What no later step can observe is dropped, fences and tickets become ranks, and clients are sorted, because they are
//! interchangeable. A 64-bit fingerprint then represents the state.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use crate::moves::is_heard;
use crate::setup::Setup;
use crate::state::{
    AHEAD, Answer, Client, Command, Entry, FLOOR, Health, Link, Message, Noted, Owner, Phase,
    Request, Server, State, Token,
};
use crate::variants::Flaw;

/// Returns the canonical form of a state.
pub(crate) fn canonical(state: State, setup: &Setup) -> State {
    let mut state = observable(state, setup);
    rank_fences(&mut state, setup);
    rank_tickets(&mut state);
    sort_clients(state)
}

/// Removes what no later step can observe. Clients and numbers keep their names.
pub(crate) fn observable(mut state: State, setup: &Setup) -> State {
    for client in &mut state.clients {
        forget_unobservable(client, setup);
    }
    forget_claim(&mut state);
    forget_flag(&mut state.server, setup);
    if !setup.has(Flaw::RecordsAreNotRead) {
        forget_overridden(&mut state.server);
    }
    state
}

pub(crate) fn fingerprint(value: &impl Hash) -> u64 {
    let mut hasher = Mixer(0x9E37_79B9_7F4A_7C15);
    value.hash(&mut hasher);
    hasher.finish()
}

fn forget_unobservable(client: &mut Client, setup: &Setup) {
    if client.is_done() {
        client.link = Link::Up;
    }
    if client.is_done() || client.health == Health::Killed {
        forget_the_past(client);
    }
    if client.phase != Phase::Want {
        client.ticket = 0;
        client.noted.arrival = 0;
    }
    if !lifts_matter(setup) {
        client.lift_due = false;
    }
    let starts_again = client.phase == Phase::Idle || client.wait < setup.waits;
    if !setup.plain_commands || !starts_again {
        client.last_epoch = 0;
    }
    forget_unheard(client, setup);
    let previous = client.previous.iter_mut().flatten();
    for command in client.commands.iter_mut().chain(previous) {
        forget_needless(command, setup);
    }
}

/// Clears a client that takes no further step. What it left on a connection that the server still reads remains.
fn forget_the_past(client: &mut Client) {
    if client.health == Health::Killed {
        client.phase = Phase::Want;
        client.unsettled = 0;
    }
    client.belief = 0;
    client.ticket = 0;
    client.commands.clear();
    client.replies.clear();
    client.pushes.clear();
    client.lift_due = false;
    client.last_epoch = 0;
    client.noted = Noted {
        has_held: client.noted.has_held,
        ..Noted::default()
    };
}

/// Removes messages that the client would read without any effect.
fn forget_unheard(client: &mut Client, setup: &Setup) {
    let Client {
        phase,
        wait,
        unsettled,
        belief,
        ..
    } = *client;
    let is_heard = |it: &Message| it.wait == wait && is_heard(phase, it.answer);
    let extends = |it: &Message, lease: u8| {
        phase != Phase::Hold || lease.saturating_sub(it.stamp_age) > belief
    };
    client.replies.retain(|it| {
        let settles = it.wait == unsettled && matches!(it.answer, Answer::Released { .. });
        settles
            || is_heard(it)
                && match it.answer {
                    Answer::Granted { lease, .. } => extends(it, lease),
                    Answer::Kept => extends(it, setup.times.ttl),
                    _ => true,
                }
    });
    if !setup.has(Flaw::PushMatchedByName) && !setup.has(Flaw::ValidityFromReceipt) {
        client.pushes.retain(|it| {
            is_heard(it) && matches!(it.answer, Answer::Granted { lease, .. } if extends(it, lease))
        });
    }
    client.pushes.sort_unstable();
    client.replies.iter_mut().for_each(forget_age);
}

fn forget_age(message: &mut Message) {
    if !matches!(message.answer, Answer::Granted { .. } | Answer::Kept) {
        message.stamp_age = 0;
    }
}

fn forget_needless(command: &mut Command, setup: &Setup) {
    if command.request == Request::Release {
        command.stamp_age = 0;
    }
    if !lifts_matter(setup) {
        command.lift = false;
    }
}

/// Returns whether lifting a counter makes a difference. It does not if every existing counter has always been lifted.
fn lifts_matter(setup: &Setup) -> bool {
    setup.troubles.failover || setup.troubles.flush
}

/// Clears the flag (`is_marked`) while nobody waits. It makes no difference then, and the next waiter sets it.
fn forget_flag(server: &mut Server, setup: &Setup) {
    if let Some(key) = &mut server.key
        && server.line.is_empty()
        && !setup.has(Flaw::EnqueueDoesNotMark)
    {
        key.is_marked = false;
    }
}

/// Whether the key was given to a waiter that has not been heard matters until it has held, or as an excuse
/// (`State::has_flushed`).
fn forget_claim(state: &mut State) {
    if let Some(key) = &mut state.server.key
        && let Owner::Ours(token) = key.owner
    {
        let client = &state.clients[usize::from(token.client)];
        key.has_waiter_lease &= !client.noted.has_held || state.has_flushed;
    }
}

/// Clears the contents of a member if a record overrides them.
fn forget_overridden(server: &mut Server) {
    let Server { line, records, .. } = server;
    for entry in line.iter_mut().filter(|entry| entry.age > 0) {
        if records.iter().any(|record| record.token == entry.token) {
            entry.age = 1;
            entry.stamp_age = 0;
            entry.channel = crate::state::Channel::Dead;
        }
    }
}

/// The small numbers that occur, to be turned into ranks. Zero keeps its meaning of "none".
struct Ranks(u128);

impl Ranks {
    fn note(&mut self, value: u8) {
        self.0 |= 1 << value;
    }

    fn of(&self, value: u8) -> u8 {
        (self.0 & ((1 << value) - 1)).count_ones() as u8
    }
}

/// Replaces fences by ranks. Lifted fences stay above the floor, others below. If epochs are guessed, neighbours stay
/// neighbours and others do not become neighbours.
fn rank_fences(state: &mut State, setup: &Setup) {
    let mut noted = 1;
    each_fence(state, &mut |fence| noted |= 1_u128 << *fence);
    if setup.slow_clock {
        noted |= ((1 << AHEAD) - 1) << FLOOR;
    }
    if setup.plain_commands {
        noted |= noted << 1;
    }
    let low = Ranks(noted & ((1 << FLOOR) - 1));
    let high = Ranks(noted >> FLOOR << FLOOR);
    each_fence(state, &mut |fence| {
        *fence = if *fence < FLOOR {
            low.of(*fence)
        } else {
            FLOOR + high.of(*fence)
        }
    });
}

fn rank_tickets(state: &mut State) {
    let mut ranks = Ranks(1);
    each_ticket(state, &mut |ticket| ranks.note(*ticket));
    each_ticket(state, &mut |ticket| *ticket = ranks.of(*ticket));
}

fn each_fence(state: &mut State, see: &mut impl FnMut(&mut u8)) {
    see(&mut state.server.fence);
    see(&mut state.issued);
    see(&mut state.guarded);
    see(&mut state.drawn);
    let keys = [state.server.key.as_mut()];
    if let Some(replica) = &mut state.replica {
        see(&mut replica.fence);
    }
    let replicated = state.replica.as_mut().and_then(|it| it.key.as_mut());
    for key in keys.into_iter().chain([replicated]).flatten() {
        see(&mut key.fence);
    }
    for client in &mut state.clients {
        see(&mut client.last_epoch);
        see(&mut client.highest_epoch);
        let previous = client.previous.iter_mut().flatten();
        for command in client.commands.iter_mut().chain(previous) {
            see(&mut command.floor);
            if let Request::PlainCommands(attempt) = &mut command.request {
                see(&mut attempt.guess);
            }
        }
        for message in client.replies.iter_mut().chain(&mut client.pushes) {
            if let Answer::Granted { fence, .. } = &mut message.answer {
                see(fence);
            }
        }
    }
}

fn each_ticket(state: &mut State, see: &mut impl FnMut(&mut u8)) {
    let in_line = |entry: &mut Entry, see: &mut dyn FnMut(&mut u8)| see(&mut entry.ticket);
    state.server.line.iter_mut().for_each(|it| in_line(it, see));
    let replicated = state.replica.iter_mut().flat_map(|it| &mut it.line);
    replicated.for_each(|it| in_line(it, see));
    for client in &mut state.clients {
        see(&mut client.ticket);
        see(&mut client.noted.arrival);
        let previous = client.previous.iter_mut().flatten();
        for command in client.commands.iter_mut().chain(previous) {
            see(&mut command.ticket);
        }
        for message in &mut client.replies {
            if let Answer::Queued { ticket } = &mut message.answer {
                see(ticket);
            }
        }
    }
}

impl State {
    /// Returns a ticket that is later than all known ones. Tickets are times.
    pub(crate) fn latest_ticket(&mut self) -> u8 {
        let mut latest = 0;
        each_ticket(self, &mut |ticket| latest = latest.max(*ticket));
        latest
    }
}

/// Sorts clients by everything that concerns them. Two clients that are equal in all of it are interchangeable.
fn sort_clients(mut state: State) -> State {
    let mut order: Vec<(u64, usize)> = (0..state.clients.len())
        .map(|index| (fingerprint_of_client(&state, index), index))
        .collect();
    if !order.is_sorted() {
        order.sort_unstable();
        let mut place = [0; 8];
        for (new, (_, old)) in order.iter().enumerate() {
            place[*old] = new as u8;
        }
        rename_clients(&mut state, &place);
    }
    state.server.records.sort_unstable();
    if let Some(replica) = &mut state.replica {
        replica.records.sort_unstable();
    }
    state
}

fn fingerprint_of_client(state: &State, index: usize) -> u64 {
    let mut hasher = Mixer(1);
    state.clients[index].hash(&mut hasher);
    for server in [Some(&state.server), state.replica.as_ref()]
        .into_iter()
        .flatten()
    {
        let is_his = |token: Token| usize::from(token.client) == index;
        if let Some(Owner::Ours(token)) = server.key.map(|key| key.owner)
            && is_his(token)
        {
            hasher.write_u8(token.wait);
        }
        for (place, entry) in server.line.iter().enumerate() {
            if is_his(entry.token) {
                (place as u8, entry.token.wait).hash(&mut hasher);
            }
        }
        for record in &server.records {
            if is_his(record.token) {
                (
                    record.token.wait,
                    record.alive_for,
                    record.stamp_age,
                    record.channel,
                )
                    .hash(&mut hasher);
            }
        }
        hasher.write_u8(255);
    }
    hasher.finish()
}

fn rename_clients(state: &mut State, place: &[u8; 8]) {
    let rename = |token: &mut Token| token.client = place[usize::from(token.client)];
    for server in [Some(&mut state.server), state.replica.as_mut()]
        .into_iter()
        .flatten()
    {
        if let Some(key) = &mut server.key
            && let Owner::Ours(token) = &mut key.owner
        {
            rename(token);
        }
        server.line.iter_mut().for_each(|it| rename(&mut it.token));
        server
            .records
            .iter_mut()
            .for_each(|it| rename(&mut it.token));
    }
    let mut clients: Vec<(u8, Client)> = (place.iter().copied())
        .zip(std::mem::take(&mut state.clients))
        .collect();
    clients.sort_by_key(|(place, _)| *place);
    state.clients = clients.into_iter().map(|(_, client)| client).collect();
}

/// A map by fingerprint. Fingerprints are well mixed, so they are not hashed again.
pub(crate) type ByPrint<V> = HashMap<u64, V, BuildHasherDefault<Mixed>>;

#[derive(Default)]
pub(crate) struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are fingerprints");
    }

    fn write_u64(&mut self, print: u64) {
        self.0 = print;
    }
}

/// A small multiplicative hash that is fast even without optimisation.
struct Mixer(u64);

impl Mixer {
    fn mix(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        self.0 = mixed ^ (mixed >> 32);
    }
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        let mixed = self.0.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        mixed ^ (mixed >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.mix(u64::from(*byte)));
    }

    fn write_u8(&mut self, value: u8) {
        self.mix(u64::from(value) + 1);
    }

    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64 + 1);
    }

    fn write_isize(&mut self, value: isize) {
        self.mix(value as u64 + 1);
    }
}
