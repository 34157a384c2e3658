//! W3 and W3p: sixteen clients take turns with one lock, compared with sixteen that pass a token. Changes of holder count.

use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fencepost::Locker;
use fencepost::stores::redis::Redis;

use crate::measure::{Contender, rounds_of};
use crate::player::{Player, monotonic_ns, take_turns};
use crate::raw::Raw;
use crate::report::{Against, Contest, Goal, Row, Shown};
use crate::uncontended::in_a_task;
use crate::{Bench, runtime};

const PLAYERS: usize = 16;
const NAME: &str = "bench:turns";
const TOKEN: &str = "bench:token";
/// The environment variable that tells a child what to play with (`ours` or `token`) and the server's address.
const CHILD: &str = "FENCEPOST_BENCH_TURNS";

const ONE_PROCESS: Contest<'_> = Contest {
    workload: "W3",
    what: "16 tasks of one process take turns",
    against: Against::speed_of("a token passed by RPUSH and BLPOP"),
    goal: Some(Goal::AtLeast(50.0)),
    shown: Shown::Rate,
};
const PROCESSES: Contest<'_> = Contest {
    workload: "W3p",
    what: "16 processes take turns",
    goal: Some(Goal::AtLeast(0.6)),
    ..ONE_PROCESS
};
/// Postgres' advisory lock, the fastest lock with its own line so far.
const AHEAD_OF_POSTGRES: Contest<'_> = Contest {
    against: Against::speed_of("Postgres advisory locks"),
    goal: Some(Goal::AtLeast(1.0)),
    ..PROCESSES
};

/// Sixteen tasks hand the lock to each other inside the process.
pub(crate) fn in_one_process(bench: &Bench) -> Vec<Row> {
    let locker = bench.locker();
    let turns = bench.effort.pick(500, 2);
    let time = Duration::from_millis(bench.effort.pick(250, 70) as u64);
    let mut token = [bench.player("token")];
    let mut wire = bench.wire();
    let mut contenders: Vec<Contender<'_>> = vec![
        Box::new(|| {
            lay_token(&mut wire);
            take_turns(&mut token, PLAYERS, time)
        }),
        Box::new(|| tasks(bench, &locker, turns)),
    ];
    for peer in &bench.peers.list {
        // They need longer than this for a single turn.
        contenders.push(Box::new(move || peer.take_turns(PLAYERS, 2 * time)));
    }
    let samples = rounds_of(bench.effort.pick(15, 1), &mut contenders);
    ONE_PROCESS.rows(&bench.names(), &samples[0], &samples[1..])
}

/// Sixteen processes, each with its own connection.
pub(crate) fn across_processes(bench: &Bench) -> Vec<Row> {
    let time = Duration::from_millis(bench.effort.pick(1500, 200) as u64);
    let mut wire = bench.wire();
    let mut token: Vec<Player> = (0..PLAYERS).map(|_| bench.player("token")).collect();
    let mut ours: Vec<Player> = (0..PLAYERS).map(|_| bench.player("ours")).collect();
    let mut contenders: Vec<Contender<'_>> = vec![
        Box::new(|| {
            lay_token(&mut wire);
            take_turns(&mut token, 1, time)
        }),
        Box::new(|| take_turns(&mut ours, 1, time)),
    ];
    for peer in &bench.peers.list {
        let mut players = peer.players(PLAYERS);
        contenders.push(Box::new(move || take_turns(&mut players, 1, time)));
    }
    let samples = rounds_of(bench.effort.pick(9, 1), &mut contenders);
    let mut rows = PROCESSES.rows(&bench.names(), &samples[0], &samples[1..]);
    bench.add_work(&mut rows, &bench.server_work(&mut contenders));
    let others = bench.peers.list.iter().zip(&samples[2..]);
    let postgres = others.filter(|(peer, _)| !peer.on_redis);
    rows.extend(postgres.map(|(_, postgres)| AHEAD_OF_POSTGRES.ours(&samples[1], postgres)));
    rows
}

/// Returns the time per change of holder.
fn tasks(bench: &Bench, locker: &Locker, turns: usize) -> Duration {
    let last = Arc::new(AtomicUsize::new(PLAYERS));
    let changes = Arc::new(AtomicUsize::new(0));
    let elapsed = bench.runtime.block_on(async {
        let started = Instant::now();
        let tasks: Vec<_> = (0..PLAYERS)
            .map(|own| {
                let (locker, last, changes) = (locker.clone(), last.clone(), changes.clone());
                tokio::spawn(async move {
                    for _ in 0..turns {
                        let guard = locker.acquire(NAME).await.expect("a turn");
                        if last.swap(own, Ordering::Relaxed) != own {
                            changes.fetch_add(1, Ordering::Relaxed);
                        }
                        drop(guard);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
        let elapsed = started.elapsed();
        settle(locker).await;
        elapsed
    });
    elapsed / changes.load(Ordering::Relaxed).max(1) as u32
}

fn lay_token(wire: &mut Raw) {
    wire.ask(&["DEL", TOKEN]);
    wire.ask(&["RPUSH", TOKEN, "1"]);
}

impl Bench {
    /// Starts a process that takes turns with the token or with our lock.
    fn player(&self, with: &str) -> Player {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command.env(CHILD, format!("{with} {}", self.server.url()));
        Player::start(&mut command).expect("a child")
    }
}

/// Answers requests for turns until its input ends, if this process was started for that.
pub(crate) fn is_child() -> bool {
    let Ok(task) = std::env::var(CHILD) else {
        return false;
    };
    let (what, url) = task.split_once(' ').expect("two words");
    let address: SocketAddr = url
        .trim_start_matches("redis://")
        .parse()
        .expect("an address");
    let runtime = runtime();
    let locker = (what == "ours").then(|| {
        let store = runtime.block_on(Redis::open(url)).expect("a connection");
        Locker::new(Arc::new(store))
    });
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a request");
        let words: Vec<&str> = line.split(' ').collect();
        let &["turns", tasks, time] = words.as_slice() else {
            panic!("no such request: {line}");
        };
        let tasks: usize = tasks.parse().expect("a number");
        let end = Instant::now() + Duration::from_millis(time.parse().expect("a number"));
        let turns = match &locker {
            Some(locker) => in_a_task(&runtime, with_lock(locker.clone(), end)),
            None => with_token(address, tasks, end),
        };
        println!("{turns}");
        std::io::stdout().flush().expect("a reader");
    }
    if let Some(locker) = locker {
        runtime.block_on(locker.shutdown());
    }
    true
}

/// One task takes turn after turn, and returns the time of each.
async fn with_lock(locker: Locker, end: Instant) -> String {
    let mut turns = Vec::new();
    while Instant::now() < end {
        let guard = locker.acquire(NAME).await.expect("a turn");
        turns.push(monotonic_ns());
        drop(guard);
    }
    settle(&locker).await;
    in_words(0, &turns)
}

/// Waits for the last release. The release of a dropped guard runs in the background, and nothing happens there while this process waits
/// for its next request; the other players would then wait for the end of a lease.
async fn settle(locker: &Locker) {
    let guard = locker.acquire(NAME).await.expect("a turn");
    assert!(guard.release().await.is_released());
}

/// Each player has its own thread and connection.
fn with_token(address: SocketAddr, threads: usize, end: Instant) -> String {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|own| scope.spawn(move || in_words(own, &pass_token(address, end))))
            .collect();
        let words = threads.into_iter().map(|one| one.join().expect("no panic"));
        words.collect()
    })
}

fn pass_token(address: SocketAddr, end: Instant) -> Vec<u64> {
    let mut wire = Raw::connect(address);
    let mut turns = Vec::new();
    while Instant::now() < end {
        if !wire.ask(&["BLPOP", TOKEN, "0.1"]).is_empty() {
            turns.push(monotonic_ns());
            wire.ask(&["RPUSH", TOKEN, "1"]);
        }
    }
    turns
}

fn in_words(own: usize, turns: &[u64]) -> String {
    turns.iter().map(|at| format!("{at} {own} ")).collect()
}
