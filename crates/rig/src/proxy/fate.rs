//! The words for what a proxy does to what passes: which way, how much of it, and what becomes of a message, of a reply, and of a request.

use std::time::Duration;

/// Which way bytes travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server: requests.
    ToServer,
    /// From the server to the client: answers.
    ToClient,
}

/// How much may pass before a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// This many bytes.
    Bytes(u64),
    /// This many RESP messages: top-level commands or answers. In other protocols, each line counts.
    Messages(u64),
}

/// What happens to one RESP message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is forwarded in order.
    Pass,
    /// It is dropped, and the connection goes on with the next message.
    Lose,
    /// It is forwarded this much later, and others overtake it. With [`Proxy::FOREVER`](super::Proxy::FOREVER), it is forwarded when the
    /// proxy is healed.
    Late(Duration),
    /// It is forwarded twice.
    Twice,
    /// The connection is closed instead, at both ends.
    Cut,
}

/// What happens to one reply of the server.
///
/// If the proxy [knows the protocol](super::Proxy::speaks), a reply is what answers a step: a request that a lock makes of its store.
/// Greetings, pings and messages that come unasked pass. Otherwise a reply is everything that the server sends on a connection after it was
/// asked something, until it is asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyFate {
    /// It is forwarded.
    Pass,
    /// It and what follows on its connection are forwarded when the proxy is healed.
    Hold,
    /// The connection is closed instead, at both ends.
    Cut,
}

/// An error that stands in for the reply of a Redis server to one of its commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StandIn {
    /// The error as a server words it, with its code first.
    pub error: &'static str,
    /// Whether the server carries the command out and only its reply is replaced. Otherwise the command does not reach the server.
    pub is_carried_out: bool,
}
