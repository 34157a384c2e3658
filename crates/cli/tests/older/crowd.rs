//! Programs of both versions that count in a file, each under the lock.

use std::path::PathBuf;

use crate::stage::{Play, Ran, Stage, is_running, until};

/// Names the program of the earlier commit.
pub(crate) const OLDER: &str = "FENCEPOST_OLDER";

/// Reads, waits, writes: a second holder at the same time would lose a count. The fences are written down in the order of the holds.
const COUNT: &str =
    "echo $FENCEPOST_FENCE >> fences; n=$(cat count); sleep 0.02; echo $((n + 1)) > count";

#[derive(Debug, Clone, Copy, PartialEq)]
enum Version {
    Older,
    Todays,
}

/// Whether the store can tell who waits.
#[derive(PartialEq)]
enum Line {
    Shown,
    Unknown,
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

    /// All of them at once; what became of each.
    fn count(&self, versions: &[Version]) -> Vec<(Version, Ran)> {
        let started: Vec<_> = versions
            .iter()
            .map(|version| (*version, self.exec(*version, COUNT)))
            .collect();
        let ended = started.into_iter();
        ended.map(|(version, play)| (version, play.end())).collect()
    }

    /// The epochs of all holds, in the order of the holds.
    fn epochs(&self) -> Vec<u64> {
        let epoch = |line: &str| line.split('.').next().unwrap().parse().unwrap();
        self.stage.read("fences").lines().map(epoch).collect()
    }

    /// Nobody lost a count, and every fence is larger than the one before.
    fn assert_in_order(&self, counted: usize) {
        let count: usize = self.stage.read("count").trim().parse().unwrap();
        assert_eq!(count, counted, "a count was lost: two held the lock");
        let epochs = self.epochs();
        let rising = epochs.windows(2).all(|pair| pair[0] < pair[1]);
        assert!(rising, "a fence went back or came twice: {epochs:?}");
    }
}

fn counted(ended: &[(Version, Ran)]) -> usize {
    ended.iter().filter(|(_, ran)| ran.code() == 0).count()
}

/// The earlier program holds the lock while today's comes; then both come together; then today's alone.
fn together(stage: Stage, line: Line) {
    let crowd = Crowd::new(stage);
    let holds =
        "echo $FENCEPOST_FENCE >> fences; echo > held; while test ! -e go; do sleep 0.01; done";
    let before = crowd.exec(Version::Older, holds);
    crowd.stage.until_lines("held", 1);
    let newcomer = crowd.exec(Version::Todays, COUNT);
    if line == Line::Shown {
        until("the newcomer waits or was refused", || {
            crowd.stage.waiting("deploy") > 0 || !is_running(newcomer.pid())
        });
    }
    std::fs::write(crowd.stage.path("go"), "").unwrap();
    assert_eq!(before.end().code(), 0);
    let mut ended = vec![(Version::Todays, newcomer.end())];

    let versions = [Version::Older, Version::Todays].repeat(5);
    ended.extend(crowd.count(&versions));
    crowd.assert_in_order(counted(&ended));

    let alone = crowd.count(&[Version::Todays]);
    assert_eq!(alone[0].1.code(), 0, "{}", alone[0].1.stderr);
    crowd.assert_in_order(counted(&ended) + 1);
    for (version, ran) in &ended {
        if ran.code() != 0 {
            println!("{version:?} was refused: {}", ran.stderr.trim());
        }
    }
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
    together(
        Stage::with_store(format!("redlock://{}", hosts.join(","))),
        Line::Unknown,
    );
}

pub(crate) fn on_postgres() {
    let server = fencepost_rig::Postgres::start().unwrap();
    together(Stage::with_store(server.url()), Line::Shown);
}

pub(crate) fn on_a_table() {
    let server = fencepost_rig::Postgres::start().unwrap();
    let address = format!("{}?table=shedlock&create=true", server.url());
    together(Stage::with_store(address), Line::Shown);
}
