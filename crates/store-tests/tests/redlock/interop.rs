//! Mutual exclusion with node's `redlock` on the same three servers.

use std::path::{Path, PathBuf};
use std::process::Command;

use fencepost_rig::{Child, feed};

use crate::support::{
    LONG, NAME, Plain, Servers, eventually_within, is_soak, locker, now, run_within,
};

/// The number of its processes, and of our stores.
const EACH: usize = 2;

/// Returns the folder that `cargo xtask prepare` fills.
fn client() -> Option<PathBuf> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/clients");
    let folder = tools.join("node");
    if folder.join("installed").exists() {
        return Some(folder);
    }
    let reason = "lock clients for node are not installed; see cargo xtask prepare";
    assert!(std::env::var_os("FENCEPOST_NO_SKIP").is_none(), "{reason}");
    println!("skipped: interop: {reason}");
    None
}

pub(crate) fn counters_are_exact() {
    let turns: u64 = if is_soak() { 1000 } else { 200 };
    let longest = if is_soak() { 20 * LONG } else { 4 * LONG };
    let Some(folder) = client() else { return };
    run_within(longest, async move {
        let servers = Servers::start();
        let urls = servers.0.each_ref().map(fencepost_rig::Redis::url);
        let (feed, sender) = feed();
        let mut children: Vec<Child> = (0..EACH)
            .map(|id| {
                let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/redlock/interop.js");
                let mut command = Command::new("node");
                command.env("NODE_PATH", folder.join("node_modules"));
                command.arg(script).arg(urls.join(","));
                command.args([NAME, &turns.to_string()]);
                Child::spawn(command, id, &sender).unwrap()
            })
            .collect();
        let started = now();
        let mut tasks = Vec::new();
        for _ in 0..EACH {
            let locker = locker(&servers.store().await, LONG);
            tasks.push(tokio::spawn(count(locker, servers.plain(0), turns)));
        }
        for child in &mut children {
            eventually_within(longest, "a foreign client's turns", async || {
                child.status().is_some()
            })
            .await;
            let status = child.status().unwrap();
            assert!(status.success(), "{status}: {:#?}", child.last_words());
        }
        for task in tasks {
            task.await.unwrap();
        }
        drop(feed);
        let all = turns * 2 * EACH as u64;
        println!(
            "{EACH} processes with node redlock and {EACH} stores of ours counted {turns} each in {:?}",
            now().saturating_duration_since(started)
        );
        let mut plain = servers.plain(0);
        assert_eq!(plain.text(&["GET", "count"]), Some(all.to_string()));
        plain.does(&["DEL", "count"]);
        servers.are_clean().await;
    });
}

async fn count(locker: fencepost::Locker, mut plain: Plain, turns: u64) {
    for _ in 0..turns {
        let guard = locker.acquire(NAME).await.unwrap();
        let number: u64 = plain
            .text(&["GET", "count"])
            .map_or(0, |text| text.parse().unwrap());
        plain.does(&["SET", "count", &(number + 1).to_string()]);
        assert!(guard.release().await.is_released());
    }
}
