//! Tests of what `fencepost locks` says about semaphores and read-write locks.

use std::sync::Arc;
use std::time::Duration;

use fencepost::stores::sqlite::Sqlite;
use fencepost::{Locker, Permit, ReadGuard};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::locks::words;
use crate::stage::{Stage, until};

/// Programs that use the library, in this process.
pub(crate) struct Crowd {
    runtime: Runtime,
    store: Arc<Sqlite>,
}

impl Crowd {
    pub(crate) fn of(stage: &Stage) -> Self {
        let store = Sqlite::open_blocking(stage.path("locks.db")).unwrap();
        Self {
            runtime: Runtime::new().unwrap(),
            store: Arc::new(store),
        }
    }

    /// Returns the locker of a program with this label.
    pub(crate) fn locker(&self, label: &str) -> Locker {
        let settings = Locker::builder(self.store.clone()).label(label);
        let settings = settings.ttl(Duration::from_secs(60));
        self.runtime.block_on(async { settings.build().unwrap() })
    }

    pub(crate) fn permits(&self, label: &str, name: &str, count: u32) -> Permit {
        let semaphore = self.locker(label).semaphore(name, 4).unwrap();
        let permit = self.runtime.block_on(semaphore.try_acquire(count));
        permit.unwrap().expect("free permits")
    }

    pub(crate) fn reader(&self, label: &str, name: &str) -> ReadGuard {
        let lock = self.locker(label).rw_lock(name).unwrap();
        self.runtime.block_on(lock.read()).unwrap()
    }

    /// Waits for permits in the background.
    pub(crate) fn waits(&self, label: &str, name: &str, count: u32) -> JoinHandle<()> {
        let semaphore = self.locker(label).semaphore(name, 4).unwrap();
        self.runtime.spawn(async move {
            let permit = semaphore.acquire(count).await.unwrap();
            assert!(permit.release().await.is_released());
        })
    }
}

fn json(stage: &Stage, arguments: &[&str]) -> serde_json::Value {
    let ran = stage.run(arguments);
    assert_eq!(ran.stdout.lines().count(), 1, "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn a_list_has_a_line_for_each_holder() {
    let stage = Stage::new();
    let crowd = Crowd::of(&stage);
    let _held = [
        crowd.permits("web-1:2210", "gpu", 2),
        crowd.permits("web-2:871", "gpu", 1),
    ];
    let _reads = crowd.reader("web-3:12", "config");
    let waiting = crowd.waits("ci-7:1", "gpu", 3);
    until("it stands in line", || {
        let shown = json(&stage, &["locks", "show", "gpu", "--json"]);
        shown["shares"]["waiting"].as_array().map(Vec::len) == Some(1)
    });
    let listed = stage.run(&["locks", "list"]);
    assert_eq!((listed.code(), listed.stderr.as_str()), (0, ""));
    let expected = "name holder held for TTL left waiting fence kind\n\
         config web-N:N N s N s N N reader\n\
         gpu web-N:N N s N s N N slots N-N of N\n\
         gpu web-N:N N s N s N slot N of N\n\
         N semaphore, N read-write lock";
    assert_eq!(words(&stage, &listed.stdout), expected);
    assert!(
        listed.stdout.contains("slots 0-1 of 4"),
        "{}",
        listed.stdout
    );
    assert!(listed.stdout.contains("slot 2 of 4"), "{}", listed.stdout);
    let some = stage.run(&["locks", "list", "-q", "c*"]);
    assert_eq!(words(&stage, &some.stdout).lines().count(), 1);
    waiting.abort();
}

#[test]
fn one_semaphore_is_shown_with_its_holders_and_its_line() {
    let stage = Stage::new();
    let crowd = Crowd::of(&stage);
    let _held = crowd.permits("web-1:2210", "gpu", 3);
    let waiting = crowd.waits("ci-7:1", "gpu", 2);
    let shown = || stage.run(&["locks", "show", "gpu"]);
    until("it stands in line", || shown().stdout.contains("waiting"));
    let expected = "gpu semaphore, N of N permits out\n\
         holders slots N-N of N web-N:N for N s N s left of N s; fence N\n\
         waiting N ci-N:N N permits N s\n\
         note it cannot be released from here: stop the holder, and its lease ends";
    let said = shown();
    assert_eq!(
        (said.code(), words(&stage, &said.stdout)),
        (0, expected.to_owned())
    );
    waiting.abort();
}

#[test]
fn one_read_write_lock_is_shown_beside_a_lock_of_the_same_name() {
    let stage = Stage::new();
    let crowd = Crowd::of(&stage);
    let reads = [
        crowd.reader("web-1:1", "config"),
        crowd.reader("web-2:2", "config"),
    ];
    let said = stage.run(&["locks", "show", "config"]);
    let expected = "config read-write lock, N readers\n\
         holders reader web-N:N for N s N s left of N s; fence N\n\
         reader web-N:N for N s N s left of N s; fence N\n\
         note it cannot be released from here: stop the holder, and its lease ends";
    assert_eq!(words(&stage, &said.stdout), expected);
    let locker = crowd.locker("web-3:3");
    let lock = crowd.runtime.block_on(locker.acquire("config")).unwrap();
    let said = stage.run(&["locks", "show", "config"]);
    let text = words(&stage, &said.stdout);
    assert!(
        text.starts_with("config held by web-N, process N"),
        "{text}"
    );
    assert!(
        text.contains("\nconfig read-write lock, N readers\n"),
        "{text}"
    );
    let both = json(&stage, &["locks", "show", "config", "--json"]);
    assert_eq!(both["lock"]["kind"], "line");
    assert_eq!(both["shares"]["kind"], "rw_lock");
    drop((reads, lock));
}

#[test]
fn json_names_every_holder_and_its_part() {
    let stage = Stage::new();
    let crowd = Crowd::of(&stage);
    let held = crowd.permits("web-1:2210", "gpu", 2);
    let listed = json(&stage, &["locks", "list", "--json"]);
    let entry = &listed["locks"][0];
    assert_eq!(
        (&entry["kind"], &entry["permits"]),
        (&"semaphore".into(), &4.into())
    );
    let holder = &entry["holders"][0];
    assert_eq!(*holder, entry["holder"]);
    assert_eq!(
        (&holder["part"], &holder["permits"]),
        (&"permits".into(), &2.into())
    );
    assert_eq!(holder["slots"], serde_json::json!([0, 1]));
    assert_eq!(holder["fence"], held.fence().to_string());
    assert_eq!(holder["host"], "web-1");
}

#[test]
fn a_permit_cannot_be_released_by_force() {
    let stage = Stage::new();
    let crowd = Crowd::of(&stage);
    let held = crowd.permits("web-1:2210", "gpu", 2);
    let refused = stage.run(&["locks", "release", "gpu", "--yes"]);
    assert_eq!((refused.code(), refused.stdout.as_str()), (1, ""));
    let said = words(&stage, &refused.stderr);
    let expected = "error: permits of a semaphore cannot be released from here\n\
         where gpu\neffect none\ntry stop the holder: its lease ends within N s";
    assert_eq!(said, expected);
    assert!(!held.is_lost());
}
