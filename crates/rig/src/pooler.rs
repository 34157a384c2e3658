//! A private PgBouncer, the connection pooler, in front of a private Postgres.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::unistd::{Uid, User};

use crate::child::Child;
use crate::feed::{Feed, feed};
use crate::folder::{TempDir, folder};
use crate::postgres::Postgres;
use crate::server::{START_TIMEOUT, ServerError, free_port};

const PROGRAM: &str = "pgbouncer";
/// What it writes when it listens.
const UP: &str = "process up";
/// How often to try another port if another program takes the chosen one first.
const PORT_ATTEMPTS: u32 = 5;

/// A private pooler, stopped on drop.
#[derive(Debug)]
pub struct Pooler {
    _child: Child,
    _said: Feed,
    address: SocketAddr,
    _folder: TempDir,
}

impl Pooler {
    /// Starts a pooler with this many sessions for each user and database, and waits until it listens. `mode` is `session`, `transaction`
    /// or `statement`.
    ///
    /// # Errors
    /// Returns a [`ServerError`] that says why the server could not be started; nothing is left behind then.
    pub fn start(server: &Postgres, mode: &str, size: u32) -> Result<Self, ServerError> {
        if Command::new(PROGRAM).arg("--version").output().is_err() {
            return Err(ServerError::NotInstalled {
                what: PROGRAM,
                install: "apt-get install pgbouncer",
            });
        }
        let mut left = PORT_ATTEMPTS;
        loop {
            left -= 1;
            match Self::start_on(free_port()?, server, mode, size) {
                Err(ServerError::NotRunning { .. }) if left > 0 => {}
                started => return started,
            }
        }
    }

    fn start_on(port: u16, server: &Postgres, mode: &str, size: u32) -> Result<Self, ServerError> {
        let folder = folder()?;
        let settings = folder.path().join("pooler.ini");
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={} user=fencepost\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port={port}\n\
             unix_socket_dir=\nauth_type=any\npool_mode={mode}\ndefault_pool_size={size}\n",
            server.address().port(),
        );
        std::fs::write(&settings, text)?;
        for path in [folder.path(), &settings] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
        }
        let mut command = Command::new(PROGRAM);
        command.arg(&settings);
        // PgBouncer refuses to run as root, like the server.
        if Uid::effective().is_root()
            && let Ok(Some(user)) = User::from_name("postgres")
        {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
        let (said, sender) = feed();
        let mut child = Child::spawn(command, 0, &sender)?;
        wait_until_it_listens(&mut child)?;
        Ok(Self {
            _child: child,
            _said: said,
            address: (Ipv4Addr::LOCALHOST, port).into(),
            _folder: folder,
        })
    }

    /// Returns the address of the pooler, with the user and database of the server.
    pub fn url(&self) -> String {
        format!("postgres://fencepost@{}/postgres", self.address)
    }
}

/// Waits until the pooler says that it is up, which it does when it listens. Another program may listen on its port; then it ends.
fn wait_until_it_listens(child: &mut Child) -> Result<(), ServerError> {
    let deadline = Instant::now() + START_TIMEOUT;
    while !child.last_words().iter().any(|line| line.contains(UP)) {
        let ended = child.status();
        if ended.is_some() || Instant::now() > deadline {
            return Err(ServerError::NotRunning {
                program: PathBuf::from(PROGRAM),
                what: ended.map_or_else(
                    || "it does not listen".to_owned(),
                    |status| format!("ended with {status}"),
                ),
                last_words: child.last_words(),
            });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_another_program_has_is_not_the_poolers() {
        if Command::new(PROGRAM).arg("--version").output().is_err() {
            let why = "pgbouncer is not installed";
            assert!(std::env::var_os("FENCEPOST_NO_SKIP").is_none(), "{why}");
            eprintln!("skipped: {why}");
            return;
        }
        let server = Postgres::start().unwrap();
        let taken = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = Pooler::start_on(port, &server, "session", 1).unwrap_err();
        assert!(matches!(error, ServerError::NotRunning { .. }), "{error}");
        Pooler::start(&server, "session", 1).unwrap();
    }
}
