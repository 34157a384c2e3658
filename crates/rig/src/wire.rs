//! Follows a conversation between a client and its server, and finds where the reply to a step begins.
//!
//! A step is a request that a lock makes of its store: a RESP command, a Postgres query or group up to its Sync, a ZooKeeper request, a
//! gRPC request. What keeps the connection itself alive or sets it up is not one: a greeting, a ping, a watch that fires, a control frame.

mod grpc;
mod postgres;
mod redis;
mod stand_in;
mod zookeeper;

pub(crate) use redis::command_name;

/// The protocol that passes through a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// That of Redis.
    Resp,
    /// That of Postgres.
    Postgres,
    /// That of ZooKeeper.
    ZooKeeper,
    /// gRPC over HTTP/2, as etcd speaks it.
    Grpc,
}

/// One connection, as its two directions show it.
///
/// What it cannot read, such as TLS, has no steps.
#[derive(Debug)]
pub(crate) struct Conversation(Kind);

#[derive(Debug)]
enum Kind {
    Resp(redis::Commands),
    Postgres(postgres::Groups),
    ZooKeeper(zookeeper::Packets),
    Grpc(grpc::Streams),
}

impl Conversation {
    pub(crate) fn of(wire: Wire) -> Self {
        Self(match wire {
            Wire::Resp => Kind::Resp(redis::Commands::default()),
            Wire::Postgres => Kind::Postgres(postgres::Groups::default()),
            Wire::ZooKeeper => Kind::ZooKeeper(zookeeper::Packets::default()),
            Wire::Grpc => Kind::Grpc(grpc::Streams::default()),
        })
    }

    /// Follows what goes to the server. Must be called before the server can answer it.
    pub(crate) fn asked(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            Kind::Resp(commands) => commands.asked(bytes),
            Kind::Postgres(groups) => groups.asked(bytes),
            // A reply says by itself what it answers.
            Kind::ZooKeeper(_) => {}
            Kind::Grpc(streams) => streams.asked(bytes),
        }
    }

    /// Returns whether this is a connection to a server of Redis.
    pub(crate) fn is_resp(&self) -> bool {
        matches!(self.0, Kind::Resp(_))
    }

    /// Returns whether a transaction of Redis is open.
    pub(crate) fn is_in_transaction(&self) -> bool {
        matches!(&self.0, Kind::Resp(commands) if commands.is_in_transaction())
    }

    /// Lets an error stand in for the reply to the last command that was sent to a server of Redis. Must be called before the server can
    /// answer it.
    pub(crate) fn stand_in(&mut self, error: &'static str) {
        if let Kind::Resp(commands) = &mut self.0 {
            commands.stand_in(error);
        }
    }

    /// Returns what comes from a server of Redis, with errors in place of the replies for which they stand in; `None` for other servers.
    pub(crate) fn replaced(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        match &mut self.0 {
            Kind::Resp(commands) => Some(commands.replaced(bytes)),
            _ => None,
        }
    }

    /// Follows what comes from the server, up to the point at which the reply to a step is recognised. Returns how many bytes that are, or
    /// `None` if no such reply begins in these bytes. The reply is of no use to the client without what follows that point.
    pub(crate) fn answered(&mut self, bytes: &[u8]) -> Option<usize> {
        match &mut self.0 {
            Kind::Resp(commands) => commands.answered(bytes),
            Kind::Postgres(groups) => groups.answered(bytes),
            Kind::ZooKeeper(packets) => packets.answered(bytes),
            Kind::Grpc(streams) => streams.answered(bytes),
        }
    }
}

/// Reads frames of a fixed head and a body whose length the head tells.
#[derive(Debug, Default)]
struct Framed {
    head: Vec<u8>,
    /// How much of the body is still to come.
    left: usize,
}

/// A part of a stream that consists of frames.
enum Part<'a> {
    /// The head of a frame is complete.
    Head(Vec<u8>),
    /// A piece of the body, and whether the frame ends with it.
    Body(&'a [u8], bool),
}

impl Framed {
    /// Returns the next part, and how many bytes of the stream end with it; `None` if more bytes are needed.
    fn next<'a>(
        &mut self,
        bytes: &'a [u8],
        head_bytes: usize,
        length: impl Fn(&[u8]) -> usize,
    ) -> Option<(Part<'a>, usize)> {
        if bytes.is_empty() {
            return None;
        }
        if self.left > 0 {
            let piece = &bytes[..bytes.len().min(self.left)];
            self.left -= piece.len();
            return Some((Part::Body(piece, self.left == 0), piece.len()));
        }
        let wanted = head_bytes.saturating_sub(self.head.len());
        let piece = &bytes[..bytes.len().min(wanted)];
        self.head.extend_from_slice(piece);
        if self.head.len() < head_bytes {
            return None;
        }
        let head = std::mem::take(&mut self.head);
        self.left = length(&head);
        Some((Part::Head(head), piece.len()))
    }
}

/// Reads a big-endian number.
fn number(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .fold(0, |sum, byte| (sum << 8) | usize::from(*byte))
}

#[cfg(test)]
mod tests;
