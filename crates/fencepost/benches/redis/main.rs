//! Locks in Redis compared with the bare store in the same run and, on request, with locks of other libraries.
//!
//! | | workload | 1 is |
//! |---|---|---|
//! | W1 | one task acquires and releases | `SET NX PX` and compare-and-delete on a blocking socket |
//! | W1d | one task acquires and drops the guard | the same |
//! | W2 | 64 tasks, a name each | the same, 64 in one write |
//! | W3 | 16 tasks of one process take turns | a token passed by `RPUSH` and `BLPOP`, 16 threads |
//! | W3p | 16 processes take turns | the same, 16 processes |
//! | W4 | 200 wait, each holds for 1 ms | tokio's mutex |
//! | W5 | the holder is killed | what was left of its lease |
//! | W6 | many leases are kept alive | – |
//!
//! Without `--bench` this is a quick test that everything runs. `FENCEPOST_BENCH=W1,W4` selects workloads. `cargo xtask bench --redis`
//! sets `FENCEPOST_BENCH_JSON` (a file for the figures) and `FENCEPOST_BENCH_PEERS` (the program with the peers).

mod crash;
mod many;
#[path = "../measure/mod.rs"]
mod measure;
#[path = "../measure/mutex.rs"]
mod mutex;
mod peers;
#[path = "../measure/player.rs"]
mod player;
mod raw;
#[path = "../measure/report.rs"]
mod report;
mod turns;
mod uncontended;
mod waiters;

use std::sync::Arc;
use std::time::Instant;

use fencepost::Locker;
use fencepost::stores::redis::Redis;
use tokio::runtime::{Builder, Runtime};

use measure::{Contender, Effort};
use peers::Peers;
use raw::Raw;
use report::{Machine, OURS, Report, Row};

type Workload = fn(&Bench) -> Vec<Row>;

const WORKLOADS: &[(&str, Workload)] = &[
    ("W1", uncontended::one_task),
    ("W2", uncontended::many_names),
    ("W3", turns::in_one_process),
    ("W3p", turns::across_processes),
    ("W4", waiters::all),
    ("W5", crash::killed_holder),
    ("W6", many::kept_alive),
];

fn main() {
    if turns::is_child() || crash::is_child() {
        return;
    }
    let effort = Effort::from_arguments();
    let only = std::env::var("FENCEPOST_BENCH").unwrap_or_default();
    let wanted = |name: &str| only.is_empty() || only.split(',').any(|one| one == name);
    let server = fencepost_rig::Redis::start().expect("a private redis-server");
    let peers = Peers::find(&server.url());
    let bench = Bench {
        runtime: runtime(),
        peers,
        server,
        effort,
    };
    let chosen = WORKLOADS.iter().filter(|(name, _)| wanted(name));
    let mut rows = Vec::new();
    for (name, workload) in chosen {
        eprintln!("measuring {name}");
        rows.extend(workload(&bench));
    }
    let mut versions = vec![format!("redis-server {}", bench.server.version())];
    let peers = bench.peers.list.iter();
    versions.extend(peers.map(|peer| format!("{} {}", peer.name, peer.version)));
    let report = Report {
        title: "locks in Redis against the bare store",
        machine: Machine {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            versions,
        },
        rows,
        skipped: bench.peers.skipped.clone(),
    };
    print!("{report}");
    report.write_json();
}

/// What the workloads share.
struct Bench {
    runtime: Runtime,
    // Declared before the server, so that the peers are dropped first.
    peers: Peers,
    server: fencepost_rig::Redis,
    effort: Effort,
}

impl Bench {
    /// Returns the names of the peers, in the order of their turns.
    fn names(&self) -> Vec<&'static str> {
        self.peers.list.iter().map(|peer| peer.name).collect()
    }

    /// Writes the server's work into the rows of a contest; the first value belongs to the limit.
    fn add_work(&self, rows: &mut [Row], work: &[f64]) {
        let on_redis = self.peers.list.iter().map(|peer| peer.on_redis);
        let on_redis = std::iter::once(true).chain(on_redis);
        for ((row, own), on_redis) in rows.iter_mut().zip(&work[1..]).zip(on_redis) {
            row.server_us = on_redis.then_some([*own, work[0]]);
        }
    }

    fn locker(&self) -> Locker {
        Locker::new(self.store())
    }

    fn store(&self) -> Arc<Redis> {
        let store = self.runtime.block_on(Redis::open(&self.server.url()));
        Arc::new(store.expect("a connection"))
    }

    fn wire(&self) -> Raw {
        Raw::connect(self.server.address())
    }

    /// Measures the processor time of the Redis server per operation of each contender, in microseconds, in some extra rounds.
    fn server_work(&self, contenders: &mut [Contender<'_>]) -> Vec<f64> {
        let mut wire = self.wire();
        let mut work = |contender: &mut Contender<'_>| {
            let (mut operations, mut seconds) = (0.0, 0.0);
            for _ in 0..self.effort.pick(3, 1) {
                let (before, started) = (wire.server_cpu(), Instant::now());
                let time = contender();
                operations += started.elapsed().as_secs_f64() / time.as_secs_f64();
                seconds += wire.server_cpu() - before;
            }
            seconds * 1e6 / operations
        };
        contenders.iter_mut().map(&mut work).collect()
    }
}

fn runtime() -> Runtime {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime")
}
