//! Tests of behaviour that only the database's own locks have, such as deadlock detection and ended sessions.

use std::path::Path;
use std::time::Duration;

use super::super::customer::Onwards;
use super::super::{Buyer, Locking, Order};
use super::LockKind;
use super::session::{SessionBuyer, SessionLock, Target};
use crate::holds::{FIRST_LOCK, SECOND_LOCK};
use crate::protocol::ReleaseResult;
use crate::store::Ground;
use crate::store::postgres::Connection;
use crate::store::tests::{SomePostgres, postgres};

const KINDS: [LockKind; 4] = [
    LockKind::Row,
    LockKind::Table,
    LockKind::Advisory,
    LockKind::AdvisoryOfTransaction,
];
const AT_ONCE: Duration = Duration::ZERO;
const TIMEOUT: Duration = Duration::from_secs(30);

/// A schema that is dropped with this value.
struct Schema {
    ground: Ground,
    _server: SomePostgres,
}

impl Drop for Schema {
    fn drop(&mut self) {
        let _ = self.ground.clear();
    }
}

impl Schema {
    fn prepare() -> Option<Self> {
        let server = postgres()?;
        let ground = server.store().ground(Path::new(""));
        ground.prepare().unwrap();
        Some(Self {
            ground,
            _server: server,
        })
    }

    fn session(&self, kind: LockKind, target: Target) -> SessionLock {
        SessionLock::open(&self.ground.to_string(), kind, target).unwrap()
    }

    /// Ends every session of this schema except our own.
    fn end_sessions(&self) {
        const SQL: &str = "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_locks
            WHERE granted AND pid <> pg_backend_pid() AND locktype IN ('advisory', 'relation')
            AND (relation IN (SELECT oid FROM pg_class WHERE relnamespace = $1::text::regnamespace)
                OR ((classid::bigint << 32) | objid::bigint) = $2)";
        let mut connection = Connection::open(&self.ground.to_string()).unwrap();
        let schema = connection.schema().to_owned();
        let number = crate::store::latch::postgres::advisory_key(&schema, FIRST_LOCK);
        let ended = connection
            .ask_one(SQL, &[&schema, &number])
            .unwrap()
            .unwrap();
        assert!(ended.get::<_, i64>(0) > 0);
    }
}

fn order(delay: Duration) -> Order {
    Order {
        product: FIRST_LOCK.into(),
        quantity: 1,
        wait: AT_ONCE,
        in_line: false,
        delay,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn being_refused_one_lock_costs_no_other() {
    let Some(place) = Schema::prepare() else {
        return;
    };
    for kind in KINDS {
        let mut a = place.session(kind, Target::Thing);
        let mut b = place.session(kind, Target::Thing);
        let first = a.acquire(FIRST_LOCK, AT_ONCE, &mut Onwards).await.unwrap();
        let second = b.acquire(SECOND_LOCK, AT_ONCE, &mut Onwards).await.unwrap();
        for wait in [AT_ONCE, Duration::from_millis(30)] {
            let refused = a.acquire(SECOND_LOCK, wait, &mut Onwards).await.unwrap();
            assert_eq!(refused, None, "{kind:?}");
            let kept_out = b.acquire(FIRST_LOCK, AT_ONCE, &mut Onwards).await.unwrap();
            assert_eq!(kept_out, None, "{kind:?}");
        }
        for (who, held) in [(&mut a, first), (&mut b, second)] {
            let word = who.release(held.unwrap().hold, &mut Onwards).await;
            assert_eq!(word.unwrap(), ReleaseResult::Released, "{kind:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_deadlock_costs_one_of_the_two_all_it_had_and_lets_the_other_on() {
    let Some(place) = Schema::prepare() else {
        return;
    };
    for kind in KINDS {
        let mut sessions =
            [(FIRST_LOCK, SECOND_LOCK), (SECOND_LOCK, FIRST_LOCK)].map(|(mine, theirs)| {
                let session = place.session(kind, Target::Thing);
                (session, mine, theirs)
            });
        for (session, mine, _) in &mut sessions {
            let held = session.acquire(mine, AT_ONCE, &mut Onwards).await.unwrap();
            assert!(held.is_some());
        }
        let runtime = tokio::runtime::Handle::current();
        let crossing = sessions.map(|(mut session, _, theirs)| {
            let runtime = runtime.clone();
            std::thread::spawn(move || {
                let taken = runtime.block_on(session.acquire(theirs, TIMEOUT, &mut Onwards));
                (
                    taken.map(|held| held.is_some()),
                    session.forfeited(),
                    session,
                )
            })
        });
        let ends = crossing.map(|thread| thread.join().unwrap());
        let victims = ends.iter().filter(|(taken, ..)| taken.is_err());
        let victims: Vec<_> = victims.map(|(_, forfeited, _)| forfeited.clone()).collect();
        assert_eq!(victims, [[1]], "{kind:?}");
        let lucky: Vec<_> = ends
            .iter()
            .filter(|(taken, ..)| taken == &Ok(true))
            .collect();
        assert_eq!(lucky.len(), 1, "{kind:?}");
        assert!(lucky[0].1.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn whose_session_was_ended_knows_it_and_can_begin_anew() {
    let Some(place) = Schema::prepare() else {
        return;
    };
    for kind in KINDS {
        let mut a = place.session(kind, Target::Thing);
        // The server may not have noticed yet that the session of the last kind is gone.
        let held = a.acquire(FIRST_LOCK, TIMEOUT, &mut Onwards).await.unwrap();
        let hold = held.unwrap().hold;
        assert!(!a.knows_lost(hold));
        place.end_sessions();
        let deadline = std::time::Instant::now() + TIMEOUT;
        while !a.knows_lost(hold) {
            assert!(std::time::Instant::now() < deadline, "{kind:?}: never told");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let second = a.acquire(SECOND_LOCK, AT_ONCE, &mut Onwards).await;
        assert!(second.is_err(), "{kind:?}: beside a hold that is lost");
        assert_eq!(a.forfeited(), [hold]);
        let again = a.acquire(FIRST_LOCK, TIMEOUT, &mut Onwards).await.unwrap();
        assert!(again.is_some(), "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_sale_whose_session_ends_before_the_commit_is_none_for_certain() {
    let Some(place) = Schema::prepare() else {
        return;
    };
    let mut stock = place.ground.stock().unwrap();
    stock.write(FIRST_LOCK, 5).unwrap();
    for kind in [LockKind::Row, LockKind::Table] {
        let mut buyer = SessionBuyer::new(place.session(kind, Target::Stock));
        let runtime = tokio::runtime::Handle::current();
        let selling = std::thread::spawn(move || {
            let slow = Order {
                wait: TIMEOUT,
                // Longer than a busy machine needs to end the session.
                ..order(Duration::from_secs(6))
            };
            let bought = runtime.block_on(buyer.purchase(&slow));
            let again = runtime.block_on(buyer.purchase(&order(AT_ONCE)));
            (bought, again)
        });
        let deadline = std::time::Instant::now() + TIMEOUT;
        while !place.ground.inspect(FIRST_LOCK).unwrap().taken {
            assert!(
                std::time::Instant::now() < deadline,
                "{kind:?}: never locked"
            );
        }
        place.end_sessions();
        let (bought, again) = selling.join().unwrap();
        let failure = bought.unwrap_err();
        assert!(failure.definite, "{kind:?}: {failure}");
        let before = again.unwrap().before.unwrap();
        assert_eq!(stock.read(FIRST_LOCK).unwrap(), before - 1, "{kind:?}");
    }
}
