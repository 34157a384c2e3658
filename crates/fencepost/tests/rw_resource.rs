//! Fenced resources behind a read-write lock: what a late reader and a late writer can and cannot do, in memory and in SQLite.

#![allow(clippy::unwrap_used)]

use fencepost::Fence;
use fencepost::resource::{FencedError, FencedResource, FencedRwCell};

// The gates in Postgres and Redis have the same visitors.
#[expect(unreachable_pub, reason = "it is public in the other crate")]
#[path = "../../store-tests/src/rw_gate.rs"]
mod rw_gate;

use rw_gate::{Visit, visits};

fn obeys_the_rules(mut admit: impl FnMut(Visit) -> Result<(), FencedError>) {
    for visit in visits() {
        let refused = match admit(visit) {
            Ok(()) => None,
            Err(FencedError::Refused(refused)) => {
                assert_eq!(refused.offered, visit.credential.fence);
                Some(refused.highest)
            }
            Err(error) => panic!("{visit:?}: {error}"),
        };
        assert_eq!(refused, visit.refused_by, "{visit:?}");
    }
}

#[test]
fn memory_obeys_the_rules() {
    let cell = FencedRwCell::new(0);
    assert_eq!(cell.highest(), None);
    obeys_the_rules(|visit| {
        if visit.writes {
            cell.write(visit.credential, 1)
        } else {
            cell.read(visit.credential).map(drop)
        }
    });
    assert_eq!(cell.highest(), Some(Fence::new(10, 0).unwrap()));
}

#[test]
fn a_refused_visit_changes_nothing() {
    let cell = FencedRwCell::new(Vec::new());
    let mut admitted = 0;
    for visit in visits().into_iter().filter(|visit| visit.writes) {
        let written = cell.update(visit.credential, |log| log.push(visit.credential.fence));
        admitted += usize::from(written.is_ok());
    }
    let last = visits()
        .into_iter()
        .max_by_key(|visit| visit.credential.fence);
    let log = cell.view(last.unwrap().credential, Vec::clone).unwrap();
    assert_eq!(log.len(), admitted);
    assert!(log.is_sorted(), "{log:?}");
}

#[test]
fn a_panic_inside_leaves_the_fence_in_force() {
    let cell = FencedRwCell::new(0);
    let visits = visits();
    let [early, late] = [visits[2].credential, visits[3].credential];
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = cell.update(late, |_| panic!("in the middle of it"));
    }));
    assert!(panicked.is_err());
    assert!(cell.view(early, |_| ()).is_err());
    assert!(cell.view(late, |_| ()).is_ok());
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use fencepost::resource::SqliteRwGate;
    use rusqlite::{Connection, TransactionBehavior};

    use super::*;

    fn admit(connection: &mut Connection, visit: Visit, keep: bool) -> Result<(), FencedError> {
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .unwrap();
        let admit = if visit.writes {
            SqliteRwGate::admit_write
        } else {
            SqliteRwGate::admit_read
        };
        admit(&transaction, "config", visit.credential)?;
        if keep {
            transaction.commit().unwrap();
        }
        Ok(())
    }

    #[test]
    fn a_gate_obeys_the_rules() {
        let mut connection = Connection::open_in_memory().unwrap();
        SqliteRwGate::create(&connection).unwrap();
        SqliteRwGate::create(&connection).unwrap();
        obeys_the_rules(|visit| admit(&mut connection, visit, true));
    }

    #[test]
    fn what_is_rolled_back_was_not_seen() {
        let mut connection = Connection::open_in_memory().unwrap();
        SqliteRwGate::create(&connection).unwrap();
        for visit in visits().into_iter().rev() {
            admit(&mut connection, visit, false).unwrap();
        }
        obeys_the_rules(|visit| admit(&mut connection, visit, true));
    }
}
