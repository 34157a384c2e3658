//! A private PgBouncer, the connection pooler, in front of a private Postgres.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
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
        let folder = folder()?;
        let address: SocketAddr = (Ipv4Addr::LOCALHOST, free_port()?).into();
        let settings = folder.path().join("pooler.ini");
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={} user=fencepost\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port={}\n\
             unix_socket_dir=\nauth_type=any\npool_mode={mode}\ndefault_pool_size={size}\n",
            server.address().port(),
            address.port()
        );
        std::fs::write(&settings, text)?;
        for path in [folder.path(), &settings] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
        }
        let mut command = Command::new(PROGRAM);
        command.arg("-q").arg(&settings);
        // PgBouncer refuses to run as root, like the server.
        if Uid::effective().is_root()
            && let Ok(Some(user)) = User::from_name("postgres")
        {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
        let (said, sender) = feed();
        let child = Child::spawn(command, 0, &sender)?;
        let deadline = Instant::now() + START_TIMEOUT;
        while TcpStream::connect(address).is_err() {
            if Instant::now() > deadline {
                return Err(ServerError::NotRunning {
                    program: PathBuf::from(PROGRAM),
                    what: "it does not listen".to_owned(),
                    last_words: child.last_words(),
                });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Self {
            _child: child,
            _said: said,
            address,
            _folder: folder,
        })
    }

    /// Returns the address of the pooler, with the user and database of the server.
    pub fn url(&self) -> String {
        format!("postgres://fencepost@{}/postgres", self.address)
    }
}
