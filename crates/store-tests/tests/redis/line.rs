//! The line on Redis with many waiters in many processes, served in the order of arrival.

use std::collections::HashMap;
use std::time::Duration;

use fencepost_rig::{Child, feed};
use fencepost_store_tests::actor::{Report, Served, hear, kill};
use fencepost_store_tests::grace;

use crate::actor::{At, Part, Task, free_if_long_held};
use crate::support::{LONG, NAME, Server, WAITER_LEASE, is_soak, locker, now, open, run, soon};

const PROCESSES: usize = 16;
const WAITERS: usize = 200;
const KILLED: usize = 10;
const HOLD: Duration = Duration::from_millis(5);

/// What happens to the processes midway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Live,
    KilledAtOnce,
    KilledOneByOne,
}

pub(crate) fn in_order() {
    repeat(Fate::Live);
}

pub(crate) fn ten_killed_at_once() {
    repeat(Fate::KilledAtOnce);
}

pub(crate) fn ten_killed_one_by_one() {
    repeat(Fate::KilledOneByOne);
}

fn repeat(fate: Fate) {
    let mut worst = (1.0_f64, Duration::ZERO);
    let runs = if is_soak() { 20 } else { 1 };
    for _ in 0..runs {
        run(async {
            let (order, gap) = two_hundred(fate).await;
            worst = (worst.0.min(order), worst.1.max(gap));
        });
    }
    println!(
        "line, {fate:?}: {runs} runs of {WAITERS} waiters, order at least {:.4}, gap at most {:?}",
        worst.0, worst.1
    );
}

/// Short holds under contention cost two commands each: one request and one release.
pub(crate) fn two_commands_a_turn() {
    const TURNS: u64 = 400;
    run(async {
        let server = Server::start();
        let proxy = server.proxy();
        let mut tasks = Vec::new();
        for _ in 0..2 {
            let locker = locker(&open(proxy.address()).await, LONG);
            // The scripts are loaded, and the connections are open.
            assert!(
                locker
                    .acquire(NAME)
                    .await
                    .unwrap()
                    .release()
                    .await
                    .is_released()
            );
            for _ in 0..4 {
                tasks.push(locker.clone());
            }
        }
        let before = proxy.counts().to_server.messages;
        let turns = tasks.into_iter().map(|locker| {
            tokio::spawn(async move {
                for _ in 0..TURNS / 8 {
                    let guard = locker.acquire(NAME).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    assert!(guard.release().await.is_released());
                }
            })
        });
        for turn in futures_util::future::join_all(turns).await {
            turn.unwrap();
        }
        let commands = proxy.counts().to_server.messages - before;
        let each = commands as f64 / TURNS as f64;
        println!("line: {each:.3} commands a turn");
        // Heartbeats are added if a turn takes long, as on a busy machine. In a soak the test runs alone.
        let most = if is_soak() { 2.3 } else { 3.5 };
        assert!(each < most, "{commands} commands for {TURNS} turns");
        server.wait_until_clean().await;
    });
}

/// Returns how well the order was kept (1 means exactly), and the widest gap between two grants.
async fn two_hundred(fate: Fate) -> (f64, Duration) {
    let server = Server::start();
    let holder = locker(&server.store().await, LONG);
    let held = holder.acquire(NAME).await.unwrap();
    let (feed, sender) = feed();
    let mut children: Vec<Child> = (0..PROCESSES)
        .map(|id| {
            let waiters = WAITERS / PROCESSES + usize::from(id < WAITERS % PROCESSES);
            let part = Part {
                store: At(server.0.url()),
                ttl: LONG,
                task: Task::WaitOnce {
                    waiters,
                    hold: HOLD,
                },
            };
            part.start(id, &sender)
        })
        .collect();
    server.wait_for_line(NAME, WAITERS as i64).await;
    let line = server
        .plain()
        .texts(&["ZRANGE", &format!("fp:{{{NAME}}}:line:{NAME}"), "0", "-1"]);
    let place = |(place, member): (usize, &String)| (member[..32].to_owned(), place);
    let places: HashMap<String, usize> = line.iter().enumerate().map(place).collect();

    let mut grants_ns = vec![now().as_nanos()];
    assert!(held.release().await.is_released());
    let mut served: Vec<Served> = Vec::new();
    let (mut open, mut killed) = (PROCESSES, 0);
    while open > 0 {
        match hear(&feed, LONG).expect("a report") {
            (_, Some(Report::Served(one))) => {
                assert_eq!(one.outcome, "Released");
                served.push(one);
            }
            (_, Some(Report::Ready | Report::Done)) => {}
            (_, None) => open -= 1,
            (child, Some(other)) => panic!("child {child}: {other:?}"),
        }
        let due = match fate {
            Fate::Live => 0,
            Fate::KilledAtOnce if served.len() >= WAITERS / 4 => KILLED,
            Fate::KilledOneByOne if served.len() >= WAITERS / 4 => served.len() - WAITERS / 4 + 1,
            _ => 0,
        };
        while killed < due.min(KILLED) {
            kill(&mut children[killed]);
            killed += 1;
            free_if_long_held(&server, &children[..killed]);
        }
    }
    drop(children);
    server.wait_until_clean().await;

    served.sort_by_key(|served| served.fence);
    let order: Vec<usize> = served.iter().map(|served| places[&served.owner]).collect();
    grants_ns.extend(served.iter().map(|served| served.granted_ns));
    let gap = grants_ns
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]))
        .max();
    let gap = Duration::from_nanos(gap.unwrap());
    let order = correlation(&order);
    let living =
        (KILLED..PROCESSES).map(|id| WAITERS / PROCESSES + usize::from(id < WAITERS % PROCESSES));
    match fate {
        Fate::Live => assert_eq!(served.len(), WAITERS),
        _ => assert!(served.len() >= WAITERS / 4 && served.len() >= living.sum::<usize>()),
    }
    assert!(order >= 0.99, "served in another order: {order}");
    assert!(
        gap < 2 * WAITER_LEASE + grace(Duration::ZERO),
        "a gap of {gap:?}"
    );
    (order, gap)
}

/// Returns Spearman's ρ between the order of these places and the order in which they were served.
fn correlation(places: &[usize]) -> f64 {
    let mut sorted = places.to_vec();
    sorted.sort_unstable();
    let rank = |place: &usize| sorted.binary_search(place).unwrap() as f64;
    let squares = places
        .iter()
        .enumerate()
        .map(|(at, place)| (rank(place) - at as f64).powi(2));
    let n = places.len() as f64;
    1.0 - 6.0 * squares.sum::<f64>() / (n * (n * n - 1.0))
}

/// Puts a waiter in line that arrived this many milliseconds ago (negative: after all others) and sends no heartbeats.
const ENQUEUE_DEAD: &str = "local t = redis.call('TIME') \
    return redis.call('ZADD', KEYS[1], string.format('%.0f', t[1] * 1000000 + t[2] - ARGV[2] * 1000), ARGV[1])";

/// Killed waiters do not stay in line while the lock is held. Living waiters remove them, before and behind them.
pub(crate) fn the_dead_do_not_stay_in_line() {
    run(async {
        let server = Server::start();
        let mut plain = server.plain();
        let key = format!("fp:{{{NAME}}}:line:{NAME}");
        let locker = locker(&server.store().await, LONG);
        let held = locker.acquire(NAME).await.unwrap();
        let mut dies = |at: usize, ago: &str| {
            let member = format!("{at:032x} 60000 600 450 1 fp:gone dead");
            plain.does(&["EVAL", ENQUEUE_DEAD, "1", &key, &member, ago]);
        };
        (0..20).for_each(|at| dies(at, "60000"));
        let waiting = tokio::spawn({
            let locker = locker.clone();
            async move { locker.acquire(NAME).await.unwrap() }
        });
        server.wait_for_heartbeats(NAME, 1).await;
        (20..40).for_each(|at| dies(at, "0"));
        server.wait_for_line(NAME, 1).await;
        assert!(held.release().await.is_released());
        let next = soon("the one who lives", waiting).await.unwrap();
        assert!(next.release().await.is_released());
        server.wait_until_clean().await;
    });
}
