//! Connections in the Redis line model, and faults of connections, clients and the server.

use crate::setup::Setup;
use crate::state::{Answer, Channel, Client, Health, Link, Phase, Request, Server, State};
use crate::variants::Flaw;

/// The client's end breaks. The server has not noticed: it keeps the connection with its unread commands, which it may still
/// execute, and with its subscription.
pub(crate) fn disconnect(state: &mut State, client: usize) {
    age_channels(&mut state.server, client, Channel::Previous);
    let client = &mut state.clients[client];
    client.previous = Some(std::mem::take(&mut client.commands));
    lose_link(client);
}

/// The client notices that the server's end is gone.
pub(crate) fn notice_cut(state: &mut State, client: usize) {
    lose_link(&mut state.clients[client]);
}

fn lose_link(client: &mut Client) {
    client.link = Link::Down;
    client.last_epoch = 0;
    client.commands.clear();
    client.replies.clear();
    client.pushes.clear();
}

/// `HELLO`, `CLIENT KILL` of the previous connection, `SUBSCRIBE` with its confirmation; then the commands.
pub(crate) fn reconnect(state: &mut State, setup: &Setup, client: usize) {
    if !setup.has(Flaw::OldConnectionLives) {
        close_previous(state, client);
    }
    let client = &mut state.clients[client];
    client.link = Link::Up;
    client.lift_due = true;
    client.resume(setup);
}

/// The server closes the connection that its client has abandoned.
pub(crate) fn close_previous(state: &mut State, client: usize) {
    state.clients[client].previous = None;
    age_channels(&mut state.server, client, Channel::Dead);
}

/// Ages the client's channels by one step: the current one becomes `into`, older ones die.
fn age_channels(server: &mut Server, client: usize, into: Channel) {
    let age = |channel: &mut Channel| {
        *channel = match *channel {
            Channel::Current if into == Channel::Previous => Channel::Previous,
            Channel::Previous => Channel::Dead,
            other => other,
        }
    };
    let is_his = |token: crate::state::Token| usize::from(token.client) == client;
    for entry in server.line.iter_mut().filter(|it| is_his(it.token)) {
        age(&mut entry.channel);
    }
    for record in server.records.iter_mut().filter(|it| is_his(it.token)) {
        age(&mut record.channel);
    }
}

/// SIGKILL: the kernel closes the socket.
pub(crate) fn kill(state: &mut State, client: usize) {
    if state.clients[client].link == Link::Up {
        disconnect(state, client);
    }
    let client = &mut state.clients[client];
    lose_link(client);
    client.health = Health::Killed;
    client.belief = 0;
}

/// The server comes back without any key.
pub(crate) fn restart_empty(state: &mut State) {
    replace_server(state, Server::default());
}

/// Every key is removed. Connections are not affected.
pub(crate) fn flush(state: &mut State) {
    state.server = Server::default();
    state.replica = None;
    state.has_flushed = true;
    for client in &mut state.clients {
        client.noted.lease_forgotten |= matches!(client.phase, Phase::Hold | Phase::Releasing);
        for message in client.replies.iter_mut().chain(&mut client.pushes) {
            message.is_forgotten = matches!(message.answer, Answer::Granted { .. });
        }
        let previous = client.previous.iter_mut().flatten();
        for command in client.commands.iter_mut().chain(previous) {
            if let Request::PlainCommands(attempt) = &mut command.request {
                attempt.is_forgotten = attempt.is_set;
            }
        }
    }
}

/// The replica takes over with what it had received.
pub(crate) fn fail_over(state: &mut State) {
    if let Some(replica) = state.replica.take() {
        replace_server(state, replica);
        state.has_failed_over = true;
    }
}

fn replace_server(state: &mut State, mut server: Server) {
    let old_channels = server.line.iter_mut().map(|it| &mut it.channel);
    let old_channels = old_channels.chain(server.records.iter_mut().map(|it| &mut it.channel));
    for channel in old_channels.filter(|channel| **channel != Channel::Silent) {
        *channel = Channel::Dead;
    }
    state.server = server;
    for client in &mut state.clients {
        client.previous = None;
        client.commands.clear();
        client.noted.lease_forgotten |= matches!(client.phase, Phase::Hold | Phase::Releasing);
        if client.link == Link::Up {
            client.link = Link::Cut;
        }
    }
}
