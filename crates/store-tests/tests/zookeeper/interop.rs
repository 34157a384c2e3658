//! Mutual exclusion with Curator and kazoo on the same path, and what inspection shows of other programs.
//!
//! Each is tested with our locks, but not both at once, because Curator does not recognise kazoo's nodes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fencepost::{Backend, Locker};
use fencepost_rig::{Child, TempDir, feed, folder};
use zookeeper_client::CreateMode;

use crate::support::{
    BASE, LONG, NAME, SESSION, Server, claim, is_soak, locker, open, run, run_within, soon,
};

/// The packages of Debian. The first one refers to all others that it needs.
const JARS: &str = "/usr/share/java/curator-recipes.jar:/usr/share/java/slf4j-nop.jar";

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/zookeeper")
        .join(name)
}

/// Reports that a client is not installed, which is a failure where everything must run.
pub(crate) fn skip(reason: &str) {
    assert!(std::env::var_os("FENCEPOST_NO_SKIP").is_none(), "{reason}");
    println!("skipped: interop: {reason}");
}

/// Compiles a program with Curator. Returns its command and the folder that must outlive it, or why it cannot be compiled.
pub(crate) fn curator_command(class: &str) -> Result<(Command, TempDir), String> {
    let classes = folder().unwrap();
    let compiled = Command::new("javac")
        .args(["-cp", JARS, "-d"])
        .arg(classes.path())
        .arg(source(&format!("{class}.java")))
        .output();
    match compiled {
        Ok(output) if output.status.success() => {}
        Ok(output) => return Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => return Err(format!("no javac: {error}")),
    }
    let mut command = Command::new("java");
    command.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]);
    command.arg(format!("{JARS}:{}", classes.path().display()));
    command.arg(class);
    Ok((command, classes))
}

/// Returns the command of a program with kazoo, or why it cannot be run.
pub(crate) fn kazoo_command(program: &str) -> Result<Command, String> {
    // The folder that `cargo xtask prepare` fills.
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/clients/python");
    if !clients.join("kazoo").exists() {
        return Err("kazoo is not installed; see cargo xtask prepare".to_owned());
    }
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", clients).arg(source(program));
    Ok(command)
}

pub(crate) fn curator() {
    match curator_command("Interop") {
        Ok((command, _classes)) => counts_are_exact("Curator", command),
        Err(reason) => skip(&reason),
    }
}

pub(crate) fn kazoo() {
    match kazoo_command("interop.py") {
        Ok(command) => counts_are_exact("kazoo", command),
        Err(reason) => skip(&reason),
    }
}

/// A number in a file that only the lock protects.
#[derive(Clone)]
struct Count(Arc<TempDir>);

impl Count {
    fn new() -> Self {
        let count = Self(Arc::new(folder().unwrap()));
        std::fs::write(count.file(), "0").unwrap();
        count
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("count")
    }

    fn read(&self) -> u64 {
        let text = std::fs::read_to_string(self.file()).unwrap();
        text.parse()
            .expect("a whole number: nobody writes meanwhile")
    }

    async fn add(&self) {
        let number = self.read();
        tokio::task::yield_now().await;
        std::fs::write(self.file(), (number + 1).to_string()).unwrap();
    }
}

/// Two of their processes and two of our sessions add to one number. No update is lost, and each gets its turns.
fn counts_are_exact(whose: &str, command: Command) {
    let turns: u64 = if is_soak() { 1000 } else { 200 };
    let longest = if is_soak() { 20 * LONG } else { 4 * LONG };
    run_within(longest, async move {
        let server = Server::start();
        let count = Count::new();
        let (_feed, sender) = feed();
        let mut children: Vec<Child> = (0..2)
            .map(|id| {
                let mut theirs = Command::new(command.get_program());
                theirs.args(command.get_args());
                for (name, value) in command.get_envs() {
                    theirs.env(name, value.unwrap_or_default());
                }
                theirs.arg(server.0.address().to_string());
                theirs.arg(format!("{BASE}/{NAME}"));
                theirs.arg(turns.to_string()).arg(count.file());
                Child::spawn(theirs, id, &sender).unwrap()
            })
            .collect();
        let stop = Arc::new(AtomicBool::new(false));
        let ours = Arc::new(AtomicU64::new(0));
        let mut tasks = Vec::new();
        for _ in 0..2 {
            let session = Duration::from_secs(10);
            let store = open(server.0.address(), session).await;
            let locker = locker(&store, session);
            tasks.push(tokio::spawn(add_until(
                locker,
                count.clone(),
                stop.clone(),
                ours.clone(),
            )));
        }
        let started = Instant::now();
        for child in &mut children {
            while child.status().is_none() {
                assert!(
                    started.elapsed() < longest,
                    "{whose} does not get its turns"
                );
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let status = child.status().unwrap();
            assert!(status.success(), "{status}: {:#?}", child.last_words());
        }
        stop.store(true, Ordering::SeqCst);
        for task in tasks {
            task.await.unwrap();
        }
        let (theirs, ours) = (turns * 2, ours.load(Ordering::SeqCst));
        println!(
            "interop: {whose} counted {theirs} in two processes, ours {ours}, in {:?}",
            started.elapsed()
        );
        assert!(ours >= turns, "ours were to compete: {ours}");
        assert_eq!(count.read(), theirs + ours);
        assert!(server.eyes().await.line().await.is_empty());
    });
}

async fn add_until(locker: Locker, count: Count, stop: Arc<AtomicBool>, ours: Arc<AtomicU64>) {
    while !stop.load(Ordering::SeqCst) {
        let guard = locker.acquire(NAME).await.unwrap();
        count.add().await;
        ours.fetch_add(1, Ordering::SeqCst);
        assert!(guard.release().await.is_released());
    }
}

/// A holder of another program is shown and excludes us. It cannot be released through the library.
pub(crate) fn what_others_hold_is_shown() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        eyes.make(BASE, "", CreateMode::Persistent).await;
        let folder = format!("{BASE}/{NAME}");
        eyes.make(&folder, "", CreateMode::Persistent).await;
        eyes.make(
            &format!("{folder}/_c_6a1b2a94-0c5f-4a87-9f39-2f2f0d6e7c11-lock-"),
            "10.0.0.7",
            CreateMode::EphemeralSequential,
        )
        .await;
        // This node is not in line, whatever it is.
        eyes.make(&format!("{folder}/leases"), "", CreateMode::Persistent)
            .await;
        let store = server.store().await;
        let ours = claim(SESSION);
        assert!(store.try_acquire(&ours).await.unwrap().is_none());
        let record = store.inspect(&ours.name).await.unwrap().unwrap();
        let holder = record.holder.unwrap();
        assert_eq!((holder.owner, &*holder.label), (None, "10.0.0.7"));
        assert!(record.waiting.is_empty());
        assert!(store.list(None).await.unwrap().is_empty(), "none of ours");
        let listed = store.list(Some("sto*")).await.unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].name, NAME);
        let locker = locker(&store, SESSION);
        let waiting = tokio::spawn(async move { locker.acquire(NAME).await.unwrap() });
        eyes.wait_for_line(3).await;
        assert_eq!(
            store.list(None).await.unwrap().len(),
            1,
            "one of ours waits"
        );
        let node = eyes
            .line()
            .await
            .into_iter()
            .find(|node| node.contains("6a1b2a94"));
        let node = node.unwrap();
        eyes.0
            .delete(&format!("{folder}/{node}"), None)
            .await
            .unwrap();
        let guard = soon("the lock", waiting).await.unwrap();
        assert!(guard.release().await.is_released());
    });
}
