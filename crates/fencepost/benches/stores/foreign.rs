//! Locks of other languages, if they are installed: Curator, kazoo, node redlock.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::contests::Party;
use crate::lock::There;
use crate::player::Player;

/// Debian's packages; the first one names all others that it needs.
const JARS: &str = "/usr/share/java/curator-recipes.jar:/usr/share/java/slf4j-nop.jar";

/// A participant, or the reason why it cannot be started.
type Started = Result<Party, String>;

/// # Errors
/// Returns the reason why it does not take part.
fn party(name: &str, start: impl Fn() -> Command + 'static, is_light: bool) -> Started {
    let play = move || Player::start(&mut start());
    let started = play().and_then(|mut player| player.try_ask("pairs 1").map(|_| player));
    let player = started.map_err(|error| format!("{name}: {error}"))?;
    let process = move || play().expect("it started before");
    Ok(Party {
        name: name.to_owned(),
        play: Box::new(There(player)),
        process: is_light.then(|| Box::new(process) as Box<dyn Fn() -> Player>),
    })
}

fn script(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers");
    folder.join(name)
}

fn tools(language: &str) -> PathBuf {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/clients");
    tools.join(language)
}

/// Curator's `InterProcessMutex`; `classes` is the folder for its compiled program. It does not take part with sixteen processes: sixteen
/// Java machines would measure the computer, and not the lock.
pub(crate) fn curator(hosts: &str, classes: &Path) -> Started {
    let compiled = Command::new("javac")
        .args(["-cp", JARS, "-d"])
        .arg(classes)
        .arg(script("Peer.java"))
        .output();
    let compiled = compiled.map_err(|error| format!("Curator: no javac: {error}"))?;
    if !compiled.status.success() {
        let said = String::from_utf8_lossy(&compiled.stderr).into_owned();
        let first = said.lines().next().unwrap_or_default();
        return Err(format!("Curator: {first}"));
    }
    let (hosts, classes) = (hosts.to_owned(), classes.display().to_string());
    let start = move || {
        let mut command = Command::new("java");
        command.args(["-XX:+UseSerialGC", "-Xss256k", "-cp"]);
        command.args([format!("{JARS}:{classes}"), "Peer".into(), hosts.clone()]);
        command
    };
    party("Curator", start, false)
}

pub(crate) fn kazoo(hosts: &str) -> Started {
    let hosts = hosts.to_owned();
    let start = move || {
        let mut command = Command::new("python3");
        command.env("PYTHONPATH", tools("python"));
        command.arg(script("kazoo_peer.py")).arg(&hosts);
        command
    };
    party("kazoo", start, true)
}

pub(crate) fn node_redlock(servers: Vec<String>) -> Started {
    let start = move || {
        let mut command = Command::new("node");
        command.env("NODE_PATH", tools("node").join("node_modules"));
        command.arg(script("peer.js")).args(&servers);
        command
    };
    party("node redlock", start, true)
}
