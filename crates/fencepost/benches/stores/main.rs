//! Locks in every store, compared with the fewest requests that such a lock needs there, and with the lock that people already use there;
//! all in the same interleaved rounds.
//!
//! | | workload | 1 is |
//! |---|---|---|
//! | W1 | one task acquires and releases | the bare requests, by the store's bare client |
//! | W2 | 64 tasks, a name each | the same for 64 names at once |
//! | W3 | 16 tasks of one process take turns | without parallelism, a change of holder is a release and a grant: a pair of W1 |
//! | W3p | 16 processes take turns | the same |
//! | W4 | 200 wait, each holds for 1 ms | tokio's mutex |
//!
//! Finally, Redis is compared with Postgres in separate rounds, with ours on Redis as 1.
//!
//! Without `--bench` this is a quick test that everything runs. `FENCEPOST_BENCH=W1,W4` selects workloads, and
//! `FENCEPOST_BENCH_STORES=etcd,redis` selects stores. `cargo xtask bench --stores` sets `FENCEPOST_BENCH_JSON` (a file for the figures).

mod contests;
mod foreign;
mod lock;
#[path = "../measure/mod.rs"]
mod measure;
#[path = "../measure/mutex.rs"]
mod mutex;
mod native;
mod ours;
#[path = "../measure/player.rs"]
mod player;
mod raw;
#[path = "../measure/report.rs"]
mod report;
mod stage;
#[path = "../redis/raw.rs"]
#[allow(dead_code, reason = "the other benchmark uses more of it")]
mod wire;

use std::rc::Rc;

use tokio::runtime::{Builder, Runtime};

use contests::Contests;
use measure::Effort;
use report::{Machine, Report};
use stage::{STORES, Stage, Store};

/// The settings of one run.
pub(crate) struct Bench {
    pub(crate) runtime: Rc<Runtime>,
    pub(crate) effort: Effort,
}

fn main() {
    if ours::is_child() {
        return;
    }
    let bench = Bench {
        runtime: Rc::new(runtime()),
        effort: Effort::from_arguments(),
    };
    let wanted = |variable: &str, name: &str| {
        let only = std::env::var(variable).unwrap_or_default();
        only.is_empty() || only.split(',').any(|one| one == name)
    };
    let is_wanted = |workload: &str| wanted("FENCEPOST_BENCH", workload);
    let mut report = Report {
        title: "locks in every store against its own limit",
        machine: Machine {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            versions: Vec::new(),
        },
        rows: Vec::new(),
        skipped: Vec::new(),
    };
    let is_chosen = |store: &&Store| wanted("FENCEPOST_BENCH_STORES", store.name);
    let chosen: Vec<&Store> = STORES.iter().filter(is_chosen).collect();
    assert!(
        !chosen.is_empty(),
        "no benchmark of this store: add it to STORES in stage.rs"
    );
    for store in chosen {
        let Stage {
            mut parties,
            versions,
            skipped,
            servers,
        } = (store.start)(&bench);
        let contests = Contests {
            store: store.title,
            one_is: store.one_is,
            bench: &bench,
        };
        report.rows.extend(contests.all(&mut parties, &is_wanted));
        for version in versions {
            if !report.machine.versions.contains(&version) {
                report.machine.versions.push(version);
            }
        }
        report.skipped.extend(skipped);
        // Keep what was measured, whatever happens next.
        report.write_json();
        // Drop the clients before the servers.
        drop(parties);
        drop(servers);
    }
    print!("{report}");
}

pub(crate) fn runtime() -> Runtime {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime")
}
