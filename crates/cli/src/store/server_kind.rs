//! The kinds of servers that hold locks, as `--store` names them.

use crate::values::BadValue;

/// A kind of server.
#[derive(Debug)]
pub(crate) struct ServerKind {
    /// How its addresses begin.
    schemes: &'static [&'static str],
    /// What people call it.
    pub(crate) name: &'static str,
    /// How an address of it looks.
    pub(crate) form: &'static str,
    /// Whether this program was built with it.
    is_built_in: bool,
}

#[rustfmt::skip]
static SERVERS: [ServerKind; 5] = [
    ServerKind { schemes: &["redis://", "rediss://", "unix:"], name: "Redis", is_built_in: true,
             form: "redis://[USER:PASSWORD@]HOST" },
    ServerKind { schemes: &["postgres://", "postgresql://"], name: "Postgres", is_built_in: cfg!(feature = "postgres"),
             form: "postgres://USER[:PASSWORD]@HOST/DATABASE[?table=shedlock]" },
    ServerKind { schemes: &["etcd://", "etcds://"], name: "etcd", is_built_in: cfg!(feature = "etcd"),
             form: "etcd://HOST,HOST,HOST[/PREFIX] · etcds://…[?ca=FILE][&cert=FILE&key=FILE]" },
    ServerKind { schemes: &["zk://"], name: "ZooKeeper", is_built_in: cfg!(feature = "zookeeper"),
             form: "zk://HOST,HOST,HOST[/CHROOT]" },
    ServerKind { schemes: &["redlock://"], name: "Redis", is_built_in: cfg!(feature = "redlock"),
             form: "redlock://[USER:PASSWORD@]HOST,HOST,HOST[/DATABASE][?restart_delay=30s]" },
];

impl ServerKind {
    /// The kind of server that an address names.
    pub(crate) fn of(address: &str) -> Option<&'static Self> {
        let is_of = |server: &&Self| {
            server
                .schemes
                .iter()
                .any(|scheme| address.starts_with(scheme))
        };
        SERVERS.iter().find(is_of)
    }

    /// Returns an error with advice if this program was built without it.
    pub(crate) fn is_built_in(&self) -> Result<(), BadValue> {
        if self.is_built_in {
            return Ok(());
        }
        Err(BadValue {
            what: format!("this program was built without {}", self.schemes[0]),
            advice:
                "build it with --features full, which brings all stores · no --store for sqlite"
                    .into(),
        })
    }

    /// Whether keys of other clients can be told from locks by a pattern alone.
    pub(crate) fn is_redis(&self) -> bool {
        self.name == "Redis"
    }

    /// The addresses that this program knows, for people.
    pub(crate) fn shown() -> String {
        let known = SERVERS.iter().filter(|server| server.is_built_in);
        let forms = known.map(|server| format!("{}HOST", server.schemes[0]));
        forms.collect::<Vec<_>>().join(" · ")
    }
}
