//! A child that wants the lock, as the test tells it.

use std::io::BufRead;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use fencepost::resource::{FencedError, SqliteRegister};
use fencepost_rig::{Child, Ears, Feed, Said, Signal};
use serde::{Deserialize, Serialize};

use crate::support::{LONG, NAME, locker, now, open};

const ROLE_VARIABLE: &str = "FENCEPOST_ZOOKEEPER_ROLE";

/// What makes one child differ from another.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) address: SocketAddr,
    pub(crate) session: Duration,
    pub(crate) ttl: Duration,
    /// A file with a fenced number, to which it writes when it is told to, without looking whether it still holds the lock.
    pub(crate) writes_to: Option<PathBuf>,
}

/// What a child has to say. Moments are nanoseconds of the boot clock, which all processes of a machine share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Report {
    Ready,
    Granted {
        fence: i64,
        at_ns: u64,
    },
    /// The resource refused a write.
    Refused,
    /// The resource let a write through.
    Written,
    /// The lock was lost under work.
    Lost,
    Released(bool),
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

/// The next report.
pub(crate) fn hear(feed: &Feed) -> Report {
    let heard = feed.next(LONG).expect("a report");
    match heard.said {
        Said::Line(line) => serde_json::from_str(&line).expect(&line),
        Said::Closed => panic!("the child has ended"),
    }
}

/// Kills it, and returns when it is no more.
pub(crate) fn kill(child: &mut Child) {
    child.signal(Signal::SIGKILL).unwrap();
    child.wait(LONG).expect("SIGKILL ends every process");
}

fn say(report: &Report) {
    println!("{}", serde_json::to_string(report).unwrap());
}

/// The child's side: takes the lock, and when a line comes, writes and gives the lock back.
pub(crate) fn play(part: &Part) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let store = open(part.address, part.session).await;
        let locker = locker(&store, part.ttl);
        say(&Report::Ready);
        let guard = locker.acquire(NAME).await.unwrap();
        say(&Report::Granted {
            fence: guard.fence().as_i64(),
            at_ns: now().as_nanos(),
        });
        tokio::task::spawn_blocking(until_told).await.unwrap();
        if let Some(path) = &part.writes_to {
            let register = SqliteRegister::open(path, "count", &0_i64).unwrap();
            match register.update(guard.credential(), |number| number + 1) {
                Ok(()) => say(&Report::Written),
                Err(FencedError::Refused(_)) => say(&Report::Refused),
                Err(error) => panic!("{error}"),
            }
        }
        if guard.is_lost() {
            say(&Report::Lost);
        }
        say(&Report::Released(guard.release().await.is_released()));
    });
}

/// Returns when the test says so, or is gone.
fn until_told() {
    let mut line = String::new();
    let _ = std::io::stdin().lock().read_line(&mut line);
}
