//! Locks in Redis against the bare store, in the same run.
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
//! | W6 | so many leases are kept alive | – |
//!
//! Without `--bench` it is a quick test that everything runs.

mod crash;
mod many;
#[path = "../measure/mod.rs"]
mod measure;
mod raw;
mod turns;
mod uncontended;
mod waiters;

use std::sync::Arc;

use fencepost::Locker;
use fencepost::backend::redis::Redis;
use tokio::runtime::{Builder, Runtime};

use measure::{Effort, Samples, Table, rounds};
use raw::Raw;

fn main() {
    if turns::is_child() || crash::is_child() {
        return;
    }
    let effort = Effort::from_arguments();
    let only = std::env::var("FENCEPOST_BENCH").unwrap_or_default();
    let wanted = |name: &str| only.is_empty() || only.split(',').any(|one| one == name);
    let server = fencepost_rig::Redis::start().expect("a private redis-server");
    let bench = Bench {
        runtime: runtime(),
        server,
        effort,
    };
    let version = bench.server.version();
    let mut table = Table::new("locks in Redis against the bare store");
    if wanted("W1") {
        bench.uncontended(&mut table);
    }
    if wanted("W2") {
        bench.many_names(&mut table);
    }
    if wanted("W3") {
        turns::in_one_process(&bench, &mut table);
    }
    if wanted("W3p") {
        turns::across_processes(&bench, &mut table);
    }
    if wanted("W4") {
        waiters::all(&bench, &mut table);
    }
    if wanted("W5") {
        crash::killed_holder(&bench, &mut table);
    }
    if wanted("W6") {
        many::kept_alive(&bench, &mut table);
    }
    print!("{table}");
    println!("  redis-server {version}, {} cores", cores());
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What the workloads share.
struct Bench {
    runtime: Runtime,
    server: fencepost_rig::Redis,
    effort: Effort,
}

impl Bench {
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

    fn uncontended(&self, table: &mut Table) {
        let (locker, mut wire) = (self.locker(), self.wire());
        let pairs = self.effort.pick(200, 5);
        let [ours, dropped, raw] = rounds(
            self.effort.pick(101, 1),
            [
                &mut || uncontended::ours(&self.runtime, &locker, pairs),
                &mut || uncontended::dropped(&self.runtime, &locker, pairs),
                &mut || uncontended::raw(&mut wire, pairs),
            ],
        );
        let here = |one: &Samples| format!("{} / {} per pair", one.time(), raw.time());
        let what = "W1 one task acquires and releases / two round trips";
        table.ratio(ours.speed_against(&raw), Some(0.85), what, here(&ours));
        let what = "W1d one task acquires and drops / two round trips";
        table.ratio(dropped.speed_against(&raw), Some(1.5), what, here(&dropped));
    }

    fn many_names(&self, table: &mut Table) {
        let (locker, mut wire) = (self.locker(), self.wire());
        let pairs = self.effort.pick(10, 1);
        let [ours, raw] = rounds(
            self.effort.pick(101, 1),
            [
                &mut || uncontended::many_ours(&self.runtime, &locker, 64, pairs),
                &mut || uncontended::many_raw(&mut wire, 64, pairs),
            ],
        );
        let here = format!("{} / {} per pair", ours.time(), raw.time());
        let what = "W2 64 tasks, a name each / 64 in one write";
        table.ratio(ours.speed_against(&raw), Some(0.8), what, here);
    }
}

fn runtime() -> Runtime {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime")
}
