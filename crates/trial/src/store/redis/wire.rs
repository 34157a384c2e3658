//! A Redis connection that survives SIGSTOP and SIGCONT.
//!
//! If a process is stopped and continued (SIGSTOP, Ctrl-Z) while it reads from a socket with a timeout, the system ends the
//! read with "Interrupted system call". The connection of the client crate reports that as a failure and drops the answer when
//! it arrives. This one continues to read.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use redis::{
    Client, ConnectionAddr, ConnectionLike, ErrorKind, Parser, RedisError, RedisResult, Value, cmd,
};

/// A TCP connection without encryption.
pub(crate) struct Wire {
    stream: TcpStream,
    parser: Parser,
    database: i64,
}

impl Wire {
    /// Connects and authenticates as the address says. Connecting and each answer may take up to `within`.
    pub(crate) fn connect(client: &Client, within: Duration) -> RedisResult<Self> {
        let address = client.get_connection_info();
        let ConnectionAddr::Tcp(host, port) = address.addr() else {
            return Err((ErrorKind::InvalidClientConfig, "not an address of a host").into());
        };
        let settings = address.redis_settings();
        let mut wire = Self {
            stream: reach(host, *port, within)?,
            parser: Parser::new(),
            database: settings.db(),
        };
        wire.limit(within)?;
        if let Some(password) = settings.password() {
            let mut introduction = cmd("AUTH");
            introduction.arg(settings.username()).arg(password);
            introduction.exec(&mut wire)?;
        }
        if wire.database != 0 {
            cmd("SELECT").arg(wire.database).exec(&mut wire)?;
        }
        Ok(wire)
    }

    /// Sets the timeout of each answer from now on.
    pub(crate) fn limit(&self, answer: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(answer))?;
        self.stream.set_write_timeout(Some(answer))
    }

    fn send(&mut self, packed: &[u8]) -> RedisResult<()> {
        // `write_all` continues after an interruption.
        Ok(self.stream.write_all(packed)?)
    }

    fn receive(&mut self) -> RedisResult<Value> {
        self.parser.parse_value(Uninterrupted(&self.stream))
    }
}

fn reach(host: &str, port: u16, within: Duration) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, within) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Continues a read that the system ended only because the process was stopped and continued.
struct Uninterrupted<'a>(&'a TcpStream);

impl Read for Uninterrupted<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}

impl ConnectionLike for Wire {
    fn req_packed_command(&mut self, packed: &[u8]) -> RedisResult<Value> {
        self.send(packed)?;
        self.receive()
    }

    fn req_packed_commands(
        &mut self,
        packed: &[u8],
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        self.send(packed)?;
        let answers: RedisResult<Vec<Value>> =
            (0..offset + count).map(|_| self.receive()).collect();
        let mut answers = answers?;
        let wanted = answers.split_off(offset);
        // The commands that begin and fill a transaction have no result of their own unless they are refused.
        answers
            .into_iter()
            .try_for_each(|said| said.extract_error().map(drop))?;
        Ok(wanted)
    }

    fn get_db(&self) -> i64 {
        self.database
    }

    fn check_connection(&mut self) -> bool {
        let answered: Result<(), RedisError> = cmd("PING").exec(self);
        answered.is_ok()
    }

    fn is_open(&self) -> bool {
        // The caller drops the connection when it fails.
        true
    }
}
