//! Answers the requests of the benchmark, in the same way for each contender.

use std::cell::RefCell;
use std::fmt::Write;
use std::os::unix::process::parent_id;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use tokio::task::spawn_local;

use crate::Peer;

/// The first number of locks that nobody shares.
const OWN_LOCKS: i64 = 1000;
/// The first number of locks whose holders are killed.
const HELD_LOCKS: i64 = 2000;
/// Time for everybody to ask once before the first release.
const TIME_TO_ASK: Duration = Duration::from_millis(100);

pub(crate) async fn to<P: Peer>(mut peer: P, words: &[&str]) -> (P, String) {
    let number = |at: usize| words[at].parse::<usize>().expect("a number");
    let seats = match words[0] {
        "pairs" | "hold" => 1,
        "queue" => number(1) + 1,
        _ => number(1),
    };
    peer.seats(seats).await;
    let peer = Rc::new(peer);
    let answer = match words[0] {
        "pairs" => pairs(&*peer, number(1)).await,
        "many" => many(&peer, number(1), number(2)).await,
        "turns" => {
            let time = Duration::from_millis(number(2) as u64);
            turns(&peer, number(1), time).await
        }
        "queue" => queue(&peer, number(1)).await,
        "hold" => hold(&*peer, HELD_LOCKS + number(1) as i64).await,
        other => panic!("no such request: {other}"),
    };
    let peer = Rc::into_inner(peer).expect("every task has ended");
    (peer, answer)
}

async fn pairs(peer: &impl Peer, count: usize) -> String {
    let started = Instant::now();
    for _ in 0..count {
        peer.under(0, OWN_LOCKS, async {}).await;
    }
    started.elapsed().as_nanos().to_string()
}

async fn many<P: Peer>(peer: &Rc<P>, tasks: usize, pairs: usize) -> String {
    let started = Instant::now();
    let tasks: Vec<_> = (0..tasks)
        .map(|seat| {
            let peer = peer.clone();
            spawn_local(async move {
                for _ in 0..pairs {
                    peer.under(seat, OWN_LOCKS + seat as i64, async {}).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    started.elapsed().as_nanos().to_string()
}

/// Returns the time and the number of each holder, turn after turn.
async fn turns<P: Peer>(peer: &Rc<P>, tasks: usize, time: Duration) -> String {
    let end = Instant::now() + time;
    let turns = Rc::new(RefCell::new(String::new()));
    let tasks: Vec<_> = (0..tasks)
        .map(|seat| {
            let (peer, turns) = (peer.clone(), turns.clone());
            spawn_local(async move {
                while Instant::now() < end {
                    peer.under(seat, 1, async {
                        let _ = write!(turns.borrow_mut(), "{} {seat} ", monotonic_ns());
                    })
                    .await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    turns.take()
}

/// Returns the time from the first release to the last, and the order of service.
async fn queue<P: Peer>(peer: &Rc<P>, waiters: usize) -> String {
    let served = Rc::new(RefCell::new(String::new()));
    let mut tasks = Vec::new();
    let mut started = Instant::now();
    peer.under(waiters, 2, async {
        for seat in 0..waiters {
            let (peer, served) = (peer.clone(), served.clone());
            tasks.push(spawn_local(async move {
                peer.under(seat, 2, async {
                    let _ = write!(served.borrow_mut(), " {seat}");
                    tokio::time::sleep(Duration::from_millis(1)).await;
                })
                .await;
            }));
            if let Some(time) = P::APART {
                tokio::time::sleep(time).await;
            }
        }
        tokio::time::sleep(TIME_TO_ASK).await;
        started = Instant::now();
    })
    .await;
    for task in tasks {
        task.await.expect("no panic");
    }
    format!("{}{}", started.elapsed().as_nanos(), served.take())
}

/// Reports when it has the lock, and keeps it until this process is killed or its input ends.
async fn hold(peer: &impl Peer, lock: i64) -> String {
    let parent = parent_id();
    peer.under(0, lock, async {
        println!("held");
        while parent_id() == parent {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    String::new()
}

/// Returns the time of the clock that all processes of this machine share.
fn monotonic_ns() -> u128 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a clock");
    Duration::from(now).as_nanos()
}
