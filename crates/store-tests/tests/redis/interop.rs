//! Mutual exclusion with lock clients in other languages, on the same Redis key.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fencepost::Locker;
use fencepost::stores::redis::Redis;
use fencepost_rig::{Child, feed};

use crate::support::{LONG, NAME, Plain, Server, eventually_within, is_soak, run_within};

/// Returns the folder that `cargo xtask prepare` fills.
fn client(language: &str) -> PathBuf {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/clients");
    tools.join(language)
}

/// Returns a command that counts under the lock of that client; `None` if it is not installed.
fn foreign(language: &str, url: &str, turns: u64) -> Option<Command> {
    let folder = client(language);
    if !folder.join("installed").exists() {
        let reason =
            format!("lock clients for {language} are not installed; see cargo xtask prepare");
        assert!(std::env::var_os("FENCEPOST_NO_SKIP").is_none(), "{reason}");
        println!("skipped: interop: {reason}");
        return None;
    }
    let script = |name: &str| {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/redis")
            .join(name)
    };
    let mut command = match language {
        "python" => {
            let mut command = Command::new("python3");
            command.env("PYTHONPATH", &folder).arg(script("interop.py"));
            command
        }
        _ => {
            let mut command = Command::new("node");
            command
                .env("NODE_PATH", folder.join("node_modules"))
                .arg(script("interop.js"));
            command
        }
    };
    command.args([url, NAME, &turns.to_string()]);
    Some(command)
}

/// redis-py, node redlock and our processes add to one number. No update is lost, and each gets its turns.
pub(crate) fn counters_are_exact() {
    let turns = if is_soak() { 1000 } else { 100 };
    let longest = if is_soak() { 20 * LONG } else { 4 * LONG };
    run_within(longest, async move {
        let server = Server::start();
        let commands = ["python", "node"].map(|language| foreign(language, &server.0.url(), turns));
        let (feed, sender) = feed();
        let mut children: Vec<Child> = commands
            .into_iter()
            .flatten()
            .enumerate()
            .map(|(id, command)| Child::spawn(command, id, &sender).unwrap())
            .collect();
        if children.is_empty() {
            return;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let ours = Arc::new(AtomicU64::new(0));
        let mut tasks = Vec::new();
        for _ in 0..2 {
            let gap = (Duration::from_millis(300), Duration::from_millis(100));
            let store = Redis::builder(&server.0.url())
                .leave_gap(gap.0, gap.1)
                .open();
            let builder = Locker::builder(Arc::new(store.await.unwrap()));
            let locker = builder.without_hand_over().build().unwrap();
            for _ in 0..2 {
                tasks.push(tokio::spawn(count(
                    locker.clone(),
                    server.plain(),
                    stop.clone(),
                    ours.clone(),
                )));
            }
        }
        for child in &mut children {
            eventually_within(longest, "a foreign client's turns", async || {
                child.status().is_some()
            })
            .await;
            let status = child.status().unwrap();
            assert!(status.success(), "{status}: {:#?}", child.last_words());
        }
        stop.store(true, Ordering::SeqCst);
        for task in tasks {
            task.await.unwrap();
        }
        drop(feed);
        let ours = ours.load(Ordering::SeqCst);
        let theirs = turns * children.len() as u64;
        println!(
            "interop: {} foreign clients counted {theirs}, ours {ours}",
            children.len()
        );
        assert!(ours > turns, "ours were to compete");
        let mut plain = server.plain();
        assert_eq!(
            plain.text(&["GET", "count"]),
            Some((theirs + ours).to_string())
        );
        plain.does(&["DEL", "count", &format!("fp:{{{NAME}}}:gap:{NAME}")]);
        server.wait_until_clean().await;
    });
}

async fn count(locker: Locker, mut plain: Plain, stop: Arc<AtomicBool>, ours: Arc<AtomicU64>) {
    while !stop.load(Ordering::SeqCst) {
        let guard = locker.acquire(NAME).await.unwrap();
        let number: u64 = plain
            .text(&["GET", "count"])
            .map_or(0, |text| text.parse().unwrap());
        plain.does(&["SET", "count", &(number + 1).to_string()]);
        ours.fetch_add(1, Ordering::SeqCst);
        assert!(guard.release().await.is_released());
    }
}
