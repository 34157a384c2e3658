//! A child that wants the lock, as the test tells it.

use std::io::BufRead;
use std::process::Command;
use std::time::Duration;

use fencepost_rig::{Child, Ears, Feed, Said, Signal};
use serde::{Deserialize, Serialize};

use crate::support::{Eyes, LONG, NAME, locker, now, open};

const ROLE_VARIABLE: &str = "FENCEPOST_POSTGRES_ROLE";

/// What makes one child differ from another.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) url: String,
    pub(crate) ttl: Duration,
    pub(crate) task: Task,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Waits, holds for a moment and gives back, once.
    WaitOnce,
    /// Holds, and when it is told to, writes to a fenced row without looking whether it still holds.
    Hold,
}

/// What a child has to say. Moments are nanoseconds of the boot clock, which all processes of a machine share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    Ready,
    Held {
        fence: i64,
    },
    Served {
        fence: i64,
        granted_ns: u64,
        outcome: String,
    },
    /// The resource refused a write.
    Refused,
    /// It let it through.
    Written,
    /// The lock was lost.
    Lost,
    Failed(String),
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

/// The next report, and who made it.
pub(crate) fn hear(feed: &Feed) -> (usize, Report) {
    loop {
        let heard = feed.next(LONG).expect("a report");
        if let Said::Line(line) = heard.said {
            return (heard.child, serde_json::from_str(&line).expect(&line));
        }
    }
}

/// Kills it, and returns when it is no more.
pub(crate) fn kill(child: &mut Child) {
    // It may have ended by itself.
    let _ = child.signal(Signal::SIGKILL);
    child.wait(LONG).expect("SIGKILL ends every process");
}

/// Writes to the row `fenced` unless somebody with a later fence was there: whether it was let through.
pub(crate) async fn write(eyes: &Eyes, fence: i64, text: &str) -> bool {
    let statement = format!(
        "update fenced set fence = {fence}, text = '{text}' where fence <= {fence} returning 1"
    );
    eyes.text(&statement).await == "1"
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
        let locker = locker(&open(&part.url).await, part.ttl);
        say(&Report::Ready);
        let guard = match locker.acquire(NAME).await {
            Ok(guard) => guard,
            Err(error) => return say(&Report::Failed(error.to_string())),
        };
        let granted_ns = now().as_nanos();
        let fence = guard.fence().as_i64();
        match part.task {
            Task::WaitOnce => {
                tokio::time::sleep(Duration::from_millis(5)).await;
                let outcome = format!("{:?}", guard.release().await);
                say(&Report::Served {
                    fence,
                    granted_ns,
                    outcome,
                });
            }
            Task::Hold => {
                let eyes = Eyes::open(&part.url).await;
                say(&Report::Held { fence });
                tokio::task::spawn_blocking(until_told).await.unwrap();
                say(&match write(&eyes, fence, "late").await {
                    true => Report::Written,
                    false => Report::Refused,
                });
                guard.lost().await;
                say(&Report::Lost);
            }
        }
        say(&Report::Done);
    });
}

/// Returns when the test says so, or is gone.
fn until_told() {
    let mut line = String::new();
    let _ = std::io::stdin().lock().read_line(&mut line);
}
