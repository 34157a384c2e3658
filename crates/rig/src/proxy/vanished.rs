//! A machine of clients that vanishes from the network: its connections get no end, and nothing that the server sends is acknowledged.
//!
//! [`Proxy::bury`] is not enough for that. Its connections are dead for whoever uses them, but the kernel still acknowledges what arrives for
//! them, also the probes with which a server asks whether the other end is alive. A server that looks for dead connections would never find
//! one. So the end that the server sees gets a filter that drops every packet before TCP has it. That needs no privileges.

use std::io;

use socket2::{SockRef, Socket};
use tokio::net::TcpStream;

use super::{Ordering, Proxy, Shared, lock};

/// Lets a socket drop every packet that arrives for it. Its other end gets no acknowledgement any more.
#[cfg(target_os = "linux")]
fn deafen(socket: SockRef<'_>) -> io::Result<()> {
    /// The only instruction: keep zero bytes of a packet, which drops it (`BPF_RET | BPF_K` in linux/bpf_common.h).
    const DROP_ALL: u16 = 0x06;
    socket.attach_filter(&[socket2::SockFilter::new(DROP_ALL, 0, 0, 0)])
}

/// Only Linux has such filters.
#[cfg(not(target_os = "linux"))]
fn deafen(_: SockRef<'_>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns another handle on the socket of a connection.
fn socket_of(stream: &TcpStream) -> io::Result<Socket> {
    SockRef::from(stream).try_clone()
}

impl Proxy {
    /// Lets the machine of the clients vanish from the network. On the connections that are open now, nothing passes any more in either
    /// direction, the server's packets are not acknowledged, and the server does not learn that a client has closed its end or died. A
    /// server that asks for signs of life (TCP keepalive, `TCP_USER_TIMEOUT`) gets none, and gives such a connection up as on a real
    /// network. New connections reach no server until the proxy is [healed](Self::heal). Returns how many connections are affected.
    ///
    /// # Errors
    /// Returns the system's error if it cannot drop packets, which is `Unsupported` on other systems than Linux. The connections are dead all
    /// the same, as after [`bury`](Self::bury).
    pub fn vanish(&self) -> io::Result<u64> {
        let open = lock(&self.shared.open);
        let next = self.shared.connections.load(Ordering::Acquire);
        let mut before = 0;
        self.shared.faults.send_modify(|faults| {
            before = std::mem::replace(&mut faults.buried, next);
            faults.vanished = next;
            faults.is_client_gone = true;
        });
        for server_end in open.values().flatten() {
            deafen(SockRef::from(server_end))?;
        }
        let alive = open.range(before..);
        Ok(alive.filter(|(_, server_end)| server_end.is_some()).count() as u64)
    }
}

impl Shared {
    /// Keeps a handle on the end that the server sees of this connection, in case its client vanishes. Returns whether the connection may
    /// go on.
    pub(super) fn keep_server_end(&self, number: u64, server: &TcpStream) -> bool {
        let mut open = lock(&self.open);
        let Ok(socket) = socket_of(server) else {
            return false;
        };
        // The client may have vanished while the server was being connected, and its machine may be back already.
        let has_vanished = number < self.faults.borrow().vanished;
        if has_vanished && deafen(SockRef::from(&socket)).is_err() {
            return false;
        }
        open.insert(number, Some(socket));
        true
    }
}
