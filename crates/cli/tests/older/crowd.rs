//! Programs of both versions that count in a file, each under the lock.

use std::path::PathBuf;

use crate::stage::{Play, Ran, Stage, is_running, until};

/// Names the program of the earlier commit.
pub(crate) const OLDER: &str = "FENCEPOST_OLDER";

/// Reads, waits, writes: a second holder at the same time would lose a count. The fences are written down in the order of the holds.
const COUNT: &str =
    "echo $FENCEPOST_FENCE >> fences; n=$(cat count); sleep 0.02; echo $((n + 1)) > count";

/// Holds the lock until the file `go` is there.
const HOLD: &str =
    "echo $FENCEPOST_FENCE >> fences; echo > held; while test ! -e go; do sleep 0.01; done";

/// The exit code for a store that cannot be used.
const REFUSED: i32 = 69;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Version {
    Older,
    Todays,
}

/// What can be seen of a newcomer.
enum Line {
    /// The store tells who waits.
    Shown,
    /// The store does not tell.
    Unknown,
    /// The newcomer is refused.
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

    /// All of them at once. How many had the lock; the others were refused.
    fn count(&self, versions: &[Version]) -> usize {
        let started = versions.iter().map(|version| self.exec(*version, COUNT));
        let started: Vec<Play> = started.collect();
        let ended: Vec<Ran> = started.into_iter().map(Play::end).collect();
        for (version, ran) in versions.iter().zip(&ended) {
            if ran.code() != 0 {
                println!("{version:?} was refused: {}", ran.stderr.trim());
                assert_eq!(ran.code(), REFUSED, "{}", ran.stderr);
            }
        }
        ended.iter().filter(|ran| ran.code() == 0).count()
    }

    /// The earlier program holds the lock while today's comes. What became of the newcomer.
    fn meet(&self, line: &Line) -> Ran {
        let before = self.exec(Version::Older, HOLD);
        self.stage.until_lines("held", 1);
        let newcomer = self.exec(Version::Todays, COUNT);
        match line {
            Line::Shown => until("the newcomer waits", || self.stage.waiting("deploy") > 0),
            Line::Unknown => {}
            Line::Refused => until("the newcomer ends", || !is_running(newcomer.pid())),
        }
        std::fs::write(self.stage.path("go"), "").unwrap();
        let before = before.end();
        assert_eq!(before.code(), 0, "{}", before.stderr);
        newcomer.end()
    }

    /// Nobody lost a count: there was one holder at a time.
    fn assert_exclusive(&self, counted: usize) {
        let count: usize = self.stage.read("count").trim().parse().unwrap();
        assert_eq!(count, counted, "a count was lost: two held the lock");
    }

    /// Every fence is larger than the one before.
    fn assert_rising(&self) {
        let epoch = |line: &str| line.split('.').next().unwrap().parse::<u64>().unwrap();
        let fences = self.stage.read("fences");
        let epochs: Vec<u64> = fences.lines().map(epoch).collect();
        let rising = epochs.windows(2).all(|pair| pair[0] < pair[1]);
        assert!(rising, "a fence went back or came twice: {epochs:?}");
    }
}

/// Today's program takes over from the earlier one; then both come at once; then today's alone.
fn together(stage: Stage, line: Line) {
    let crowd = Crowd::new(stage);
    let newcomer = crowd.meet(&line);
    assert_eq!(newcomer.code(), 0, "{}", newcomer.stderr);
    let mut counted = 1;
    counted += crowd.count(&[Version::Older, Version::Todays].repeat(5));
    assert!(counted > 5, "today's program was refused: {counted}");
    counted += crowd.count(&[Version::Todays]);
    crowd.assert_exclusive(counted);
    crowd.assert_rising();
}

pub(crate) fn on_sqlite() {
    together(Stage::new(), Line::Shown);
}

pub(crate) fn on_redis() {
    let server = fencepost_rig::Redis::start().unwrap();
    together(Stage::with_store(server.url()), Line::Shown);
}

pub(crate) fn on_redlock() {
    let servers = [(); 3].map(|()| fencepost_rig::Redis::start().unwrap());
    let hosts = servers
        .each_ref()
        .map(|server| server.address().to_string());
    let address = format!("redlock://{}", hosts.join(","));
    together(Stage::with_store(address), Line::Unknown);
}

pub(crate) fn on_a_table() {
    let server = fencepost_rig::Postgres::start().unwrap();
    let address = format!("{}?table=shedlock&create=true", server.url());
    together(Stage::with_store(address), Line::Shown);
}

/// Fences of the two versions cannot be compared here. Today's program refuses to lock while it sees the earlier one; the earlier one
/// cannot be taught to, so whoever starts it again meets an exclusive lock and a fence that is too small (see
/// docs/decisions/0009-the-fence-of-postgres.md).
pub(crate) fn on_postgres() {
    let server = fencepost_rig::Postgres::start().unwrap();
    let crowd = Crowd::new(Stage::with_store(server.url()));
    let newcomer = crowd.meet(&Line::Refused);
    assert_eq!(newcomer.code(), REFUSED, "{}", newcomer.stderr);
    let told = "draws fences from transaction ids";
    assert!(newcomer.stderr.contains(told), "{}", newcomer.stderr);
    let counted = crowd.count(&[Version::Todays].repeat(5));
    assert_eq!(counted, 5);
    crowd.assert_rising();
    let counted = counted + crowd.count(&[Version::Older, Version::Todays].repeat(5));
    crowd.assert_exclusive(counted);
}
