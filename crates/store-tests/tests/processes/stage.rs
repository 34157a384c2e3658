//! The test's side of the process tests: starts children, talks to them, and inspects the shared store.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use fencepost::Backend;
use fencepost::backend::Record;
use fencepost::stores::sqlite::Sqlite;
use fencepost_rig::{Child, Feed, Output, Silence, TempDir, feed, folder};
pub(crate) use fencepost_store_tests::LONG;
use fencepost_store_tests::actor::{kill, stop, wake};
use tokio::runtime::Runtime;

use crate::actor;
use crate::script::{Granted, Instruction, Looked, NAME, ROLE_VARIABLE, Report, Role, boot_ns, ns};

/// A file of locks, and a store to inspect it.
pub(crate) struct Stage {
    // Closed before the folder is removed.
    store: Sqlite,
    runtime: Runtime,
    folder: TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let folder = folder().unwrap();
        Self {
            store: Sqlite::open_blocking(folder.path().join("locks.db")).unwrap(),
            runtime: tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap(),
            folder,
        }
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    pub(crate) fn locks(&self) -> PathBuf {
        self.path("locks.db")
    }

    /// Returns the part of an actor whose lease is renewed while it lives.
    pub(crate) fn part(&self, label: &str, ttl: Duration) -> actor::ActorPart {
        actor::ActorPart {
            label: label.to_owned(),
            locks: self.locks(),
            register: self.path("register.db"),
            ttl,
            keep_alive: true,
        }
    }

    pub(crate) fn actor(&self, label: &str, ttl: Duration) -> Performer {
        Performer::start(Role::Actor(self.part(label, ttl)), &[])
    }

    pub(crate) fn record(&self) -> Record {
        let name = NAME.try_into().unwrap();
        let record = self.runtime.block_on(self.store.inspect(&name)).unwrap();
        record.unwrap_or_else(|| Record::new(None, Vec::new()))
    }

    /// Returns the earliest time of the boot clock at which the lease of the holder with this label ends, according to the
    /// store. `None` if it no longer holds the lock.
    pub(crate) fn lease_end_ns(&self, label: &str) -> Option<u64> {
        let looked_ns = boot_ns();
        let holder = self
            .record()
            .holder
            .filter(|holder| *holder.label == *label)?;
        Some(looked_ns + ns(holder.ttl_left.expect("a lease that ends")))
    }

    /// Waits until exactly these labels are in line, in this order.
    pub(crate) fn wait_for_line(&self, labels: &[&str]) {
        wait_for("the line", || {
            let waiting = self.record().waiting;
            waiting
                .iter()
                .map(|waiter| &*waiter.label)
                .eq(labels.iter().copied())
        });
    }
}

/// Waits until the condition holds.
pub(crate) fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < LONG, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A child that plays a role.
pub(crate) struct Performer {
    child: Child,
    feed: Feed,
    // Dropped after the child, so that the files are removed once it is gone.
    litter: Litter,
}

/// Files that a child may leave behind.
#[derive(Default)]
struct Litter(Vec<PathBuf>);

impl Drop for Litter {
    fn drop(&mut self) {
        for file in &self.0 {
            // Most children leave nothing.
            let _ = std::fs::remove_file(file);
        }
    }
}

impl Performer {
    /// Starts the child and waits until it is ready.
    pub(crate) fn start(role: Role, environment: &[(&str, String)]) -> Self {
        let mut performer = Self::start_silent(role, environment);
        assert!(matches!(performer.hear(LONG), Report::Ready));
        performer
    }

    /// Starts a child that does not report when it is ready.
    pub(crate) fn start_silent(role: Role, environment: &[(&str, String)]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(ROLE_VARIABLE, serde_json::to_string(&role).unwrap());
        // Only the last lines are kept. They should say what happened, rather than where.
        command.env("RUST_BACKTRACE", "0");
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let (feed, sender) = feed();
        let child = Child::spawn(command, 0, &sender).unwrap();
        Self {
            child,
            feed,
            litter: Litter::default(),
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.pid()
    }

    /// Removes these files when the child is gone.
    pub(crate) fn cleans_up(&mut self, files: Vec<PathBuf>) {
        self.litter = Litter(files);
    }

    pub(crate) fn instruct(&mut self, instruction: Instruction) {
        self.child.send(&instruction).unwrap();
    }

    /// Returns its next report.
    pub(crate) fn hear(&mut self, within: Duration) -> Report {
        match self.feed.next(within).map(|heard| heard.output) {
            Ok(Output::Line(line)) => serde_json::from_str(&line).expect(&line),
            Ok(Output::TooLong(_) | Output::Closed) | Err(Silence::Ended) => {
                let status = self.child.wait(LONG);
                panic!("a child ended: {status:?}\n{}", self.last_words())
            }
            Err(Silence::TimedOut) => {
                panic!("a child was silent for {within:?}\n{}", self.last_words())
            }
        }
    }

    fn last_words(&self) -> String {
        self.child.last_words().join("\n")
    }

    /// Returns whether all its reports have been read.
    pub(crate) fn is_silent(&self) -> bool {
        self.feed.next(Duration::ZERO).is_err()
    }

    pub(crate) fn acquire(&mut self) -> Granted {
        self.instruct(Instruction::Acquire);
        self.granted(LONG)
    }

    pub(crate) fn granted(&mut self, within: Duration) -> Granted {
        match self.hear(within) {
            Report::Granted(granted) => granted,
            other => panic!("not granted: {other:?}"),
        }
    }

    pub(crate) fn look(&mut self) -> Looked {
        self.instruct(Instruction::Look);
        match self.hear(LONG) {
            Report::Looked(looked) => looked,
            other => panic!("did not look: {other:?}"),
        }
    }

    pub(crate) fn release(&mut self) -> String {
        self.instruct(Instruction::Release);
        match self.hear(LONG) {
            Report::Released(outcome) => outcome,
            other => panic!("not released: {other:?}"),
        }
    }

    /// Kills the child and waits until it is gone.
    pub(crate) fn kill(mut self) {
        kill(&mut self.child);
    }

    /// Stops the child and waits until it is stopped.
    pub(crate) fn stop(&self) {
        stop(&self.child);
    }

    pub(crate) fn go_on(&self) {
        wake(&self.child);
    }

    /// Lets the child exit by itself, and checks that none of its threads panicked.
    pub(crate) fn end(mut self) {
        self.instruct(Instruction::End);
        self.assert_exited_cleanly(LONG);
    }

    /// Waits for the child to exit, and checks that none of its threads panicked.
    pub(crate) fn assert_exited_cleanly(mut self, within: Duration) {
        let status = self.child.wait(within).expect("a child that ends in time");
        let words = self.child.last_words();
        assert!(status.success() && words.is_empty(), "{status}: {words:#?}");
    }
}
