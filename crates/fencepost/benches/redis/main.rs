//! Locks in Redis against the bare store, in the same run.

#[path = "../measure/mod.rs"]
mod measure;
mod raw;
mod uncontended;

use std::sync::Arc;

use fencepost::Locker;
use fencepost::backend::redis::Redis;
use tokio::runtime::{Builder, Runtime};

use measure::{Effort, Table, rounds};
use raw::Raw;

fn main() {
    let effort = Effort::from_arguments();
    let server = fencepost_rig::Redis::start().expect("a private redis-server");
    let runtime = runtime();
    let store = runtime.block_on(Redis::open(&server.url()));
    let locker = Locker::new(Arc::new(store.expect("a connection")));
    let mut wire = Raw::connect(server.address());
    let mut table = Table::new("redis");
    let pairs = effort.pick(200, 5);
    let mut wire2 = Raw::connect(server.address());
    let [ours, dropped, raw] = rounds(
        effort.pick(101, 1),
        [
            &mut || uncontended::ours(&runtime, &locker, pairs),
            &mut || uncontended::dropped(&runtime, &locker, pairs),
            &mut || uncontended::raw(&mut wire, pairs),
        ],
    );
    let here = |one: &measure::Samples| format!("{} / {} per pair", one.time(), raw.time());
    table.ratio(ours.speed_against(&raw), Some(0.85), "W1", here(&ours));
    table.ratio(
        dropped.speed_against(&raw),
        Some(1.5),
        "W1d",
        here(&dropped),
    );
    let [ours, raw] = rounds(
        effort.pick(101, 1),
        [
            &mut || uncontended::many_ours(&runtime, &locker, 64, effort.pick(10, 1)),
            &mut || uncontended::many_raw(&mut wire2, 64, effort.pick(10, 1)),
        ],
    );
    table.ratio(
        ours.speed_against(&raw),
        Some(0.8),
        "W2",
        format!("{} / {} per pair", ours.time(), raw.time()),
    );
    print!("{table}");
}

fn runtime() -> Runtime {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime")
}
