//! Programs of the current and an earlier version that count in one file, each under the lock.

use std::net::SocketAddr;
use std::path::PathBuf;

use fencepost_rig::resp::{Connection, Value};

use crate::stage::{LONG, Play, Ran, Stage, is_running, until};

/// The environment variable with the program of the earlier commit.
pub(crate) const OLDER: &str = "FENCEPOST_OLDER";

/// Reads, waits and writes, so that a second holder at the same time would lose a count. The fences are recorded in the order
/// of the holds.
const COUNT: &str =
    "echo $FENCEPOST_FENCE >> fences; n=$(cat count); sleep 0.02; echo $((n + 1)) > count";

/// Holds the lock until the file `go` exists.
const HOLD: &str =
    "echo $FENCEPOST_FENCE >> fences; echo > held; while test ! -e go; do sleep 0.01; done";

/// The exit code for a store that cannot be used.
const CANNOT_USE: i32 = 69;

/// The error of the current program on Postgres while it sees a session of the earlier one.
const SEES_OLDER: &str = "draws fences from transaction ids";

#[derive(Debug, Clone, Copy, PartialEq)]
enum Version {
    Older,
    Todays,
}

/// How the store may treat a program.
#[derive(Debug, Clone, Copy)]
enum Reception {
    /// It gets the lock.
    Served,
    /// It gets the lock, or is refused with these words.
    ServedOrRefused(&'static str),
    /// It is refused with these words.
    Refused(&'static str),
}

impl Reception {
    /// Returns whether the program was served. Panics if it was treated in another way.
    fn judge(self, version: Version, ran: &Ran) -> bool {
        let is_served = ran.code() == 0;
        let words = match self {
            Self::Served | Self::ServedOrRefused(_) if is_served => return true,
            Self::Refused(words) | Self::ServedOrRefused(words) if !is_served => words,
            Self::Served | Self::ServedOrRefused(_) | Self::Refused(_) => {
                panic!(
                    "{version:?}, instead of {self:?}: {} {}",
                    ran.code(),
                    ran.stderr
                )
            }
        };
        assert_eq!(ran.code(), CANNOT_USE, "{version:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(words),
            "{version:?}, {words}: {}",
            ran.stderr
        );
        false
    }
}

/// How to see that a newcomer has asked for the lock.
enum Line {
    /// The store shows its waiters.
    Shown,
    /// The server at this address shows the last command of each client.
    Clients(SocketAddr),
    /// The newcomer is refused, and exits.
    Refused,
}

struct Crowd {
    stage: Stage,
    older: PathBuf,
}

impl Crowd {
    fn new(stage: Stage) -> Self {
        let older = std::env::var_os(OLDER);
        let older = older.expect("cargo xtask test builds the earlier program");
        std::fs::write(stage.path("count"), "0").unwrap();
        Self {
            stage,
            older: older.into(),
        }
    }

    fn exec(&self, version: Version, script: &str) -> Play {
        let arguments = ["exec", "--name", "deploy", "--ttl", "5s", "--wait", "60s"];
        let arguments = [&arguments[..], &["--", "sh", "-c", script]].concat();
        let command = match version {
            Version::Older => self.stage.program(&self.older, &arguments),
            Version::Todays => self.stage.fencepost(&arguments),
        };
        self.stage.start_command(command)
    }

    /// Runs one program alone. Returns whether it had the lock.
    fn one(&self, version: Version, reception: Reception) -> bool {
        reception.judge(version, &self.exec(version, COUNT).end())
    }

    /// Runs five programs of each version at once. Returns how many of the earlier version and how many of the current one had
    /// the lock.
    fn both(&self, older: Reception, todays: Reception) -> (usize, usize) {
        let versions = [Version::Older, Version::Todays].repeat(5);
        let started = versions.iter().map(|version| self.exec(*version, COUNT));
        let started: Vec<Play> = started.collect();
        let mut served = (0, 0);
        for (version, play) in versions.into_iter().zip(started) {
            let ran = play.end();
            match version {
                Version::Older => served.0 += usize::from(older.judge(version, &ran)),
                Version::Todays => served.1 += usize::from(todays.judge(version, &ran)),
            }
        }
        println!(
            "the earlier program {} of 5, today's {} of 5",
            served.0, served.1
        );
        served
    }

    /// The earlier program holds the lock when the current one arrives. Returns the result of the newcomer.
    fn meet(&self, line: &Line) -> Ran {
        let before = self.exec(Version::Older, HOLD);
        self.stage.until_lines("held", 1);
        let newcomer = self.exec(Version::Todays, COUNT);
        match line {
            Line::Shown => until("the newcomer waits", || self.stage.waiting("deploy") > 0),
            Line::Clients(server) => until("the newcomer asks", || askers(*server) >= 2),
            Line::Refused => until("the newcomer ends", || !is_running(newcomer.pid())),
        }
        std::fs::write(self.stage.path("go"), "").unwrap();
        let before = before.end();
        assert_eq!(before.code(), 0, "{}", before.stderr);
        newcomer.end()
    }

    /// Checks that no count was lost, so there was one holder at a time.
    fn assert_exclusive(&self, counted: usize) {
        let count: usize = self.stage.read("count").trim().parse().unwrap();
        assert_eq!(count, counted, "a count was lost: two held the lock");
    }

    /// Returns the epochs in the order of the holds.
    fn epochs(&self) -> Vec<u64> {
        let epoch = |line: &str| line.split('.').next().unwrap().parse::<u64>().unwrap();
        self.stage.read("fences").lines().map(epoch).collect()
    }

    /// Checks that every fence is larger than the previous one.
    fn assert_rising(&self) {
        let epochs = self.epochs();
        let rising = epochs.windows(2).all(|pair| pair[0] < pair[1]);
        assert!(rising, "a fence went back or came twice: {epochs:?}");
    }
}

/// Returns how many clients of this server have requested or inspected a lock.
fn askers(server: SocketAddr) -> usize {
    let mut connection = Connection::open(server, LONG).unwrap();
    let Value::Text(clients) = connection.ask(&["CLIENT", "LIST"]).unwrap() else {
        panic!("no list of clients");
    };
    let asked = |client: &&str| {
        [" cmd=eval ", " cmd=evalsha ", " cmd=get "]
            .iter()
            .any(|command| client.contains(command))
    };
    clients.lines().filter(asked).count()
}

/// The current program takes over from the earlier one; then both start at once; then the current one runs alone, followed by
/// the earlier one.
fn together(stage: Stage, line: Line, older: Reception) {
    let crowd = Crowd::new(stage);
    let newcomer = crowd.meet(&line);
    assert_eq!(newcomer.code(), 0, "{}", newcomer.stderr);
    let (of_older, of_todays) = crowd.both(older, Reception::Served);
    assert_eq!(of_todays, 5);
    crowd.one(Version::Todays, Reception::Served);
    let last = usize::from(crowd.one(Version::Older, older));
    crowd.assert_exclusive(1 + of_older + of_todays + 1 + last);
    crowd.assert_rising();
}

/// The current program upgrades the file, and the earlier one refuses it from then on.
pub(crate) fn on_sqlite() {
    let refused = Reception::Refused("were made by another version of this program");
    together(Stage::new(), Line::Shown, refused);
}

/// The current program converts the fence, and the earlier one cannot increment it from then on.
pub(crate) fn on_redis() {
    let server = fencepost_rig::Redis::start().unwrap();
    let stage = Stage::with_store(server.url());
    together(stage, Line::Shown, Reception::Refused("WRONGTYPE"));
}

/// The counter itself makes the earlier program refuse. Once the counter is gone, after `keep_fences` or with the server's
/// data, the earlier program creates a new one in its own units, an eighth of the current ones. For this reason, no earlier
/// program may run beside the current one where counters can disappear.
pub(crate) fn on_redis_without_the_counter() {
    let server = fencepost_rig::Redis::start().unwrap();
    let crowd = Crowd::new(Stage::with_store(server.url()));
    crowd.one(Version::Todays, Reception::Served);
    crowd.one(Version::Older, Reception::Refused("WRONGTYPE"));
    let mut connection = Connection::open(server.address(), LONG).unwrap();
    let deleted = connection
        .ask(&["DEL", "fp:{deploy}:fence:deploy"])
        .unwrap();
    assert_eq!(deleted, Value::Number(1));
    crowd.one(Version::Older, Reception::Served);
    let epochs = crowd.epochs();
    let [todays, older] = epochs[..] else {
        panic!("{epochs:?}");
    };
    assert!(older > todays / 9 && older < todays / 7, "{epochs:?}");
}

/// As on Redis. There is no line, so the test asks the servers for their clients.
pub(crate) fn on_redlock() {
    let servers = [(); 3].map(|()| fencepost_rig::Redis::start().unwrap());
    let hosts = servers
        .each_ref()
        .map(|server| server.address().to_string());
    let address = format!("redlock://{}", hosts.join(","));
    let line = Line::Clients(servers[0].address());
    let refused = Reception::Refused("WRONGTYPE");
    together(Stage::with_store(address), line, refused);
}

/// The table has not changed, so nobody is refused.
pub(crate) fn on_a_table() {
    let server = fencepost_rig::Postgres::start().unwrap();
    let address = format!("{}?table=shedlock&create=true", server.url());
    together(Stage::with_store(address), Line::Shown, Reception::Served);
}

/// Fences of the two versions cannot be compared here. The current program refuses to lock while it sees the earlier one. The
/// earlier one cannot be changed to refuse: if it is started beside or after the current one, it gets the lock, alone, with a
/// fence that is too small (see docs/decisions/0009-the-fence-of-postgres.md).
pub(crate) fn on_postgres() {
    let server = fencepost_rig::Postgres::start().unwrap();
    let crowd = Crowd::new(Stage::with_store(server.url()));
    let newcomer = crowd.meet(&Line::Refused);
    Reception::Refused(SEES_OLDER).judge(Version::Todays, &newcomer);
    for _ in 0..5 {
        crowd.one(Version::Todays, Reception::Served);
    }
    crowd.assert_rising();
    let unless_seen = Reception::ServedOrRefused(SEES_OLDER);
    let (of_older, of_todays) = crowd.both(Reception::Served, unless_seen);
    assert_eq!(of_older, 5);
    crowd.one(Version::Todays, Reception::Served);
    crowd.one(Version::Older, Reception::Served);
    crowd.assert_exclusive(5 + of_older + of_todays + 2);
    let epochs = crowd.epochs();
    let [.., todays, older] = epochs[..] else {
        panic!("{epochs:?}");
    };
    assert!(
        older < todays,
        "the limit that decision 9 names is gone: {epochs:?}"
    );
}
