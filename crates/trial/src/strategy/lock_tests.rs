//! Tests every lock strategy on every ground: what it guarantees, and exactly where the flawed ones fail.

use std::future::Future;
use std::time::{Duration, Instant};

use super::customer::Onwards;
use super::{Granted, Group, Halt, Locking, Setup, Strategy, find};
use crate::protocol::ReleaseResult;
use crate::store::tests::servers;
use crate::store::{Ground, LockState};

const KEY: &str = "product_A";
/// Long enough to do something within it, and short enough to wait for its end.
const TTL: Duration = Duration::from_millis(700);
/// Long enough to be renewed in time even on a busy machine.
const RENEWED: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(3_600);
const TIMEOUT: Duration = Duration::from_secs(30);

fn now<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Handle::current().block_on(future)
}

/// One process that takes locks.
struct Somebody(Box<dyn Locking>);

impl Somebody {
    fn takes(&mut self, wait: Duration) -> Option<Granted> {
        now(self.0.acquire(KEY, wait, &mut Onwards)).unwrap()
    }

    fn gives_back(&mut self, held: &Granted) -> ReleaseResult {
        now(self.0.release(held.hold, &mut Onwards)).unwrap()
    }
}

struct Stage {
    strategy: &'static Strategy,
    ground: Ground,
}

impl Stage {
    fn somebody(&self, ttl: Duration) -> Somebody {
        let setup = Setup {
            ground: self.ground.clone(),
            ttl,
        };
        Somebody(now((self.strategy.lock.unwrap())(setup)).unwrap())
    }

    fn inspect(&self) -> LockState {
        self.ground.inspect(KEY).unwrap()
    }
}

/// Runs `play` with each of these strategies, on every ground.
fn on_every_ground(names: &[&str], play: impl Fn(&Stage)) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let _entered = runtime.enter();
    let servers = servers();
    for name in names {
        let strategy = find(name).unwrap();
        let mut stores = servers.stores();
        stores.retain(|store| strategy.stores.include(store));
        let (_keeper, grounds) = servers.grounds(&stores);
        for ground in grounds {
            play(&Stage { strategy, ground });
        }
    }
}

/// Calls the function after each step.
struct Spy<F>(F);

impl<F: FnMut(u32, u32) + Send> Halt for Spy<F> {
    fn after(&mut self, step: u32, of: u32, _what: &str) {
        (self.0)(step, of);
    }
}

const ALL: [&str; 13] = [
    "naive",
    "blind-delete",
    "get-then-delete",
    "late-expiry",
    "late-watch",
    "safe",
    "watchdog",
    "fenced",
    "row",
    "table",
    "advisory",
    "unique-index",
    "lease",
];

#[test]
fn the_locks_that_can_be_held_are_these() {
    let with_lock = super::ALL.iter().filter(|strategy| strategy.lock.is_some());
    assert!(with_lock.map(|strategy| strategy.name).eq(ALL));
}

#[test]
fn one_holds_it_at_a_time() {
    on_every_ground(&ALL, |stage| {
        let (mut a, mut b) = (stage.somebody(LONG), stage.somebody(LONG));
        let held = a.takes(Duration::ZERO).unwrap();
        assert!(!held.contended);
        assert!(stage.inspect().taken);
        assert_eq!(b.takes(Duration::ZERO), None, "{}", stage.strategy.name);
        assert_eq!(b.takes(Duration::from_millis(20)), None);
        now(a.0.worked(held.hold)).unwrap();
        a.gives_back(&held);
        assert_eq!(stage.inspect(), LockState::FREE, "{}", stage.strategy.name);
        let held = b.takes(TIMEOUT).unwrap();
        assert!(!b.0.knows_lost(held.hold));
    });
}

#[test]
fn who_waits_gets_it_when_it_is_given_back() {
    on_every_ground(&ALL, |stage| {
        let (mut a, mut b) = (stage.somebody(LONG), stage.somebody(LONG));
        let held = a.takes(Duration::ZERO).unwrap();
        now(a.0.worked(held.hold)).unwrap();
        let runtime = tokio::runtime::Handle::current();
        let (refused, was_refused) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(move || {
                let _entered = runtime.enter();
                assert_eq!(b.takes(Duration::ZERO), None);
                refused.send(()).unwrap();
                b.takes(TIMEOUT)
            });
            was_refused.recv().unwrap();
            a.gives_back(&held);
            assert!(waiting.join().unwrap().is_some(), "{}", stage.strategy.name);
        });
    });
}

#[test]
fn a_ttl_in_milliseconds_is_neither_rounded_nor_forgotten() {
    let leased = [
        "naive",
        "blind-delete",
        "get-then-delete",
        "safe",
        "fenced",
        "lease",
    ];
    on_every_ground(&leased, |stage| {
        let (mut a, mut b) = (stage.somebody(TTL), stage.somebody(LONG));
        let asked = Instant::now();
        a.takes(Duration::ZERO).unwrap();
        assert!(stage.inspect().ttl_left.is_some_and(|left| left <= TTL));
        assert!(b.takes(TIMEOUT).unwrap().contended);
        // Redis counts in whole milliseconds.
        let took = asked.elapsed() + Duration::from_millis(1);
        assert!(took >= TTL, "{}: {took:?}", stage.strategy.name);
    });
}

#[test]
fn the_watchdog_keeps_it_beyond_the_ttl() {
    on_every_ground(&["watchdog"], |stage| {
        let (mut a, mut b) = (stage.somebody(RENEWED), stage.somebody(RENEWED));
        let held = a.takes(Duration::ZERO).unwrap();
        assert_eq!(b.takes(2 * RENEWED), None);
        assert!(!a.0.knows_lost(held.hold));
        assert_eq!(a.gives_back(&held), ReleaseResult::Released);
    });
}

#[test]
fn between_its_two_steps_naive_has_a_key_forever() {
    on_every_ground(&["naive"], |stage| {
        let mut a = stage.somebody(TTL);
        let mut seen = Vec::new();
        let mut spy = Spy(|step, of| seen.push((step, of, stage.inspect().never_expires())));
        let held = now(a.0.acquire(KEY, Duration::ZERO, &mut spy)).unwrap();
        assert!(held.is_some());
        assert_eq!(seen, [(1, 2, true), (2, 2, false)]);
    });
    let in_one_step = ["blind-delete", "get-then-delete", "safe", "fenced", "lease"];
    on_every_ground(&in_one_step, |stage| {
        let mut a = stage.somebody(TTL);
        let mut seen = Vec::new();
        let mut spy = Spy(|step, of| seen.push((step, of, stage.inspect().never_expires())));
        now(a.0.acquire(KEY, Duration::ZERO, &mut spy)).unwrap();
        assert_eq!(seen, [(1, 1, false)], "{}", stage.strategy.name);
    });
}

#[test]
fn a_blind_delete_takes_the_lock_away_from_another() {
    on_every_ground(&["naive", "blind-delete"], |stage| {
        let (mut late, mut b) = (stage.somebody(TTL), stage.somebody(LONG));
        let stale = late.takes(Duration::ZERO).unwrap();
        b.takes(TIMEOUT).unwrap();
        late.gives_back(&stale);
        let third = stage.somebody(LONG).takes(Duration::ZERO);
        assert!(third.is_some(), "{}: b holds it too", stage.strategy.name);
    });
}

#[test]
fn late_expiry_deletes_blindly_once_it_has_an_expiry() {
    on_every_ground(&["late-expiry"], |stage| {
        let (mut late, mut b) = (stage.somebody(TTL), stage.somebody(LONG));
        let stale = late.takes(Duration::ZERO).unwrap();
        now(late.0.worked(stale.hold)).unwrap();
        assert!(stage.inspect().ttl_left.is_some_and(|left| left <= TTL));
        b.takes(TIMEOUT).unwrap();
        late.gives_back(&stale);
        assert!(stage.somebody(LONG).takes(Duration::ZERO).is_some());
    });
}

#[test]
fn late_expiry_without_work_leaves_the_key_forever() {
    on_every_ground(&["late-expiry"], |stage| {
        let mut a = stage.somebody(TTL);
        let held = a.takes(Duration::ZERO).unwrap();
        assert_eq!(a.gives_back(&held), ReleaseResult::Unknown);
        drop(a);
        assert!(stage.inspect().never_expires());
        assert_eq!(stage.somebody(TTL).takes(2 * TTL), None);
    });
}

#[test]
fn between_look_and_delete_the_key_can_become_anothers() {
    on_every_ground(&["get-then-delete"], |stage| {
        let (mut late, mut b) = (stage.somebody(TTL), stage.somebody(LONG));
        let stale = late.takes(Duration::ZERO).unwrap();
        let mut others = None;
        let handle = tokio::runtime::Handle::current();
        let mut spy = Spy(|step, of| {
            if (step, of) == (1, 2) {
                // Simulates a process that is stopped here until its lease is over.
                others = std::thread::scope(|scope| {
                    let b = &mut b;
                    let handle = handle.clone();
                    let taking = scope.spawn(move || {
                        let _entered = handle.enter();
                        b.takes(TIMEOUT)
                    });
                    taking.join().unwrap()
                });
            }
        });
        let word = now(late.0.release(stale.hold, &mut spy)).unwrap();
        assert_eq!(word, ReleaseResult::Released, "it believes so");
        assert!(others.is_some(), "b was granted it");
        assert_eq!(stage.inspect(), LockState::FREE, "and has lost it");
    });
}

#[test]
fn who_compares_never_deletes_anothers_lock() {
    let careful = ["get-then-delete", "safe", "fenced", "lease"];
    on_every_ground(&careful, |stage| {
        let (mut late, mut b) = (stage.somebody(TTL), stage.somebody(LONG));
        let stale = late.takes(Duration::ZERO).unwrap();
        let held = b.takes(TIMEOUT).unwrap();
        assert!(!late.0.knows_lost(stale.hold), "nobody looks at the clock");
        assert_eq!(late.gives_back(&stale), ReleaseResult::AlreadyLost);
        assert!(stage.inspect().taken, "{}", stage.strategy.name);
        assert_eq!(stage.somebody(LONG).takes(Duration::ZERO), None);
        assert_eq!(b.gives_back(&held), ReleaseResult::Released);
    });
}

#[test]
fn fences_grow_with_every_grant() {
    on_every_ground(&["fenced"], |stage| {
        let (mut late, mut b) = (stage.somebody(TTL), stage.somebody(LONG));
        let fence = |held: Granted| held.fence.unwrap().parse::<f64>().unwrap();
        let first = fence(late.takes(Duration::ZERO).unwrap());
        assert!(fence(b.takes(TIMEOUT).unwrap()) > first);
        assert!(stage.strategy.claims.fencing && stage.strategy.group == Group::Locks);
    });
}

#[test]
fn a_holder_that_goes_takes_the_locks_of_its_session_along_and_leaves_a_row() {
    on_every_ground(&["row", "table", "advisory"], |stage| {
        let (mut gone, mut b) = (stage.somebody(LONG), stage.somebody(LONG));
        gone.takes(Duration::ZERO).unwrap();
        assert!(stage.inspect().never_expires(), "{}", stage.strategy.name);
        assert_eq!(b.takes(Duration::ZERO), None);
        drop(gone);
        assert!(b.takes(TIMEOUT).is_some(), "{}", stage.strategy.name);
    });
    on_every_ground(&["unique-index"], |stage| {
        let (mut gone, mut b) = (stage.somebody(TTL), stage.somebody(TTL));
        gone.takes(Duration::ZERO).unwrap();
        drop(gone);
        assert_eq!(b.takes(2 * TTL), None);
        assert!(stage.inspect().never_expires());
    });
}
