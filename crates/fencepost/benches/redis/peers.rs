//! Locks of other libraries, in the same rounds, if they are installed. `cargo xtask bench --redis --peers` installs them.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fencepost_rig::Postgres;

use crate::player::Player;

/// The environment variable with the path of the program that contains the Rust peers; without it, there are no peers.
const PROGRAM: &str = "FENCEPOST_BENCH_PEERS";

pub(crate) struct Peers {
    pub(crate) list: Vec<Peer>,
    pub(crate) skipped: Vec<String>,
    // Declared after the players, because they have sessions there.
    _postgres: Option<Postgres>,
}

pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) version: String,
    /// Whether it uses the Redis server that is measured.
    pub(crate) on_redis: bool,
    start: Box<dyn Fn() -> Command>,
    /// The player for workloads with one process.
    player: RefCell<Player>,
}

impl Peers {
    /// Finds the peers that are installed, and the reasons why others are not.
    pub(crate) fn find(redis: &str) -> Self {
        let mut peers = Self {
            list: Vec::new(),
            skipped: Vec::new(),
            _postgres: None,
        };
        let Some(program) = std::env::var_os(PROGRAM).map(PathBuf::from) else {
            return peers;
        };
        let url = redis.to_owned();
        let rust = program.clone();
        peers.add("rslock", "0.10.0".into(), true, move || {
            command(&rust, &["rslock", &url])
        });
        match client("python", "python3") {
            Err(why) => peers.skip("redis-py", &why),
            Ok((folder, version)) => {
                let url = redis.to_owned();
                peers.add("redis-py", version, true, move || {
                    let mut command = command("python3", &[&script("peer.py"), &url]);
                    command.env("PYTHONPATH", &folder);
                    command
                });
            }
        }
        match client("node", "node") {
            Err(why) => peers.skip("node redlock", &why),
            Ok((folder, version)) => {
                let url = redis.to_owned();
                peers.add("node redlock", version, true, move || {
                    let mut command = command("node", &[&script("peer.js"), &url]);
                    command.env("NODE_PATH", folder.join("node_modules"));
                    command
                });
            }
        }
        match Postgres::start() {
            Err(why) => peers.skip("Postgres advisory", &why.to_string()),
            Ok(server) => {
                let address = server.url();
                let version = server.version().to_owned();
                peers.add("Postgres advisory", version, false, move || {
                    command(&program, &["postgres", &address])
                });
                peers._postgres = Some(server);
            }
        }
        peers
    }

    fn add(
        &mut self,
        name: &'static str,
        version: String,
        on_redis: bool,
        start: impl Fn() -> Command + 'static,
    ) {
        // One pair shows whether it works at all.
        let player = Player::start(&mut start())
            .and_then(|mut player| player.try_ask("pairs 1").map(|_| player));
        match player {
            Err(error) => self.skip(name, &error.to_string()),
            Ok(player) => self.list.push(Peer {
                name,
                version,
                on_redis,
                start: Box::new(start),
                player: RefCell::new(player),
            }),
        }
    }

    fn skip(&mut self, name: &str, why: &str) {
        let line = format!("{name}: {why}");
        eprintln!("skipped: {line}");
        self.skipped.push(line);
    }
}

impl Peer {
    pub(crate) fn ask(&self, request: &str) -> String {
        self.player.borrow_mut().ask(request)
    }

    pub(crate) fn time(&self, request: &str) -> Duration {
        self.player.borrow_mut().time(request)
    }

    pub(crate) fn take_turns(&self, tasks: usize, time: Duration) -> Duration {
        let mut player = self.player.borrow_mut();
        crate::player::take_turns(std::slice::from_mut(&mut player), tasks, time)
    }

    /// Starts this many processes of it.
    pub(crate) fn players(&self, count: usize) -> Vec<Player> {
        (0..count)
            .map(|_| Player::start(&mut (self.start)()).expect("it started before"))
            .collect()
    }
}

fn command(program: impl AsRef<Path>, arguments: &[&str]) -> Command {
    let mut command = Command::new(program.as_ref());
    command.args(arguments);
    command
}

fn script(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers");
    folder.join(name).to_string_lossy().into_owned()
}

/// Returns the folder and the version of a client in another language, as `cargo xtask prepare` installs it.
fn client(language: &str, interpreter: &str) -> Result<(PathBuf, String), String> {
    let mut command = Command::new(interpreter);
    command.arg("--version").stdout(Stdio::null());
    if !command.status().is_ok_and(|status| status.success()) {
        return Err(format!(
            "no {interpreter}; cargo xtask prepare --install brings it"
        ));
    }
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/clients");
    let folder = tools.join(language);
    let installed = std::fs::read_to_string(folder.join("installed"))
        .map_err(|_| "not installed; cargo xtask prepare brings it".to_owned())?;
    // The command that installed it names each package with its version.
    let version = |word: &str| {
        let (name, version) = word.split_once("==").or_else(|| word.split_once('@'))?;
        ["redis", "redlock"]
            .contains(&name)
            .then(|| version.to_owned())
    };
    let version = installed.split_whitespace().find_map(version);
    Ok((folder, version.unwrap_or_default()))
}
