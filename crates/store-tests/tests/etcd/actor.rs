//! A child that wants the lock, as the test tells it.

use std::io::BufRead;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use fencepost::Locker;
use fencepost::stores::etcd::Etcd;
use fencepost::stores::etcd::client::TxnOp;
use fencepost_rig::{Child, Ears, Feed, Said};
use serde::{Deserialize, Serialize};

use crate::support::{LONG, NAME, released};

const ROLE_VARIABLE: &str = "FENCEPOST_ETCD_ROLE";

/// What makes one child differ from another.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) url: String,
    pub(crate) ttl: Duration,
    pub(crate) task: Task,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Holds; when it is told to, writes without looking whether it still does.
    Hold,
    /// Adds one to the number in a file so often, under the lock.
    Count { file: String, turns: u64 },
}

/// What a child has to say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    Held { fence: i64 },
    Written,
    Refused,
    Lost,
    Done,
}

impl Part {
    /// `None` in the process that tests.
    pub(crate) fn of_this_process() -> Option<Self> {
        let part = std::env::var(ROLE_VARIABLE).ok()?;
        Some(serde_json::from_str(&part).expect("a part this program knows"))
    }

    pub(crate) fn start(&self, id: usize, ears: &Ears) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(ROLE_VARIABLE, serde_json::to_string(self).unwrap());
        command.env("RUST_BACKTRACE", "0");
        Child::spawn(command, id, ears).unwrap()
    }
}

/// The next report of anybody.
pub(crate) fn hear(feed: &Feed) -> Report {
    loop {
        match feed.next(LONG).expect("a report").said {
            Said::Line(line) => return serde_json::from_str(&line).expect(&line),
            Said::Closed => {}
        }
    }
}

fn say(report: &Report) {
    println!("{}", serde_json::to_string(report).unwrap());
}

/// The child's side.
pub(crate) fn play(part: &Part) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let store = Arc::new(Etcd::open(&part.url).await.unwrap());
        let builder = Locker::builder(store.clone()).ttl(part.ttl);
        let locker = builder.without_hand_over().build().unwrap();
        match &part.task {
            Task::Hold => hold(&store, &locker).await,
            Task::Count { file, turns } => {
                for _ in 0..*turns {
                    let guard = locker.acquire(NAME).await.unwrap();
                    add_one(file);
                    released(guard).await;
                }
                locker.shutdown().await;
            }
        }
        say(&Report::Done);
    });
}

async fn hold(store: &Etcd, locker: &Locker) {
    let guard = locker.acquire(NAME).await.unwrap();
    let fence = guard.fence().as_i64();
    say(&Report::Held { fence });
    tokio::task::spawn_blocking(until_told).await.unwrap();
    let late = [TxnOp::put("written", "late", None)];
    say(&match store.write_while_held(&guard, late).await {
        Ok(_) => Report::Written,
        Err(_) => Report::Refused,
    });
    if guard.is_lost() {
        say(&Report::Lost);
    }
}

/// Reads, waits a moment, and writes: whoever comes in between is lost.
pub(crate) fn add_one(file: &str) {
    let number: u64 = std::fs::read_to_string(file)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    std::thread::yield_now();
    std::fs::write(file, format!("{}\n", number + 1)).unwrap();
}

/// Returns when the test says so, or is gone.
fn until_told() {
    let mut line = String::new();
    let _ = std::io::stdin().lock().read_line(&mut line);
}
