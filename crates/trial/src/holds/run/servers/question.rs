//! A request of the lab itself, to see whether a server answers anybody.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::protocol::Failure;

/// How long it may take to connect. The system accepts connections for a program that is stopped.
const CONNECT: Duration = Duration::from_secs(5);
/// The shortest time that a socket can be given to answer.
const AT_ONCE: Duration = Duration::from_millis(1);
/// A client of Postgres asks first whether the server speaks TLS: the length of the message, and its number.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// A request that a server answers as soon as it runs.
pub(super) struct Question(TcpStream);

impl Question {
    pub(super) fn of_redis(server: SocketAddr) -> Result<Self, Failure> {
        Self::ask(server, b"PING\r\n")
    }

    pub(super) fn of_postgres(server: SocketAddr) -> Result<Self, Failure> {
        Self::ask(server, &SSL_REQUEST)
    }

    pub(super) fn of_etcd(health: SocketAddr) -> Result<Self, Failure> {
        Self::ask(health, b"GET /version HTTP/1.0\r\n\r\n")
    }

    pub(super) fn of_zookeeper(server: SocketAddr) -> Result<Self, Failure> {
        Self::ask(server, b"srvr")
    }

    fn ask(server: SocketAddr, words: &[u8]) -> Result<Self, Failure> {
        let mut stream = TcpStream::connect_timeout(&server, CONNECT).map_err(Failure::definite)?;
        stream.write_all(words).map_err(Failure::definite)?;
        Ok(Self(stream))
    }

    /// Returns whether the server answers within this time, or has answered by now.
    pub(super) fn is_answered(&self, within: Duration) -> bool {
        let _ = self.0.set_read_timeout(Some(within.max(AT_ONCE)));
        match self.0.peek(&mut [0; 1]) {
            // A connection that was closed is no silence, either.
            Ok(_) => true,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use fencepost_rig::{Redis, Signal};

    use super::*;

    #[test]
    fn a_stopped_server_answers_when_it_goes_on() {
        let server = Redis::start().unwrap();
        let long = Duration::from_secs(20);
        assert!(
            Question::of_redis(server.address())
                .unwrap()
                .is_answered(long)
        );
        server.signal(Signal::SIGSTOP).unwrap();
        assert!(server.wait_stopped(long));
        let question = Question::of_redis(server.address()).unwrap();
        assert!(!question.is_answered(Duration::from_millis(50)));
        server.signal(Signal::SIGCONT).unwrap();
        assert!(question.is_answered(long));
    }

    #[test]
    fn nobody_waits_who_only_looks() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let question = Question::of_redis(server.local_addr().unwrap()).unwrap();
        let started = Instant::now();
        assert!(!question.is_answered(Duration::ZERO));
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}
