//! W3 and W3p: sixteen take turns with one lock, against sixteen that pass a token.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fencepost::Locker;
use fencepost::backend::redis::Redis;

use crate::measure::{Table, rounds};
use crate::raw::Raw;
use crate::{Bench, runtime};

const PLAYERS: usize = 16;
const NAME: &str = "bench:turns";
const TOKEN: &str = "bench:token";
/// Says what a child is to do: `ours` or `token`, the server's address, and for how many milliseconds.
const CHILD: &str = "FENCEPOST_BENCH_TURNS";

/// Sixteen tasks hand the lock to each other inside the process.
pub(crate) fn in_one_process(bench: &Bench, table: &mut Table) {
    let locker = bench.locker();
    let turns = bench.effort.pick(500, 2);
    let address = bench.server.address();
    let [ours, token] = rounds(
        bench.effort.pick(21, 1),
        [&mut || tasks(bench, &locker, turns), &mut || {
            let time = Duration::from_millis(bench.effort.pick(200, 20) as u64);
            threads_pass_token(address, time)
        }],
    );
    let here = format!("{} / {}", ours.rate(), token.rate());
    let what = "W3 16 tasks of one process take turns / a token on the wire";
    table.ratio(ours.speed_against(&token), Some(50.0), what, here);
}

fn tasks(bench: &Bench, locker: &Locker, turns: usize) -> Duration {
    bench.runtime.block_on(async {
        let started = Instant::now();
        let tasks: Vec<_> = (0..PLAYERS)
            .map(|_| {
                let locker = locker.clone();
                tokio::spawn(async move {
                    for _ in 0..turns {
                        drop(locker.acquire(NAME).await.expect("a turn"));
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
        started.elapsed() / (PLAYERS * turns) as u32
    })
}

fn threads_pass_token(address: std::net::SocketAddr, time: Duration) -> Duration {
    let mut wire = Raw::connect(address);
    wire.ask(&["DEL", TOKEN]);
    let (over, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let elapsed = std::thread::scope(|scope| {
        for _ in 0..PLAYERS {
            scope.spawn(|| {
                pass_token(
                    &mut Raw::connect(address),
                    || over.load(Ordering::Relaxed),
                    &count,
                )
            });
        }
        std::thread::sleep(time / 10);
        let (before, started) = (count.load(Ordering::Relaxed), Instant::now());
        wire.ask(&["RPUSH", TOKEN, "1"]);
        std::thread::sleep(time);
        let (turns, elapsed) = (count.load(Ordering::Relaxed) - before, started.elapsed());
        over.store(true, Ordering::Relaxed);
        elapsed / turns.max(1) as u32
    });
    wire.ask(&["DEL", TOKEN]);
    elapsed
}

fn pass_token(wire: &mut Raw, over: impl Fn() -> bool, count: &AtomicU64) {
    while !over() {
        if !wire.ask(&["BLPOP", TOKEN, "0.2"]).is_empty() {
            count.fetch_add(1, Ordering::Relaxed);
            wire.ask(&["RPUSH", TOKEN, "1"]);
        }
    }
}

/// Sixteen processes, a connection each.
pub(crate) fn across_processes(bench: &Bench, table: &mut Table) {
    let mut wire = bench.wire();
    let time = Duration::from_millis(bench.effort.pick(1500, 200) as u64);
    let [ours, token] = rounds(
        bench.effort.pick(9, 1),
        [&mut || processes(bench, "ours", time), &mut || {
            wire.ask(&["DEL", TOKEN]);
            wire.ask(&["RPUSH", TOKEN, "1"]);
            processes(bench, "token", time)
        }],
    );
    let here = format!("{} / {}", ours.rate(), token.rate());
    let what = "W3p 16 processes take turns / a token on the wire";
    table.ratio(ours.speed_against(&token), Some(0.6), what, here);
}

/// The time per turn, over all.
fn processes(bench: &Bench, what: &str, time: Duration) -> Duration {
    let program = std::env::current_exe().expect("this program");
    let task = format!("{what} {} {}", bench.server.url(), time.as_millis());
    let children: Vec<_> = (0..PLAYERS)
        .map(|_| {
            let mut command = Command::new(&program);
            command.env(CHILD, &task).stdout(Stdio::piped());
            command.spawn().expect("a child")
        })
        .collect();
    let turns: u64 = children
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().expect("its words");
            let said = String::from_utf8_lossy(&output.stdout);
            said.trim().parse::<u64>().expect("a count")
        })
        .sum();
    time / turns.max(1) as u32
}

/// Takes turns for a while and says how many it got, if this process was started for that.
pub(crate) fn is_child() -> bool {
    let Ok(task) = std::env::var(CHILD) else {
        return false;
    };
    let mut words = task.split(' ');
    let mut word = || words.next().expect("a word");
    let (what, url) = (word(), word());
    let time = Duration::from_millis(word().parse().expect("a number"));
    // Time for the others to start; what is counted lies between.
    let start = Instant::now() + Duration::from_millis(500);
    let counted = move || start <= Instant::now() && Instant::now() < start + time;
    let over = move || Instant::now() >= start + time + Duration::from_millis(100);
    let count = Arc::new(AtomicU64::new(0));
    match what {
        "ours" => runtime().block_on(take_turns(url, counted, over, &count)),
        _ => {
            let address = url.trim_start_matches("redis://").trim_end_matches('/');
            let address = address.parse().expect("an address");
            let all = AtomicU64::new(0);
            let mut wire = Raw::connect(address);
            while !over() {
                let before = all.load(Ordering::Relaxed);
                pass_token(
                    &mut wire,
                    || all.load(Ordering::Relaxed) > before || over(),
                    &all,
                );
                if counted() {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
    println!("{}", count.load(Ordering::Relaxed));
    true
}

async fn take_turns(
    url: &str,
    counted: impl Fn() -> bool,
    over: impl Fn() -> bool,
    count: &AtomicU64,
) {
    let store = Redis::open(url).await.expect("a connection");
    let locker = Locker::new(Arc::new(store));
    while !over() {
        let guard = locker.acquire(NAME).await.expect("a turn");
        if counted() {
            count.fetch_add(1, Ordering::Relaxed);
        }
        drop(guard);
    }
    locker.shutdown().await;
}
