//! A child that holds the lock.

use std::io::BufRead;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use fencepost::resource::{FencedError, RedisRegister};
use fencepost::stores::redis::Redis;
use fencepost_rig::{Child, Ears, Feed, Said};
use serde::{Deserialize, Serialize};

use crate::support::{NAME, locker, open};

const ROLE_VARIABLE: &str = "FENCEPOST_REDLOCK_ROLE";

/// It holds, and when it is told to, writes to a fenced number without looking whether it still holds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) address: String,
    /// Where the number is.
    pub(crate) register: String,
    pub(crate) ttl: Duration,
}

/// What a child has to say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    Holds,
    /// The resource refused a write, although the lock was believed to be held.
    Refused,
    /// The lock was lost.
    Lost,
    Failed(String),
}

impl Part {
    /// `None` in the process that tests.
    pub(crate) fn of_this_process() -> Option<Self> {
        let part = std::env::var(ROLE_VARIABLE).ok()?;
        Some(serde_json::from_str(&part).expect("a part this program knows"))
    }

    pub(crate) fn start(&self, ears: &Ears) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(ROLE_VARIABLE, serde_json::to_string(self).unwrap());
        Child::spawn(command, 0, ears).unwrap()
    }
}

/// The next report; `None` when there are no more.
pub(crate) fn hear(feed: &Feed, within: Duration) -> Option<Report> {
    match feed.next(within).ok()?.said {
        Said::Line(line) => Some(serde_json::from_str(&line).expect(&line)),
        Said::Closed => None,
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
        let register = Redis::open(&part.register).await.unwrap();
        let register = RedisRegister::new(&Arc::new(register), "count");
        let locker = locker(&open(&part.address).await, part.ttl);
        let guard = locker.acquire(NAME).await.unwrap();
        say(&Report::Holds);
        tokio::task::spawn_blocking(until_told).await.unwrap();
        say(&match register.write(guard.credential(), "late").await {
            Err(FencedError::Refused(_)) => Report::Refused,
            Err(error) => Report::Failed(error.to_string()),
            Ok(()) => Report::Failed("a write that was let through".to_owned()),
        });
        if guard.is_lost() {
            say(&Report::Lost);
        }
    });
}

/// Returns when the test says so, or is gone.
fn until_told() {
    let mut line = String::new();
    let _ = std::io::stdin().lock().read_line(&mut line);
}
