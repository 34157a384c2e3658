//! PgBouncer in front of the server.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use fencepost::backend::postgres::Postgres;
use fencepost::{Effect, ErrorKind};
use fencepost_rig::{Child, Feed, TempDir, feed, folder};

use crate::support::{Eyes, LONG, Server, eventually, is, locker, open, run, soon, works};

struct Pooler {
    _child: Child,
    _said: Feed,
    url: String,
    _folder: TempDir,
}

impl Pooler {
    /// `None`: there is none on this machine.
    async fn start(server: &Server, mode: &str, size: u32) -> Option<Self> {
        if Command::new("pgbouncer").arg("--version").output().is_err() {
            let reason = "pgbouncer is not installed; see cargo xtask prepare";
            assert!(std::env::var_os("FENCEPOST_NO_SKIP").is_none(), "{reason}");
            println!("skipped: pooler: {reason}");
            return None;
        }
        let folder = folder().unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let settings = folder.path().join("pooler.ini");
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={} user=fencepost\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port={port}\n\
             unix_socket_dir=\nauth_type=any\npool_mode={mode}\ndefault_pool_size={size}\n",
            server.0.address().port()
        );
        std::fs::write(&settings, text).unwrap();
        for path in [folder.path(), &settings] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut command = Command::new("pgbouncer");
        command.arg("-q").arg(&settings);
        // It refuses to be root, as the server does.
        if nix::unistd::Uid::effective().is_root() {
            let user = nix::unistd::User::from_name("postgres").unwrap().unwrap();
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
        let (said, ears) = feed();
        let child = Child::spawn(command, 0, &ears).unwrap();
        let address = format!("127.0.0.1:{port}");
        eventually("the pooler listens", async || {
            tokio::net::TcpStream::connect(&address).await.is_ok()
        })
        .await;
        Some(Self {
            _child: child,
            _said: said,
            url: format!("postgres://fencepost@{address}/postgres"),
            _folder: folder,
        })
    }
}

/// Statements of one client go to whatever session is free: a lock would be stranded there. Also when only one is, or
/// others keep several busy.
pub(crate) fn transaction_mode_is_refused() {
    run(async {
        let server = Server::start();
        for (mode, size, neighbours) in [
            ("transaction", 1, 0),
            ("transaction", 10, 0),
            ("transaction", 10, 5),
            ("statement", 10, 0),
        ] {
            let Some(pooler) = Pooler::start(&server, mode, size).await else {
                return;
            };
            let mut others = Vec::new();
            for _ in 0..neighbours {
                let other = Eyes::open(&pooler.url).await;
                other.text("select 1").await;
                others.push(other);
            }
            let opened = soon("an error", Postgres::open(&pooler.url)).await;
            let error = opened.expect_err("a refusal");
            println!("pooler: {mode}, {size}: {error}");
            is(&error, ErrorKind::Unusable, Effect::None, "pooler");
        }
    });
}

/// There a client keeps its session: everything works.
pub(crate) fn session_mode_works() {
    run(async {
        let server = Server::start();
        let Some(pooler) = Pooler::start(&server, "session", 20).await else {
            return;
        };
        let store = open(&pooler.url).await;
        works(&*store).await;
        let (one, other) = (locker(&store, LONG), locker(&server.store().await, LONG));
        let held = one.acquire("stock").await.unwrap();
        let waiting = tokio::spawn(async move { other.acquire("stock").await.unwrap() });
        server.eyes().await.wait_for_line(1).await;
        assert!(held.release().await.is_released());
        let guard = soon("the lock", waiting).await.unwrap();
        assert!(guard.release().await.is_released());
    });
}
