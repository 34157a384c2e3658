//! Tests of fenced resources: what a stale holder can and cannot do.

#![allow(clippy::unwrap_used)]

use std::sync::Mutex;

use fencepost::random::SeededRandom;
use fencepost::resource::{Credential, FencedCell, FencedError, FencedResource};
use fencepost::{Fence, OwnerId};

fn credential(owner: u64, epoch: u64) -> Credential {
    let owner = OwnerId::random(&SeededRandom::new(owner));
    Credential::new(Fence::new(epoch, 0).unwrap(), owner)
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(outcome: Result<T, FencedError>, why: &str) {
    match outcome {
        Err(FencedError::Refused(refused)) => assert_eq!(refused.to_string(), why),
        other => panic!("not refused: {other:?}"),
    }
}

/// Checks the rules that all resources share. `resource` contains 3.
fn obeys_the_rules(resource: &dyn FencedResource<Value = i64>) {
    let (a, b) = (credential(1, 41), credential(2, 43));
    assert_eq!(resource.read(a).unwrap(), 3);
    resource.write(a, 2).unwrap();
    assert_eq!(
        resource.read(a).unwrap(),
        2,
        "the same holder again and again"
    );

    assert_eq!(resource.read(b).unwrap(), 2);
    let why = "fence 41.0 is lower than 43.0 already seen";
    assert_refused(resource.write(a, 99), why);
    assert_refused(resource.read(a), why);

    let impostor = credential(3, 43);
    let why = "fence 43.0 was already seen from another owner";
    assert_refused(resource.write(impostor, 99), why);
    assert_refused(resource.read(impostor), why);

    resource.write(b, 1).unwrap();
    assert_eq!(resource.read(b).unwrap(), 1);
    let handed_over = Credential::new(Fence::new(43, 1).unwrap(), b.owner);
    resource.write(handed_over, 0).unwrap();
    assert_refused(
        resource.read(b),
        "fence 43.0 is lower than 43.1 already seen",
    );
}

#[test]
fn memory_obeys_the_rules() {
    let cell = FencedCell::new(3);
    assert_eq!(cell.highest(), None);
    obeys_the_rules(&cell);
    assert_eq!(cell.highest(), Some(Fence::new(43, 1).unwrap()));
}

#[test]
fn a_panic_inside_leaves_the_fence_in_force() {
    let cell = FencedCell::new(3);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = cell.update(credential(2, 43), |_| panic!("in the middle of it"));
    }));
    assert!(panicked.is_err());
    assert!(cell.read(credential(1, 41)).is_err());
    assert_eq!(cell.read(credential(2, 43)).unwrap(), 3);
}

/// A common misunderstanding of fencing: only writes are checked.
struct WriteFenced(Mutex<(Option<Fence>, i64)>);

impl FencedResource for WriteFenced {
    type Value = i64;

    fn read(&self, _: Credential) -> Result<i64, FencedError> {
        Ok(self.0.lock().unwrap().1)
    }

    fn write(&self, credential: Credential, value: i64) -> Result<(), FencedError> {
        let mut fenced = self.0.lock().unwrap();
        if let Some(highest) = fenced.0.filter(|highest| *highest > credential.fence) {
            let offered = credential.fence;
            return Err(fencepost::resource::Refused { offered, highest }.into());
        }
        *fenced = (Some(credential.fence), value);
        Ok(())
    }
}

/// A reads and loses the lock, B reads, A writes, B writes. Each adds one. Returns the number of accepted updates and
/// the final value.
fn paused_between_read_and_write(counter: &dyn FencedResource<Value = i64>) -> (i64, i64) {
    let (a, b) = (credential(1, 41), credential(2, 42));
    let read_by_a = counter.read(a).unwrap();
    let read_by_b = counter.read(b).unwrap();
    let updates = [
        counter.write(a, read_by_a + 1),
        counter.write(b, read_by_b + 1),
    ];
    let accepted = updates.iter().filter(|update| update.is_ok()).count();
    (accepted as i64, counter.read(b).unwrap())
}

#[test]
fn fencing_writes_alone_loses_an_update() {
    let counter = WriteFenced(Mutex::new((None, 0)));
    let (accepted, value) = paused_between_read_and_write(&counter);
    assert_eq!((accepted, value), (2, 1), "two accepted, one there");
}

#[test]
fn fencing_reads_too_loses_none() {
    let (accepted, value) = paused_between_read_and_write(&FencedCell::new(0));
    assert_eq!((accepted, value), (1, 1));
}

/// Threads with increasing fences race. Accepted operations are in the order of their fences.
fn accepts_in_order(append: impl Fn(Credential, i64) -> bool + Sync) -> Vec<i64> {
    let next = std::sync::atomic::AtomicI64::new(1);
    let accepted = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let fence = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    std::thread::yield_now();
                    if append(credential(fence as u64, fence as u64), fence) {
                        accepted.lock().unwrap().push(fence);
                    }
                }
            });
        }
    });
    let mut accepted = accepted.into_inner().unwrap();
    accepted.sort_unstable();
    accepted
}

#[test]
fn memory_is_atomic_under_threads() {
    let log = FencedCell::new(Vec::new());
    let append = |credential, fence| log.update(credential, |log| log.push(fence)).is_ok();
    let accepted = accepts_in_order(append);
    let written = log.read(credential(1_000, 1_000)).unwrap();
    assert_eq!(
        written, accepted,
        "in order, and nothing but what was accepted"
    );
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use super::*;
    use fencepost::ErrorKind;
    use fencepost::resource::{SqliteGate, SqliteRegister};
    use rusqlite::{Connection, TransactionBehavior};

    fn file() -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        (folder, path)
    }

    #[test]
    fn a_register_obeys_the_rules_also_for_the_next_process() {
        let (_folder, path) = file();
        obeys_the_rules(&SqliteRegister::open(&path, "stock", &3).unwrap());
        let again = SqliteRegister::open(&path, "stock", &7).unwrap();
        assert_eq!(
            again.read(credential(9, 50)).unwrap(),
            0,
            "the value is kept"
        );
        assert!(again.read(credential(2, 43)).is_err(), "and the fence");
        obeys_the_rules(&SqliteRegister::open(&path, "other", &3).unwrap());
    }

    #[test]
    fn a_register_loses_no_update() {
        let (_folder, path) = file();
        let counter = SqliteRegister::open(&path, "counter", &0).unwrap();
        assert_eq!(paused_between_read_and_write(&counter), (1, 1));
    }

    #[test]
    fn a_register_keeps_text_and_bytes() {
        let (_folder, path) = file();
        let text = SqliteRegister::open(&path, "text", &String::from("'; --")).unwrap();
        assert_eq!(text.read(credential(1, 1)).unwrap(), "'; --");
        let bytes = SqliteRegister::open(&path, "bytes", &vec![0u8, 255]).unwrap();
        bytes
            .update(credential(1, 1), |mut bytes| {
                bytes.push(7);
                bytes
            })
            .unwrap();
        assert_eq!(bytes.read(credential(1, 1)).unwrap(), [0, 255, 7]);
        assert_eq!(text.read(credential(1, 1)).unwrap(), "'; --");
    }

    #[test]
    fn a_register_is_atomic_under_connections() {
        let (_folder, path) = file();
        SqliteRegister::open(&path, "log", &String::new()).unwrap();
        let append = |credential, fence| {
            let register = SqliteRegister::open(&path, "log", &String::new()).unwrap();
            match register.update(credential, |log| format!("{log}{fence} ")) {
                Ok(()) => true,
                Err(FencedError::Refused(_)) => false,
                Err(error) => panic!("{error}"),
            }
        };
        let accepted = accepts_in_order(append);
        let log = SqliteRegister::open(&path, "log", &String::new()).unwrap();
        let written = log.read(credential(1_000, 1_000)).unwrap();
        let written: Vec<i64> = written
            .split_whitespace()
            .map(|n| n.parse().unwrap())
            .collect();
        assert_eq!(
            written, accepted,
            "in order, and nothing but what was accepted"
        );
    }

    #[test]
    fn what_is_rolled_back_was_not_seen() {
        let (_folder, path) = file();
        let mut connection = Connection::open(&path).unwrap();
        SqliteGate::create(&connection).unwrap();
        let mut admit = |credential, keep| {
            let transaction = connection
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .unwrap();
            let admitted = SqliteGate::admit(&transaction, "a", credential);
            if keep {
                transaction.commit().unwrap();
            }
            admitted
        };
        admit(credential(2, 43), false).unwrap();
        admit(credential(1, 41), true).unwrap();
        admit(credential(2, 43), true).unwrap();
        assert_refused(
            admit(credential(1, 41), true),
            "fence 41.0 is lower than 43.0 already seen",
        );
    }

    /// A deferred transaction that has read cannot be admitted once another has written. It fails rather than return a wrong
    /// result.
    #[test]
    fn a_read_before_the_gate_is_never_stale() {
        let (_folder, path) = file();
        let mut late = Connection::open(&path).unwrap();
        late.pragma_update(None, "journal_mode", "WAL").unwrap();
        let stock = SqliteRegister::open(&path, "stock", &3).unwrap();
        let transaction = late.transaction().unwrap();
        let read = "SELECT value FROM fencepost_register";
        let before: i64 = transaction.query_row(read, [], |row| row.get(0)).unwrap();
        assert_eq!(before, 3);
        stock.write(credential(1, 41), 2).unwrap();
        match SqliteGate::admit(&transaction, "stock", credential(2, 42)) {
            Err(FencedError::Failed(error)) => assert_eq!(error.kind(), ErrorKind::Unavailable),
            other => panic!("{other:?}"),
        }
    }
}
