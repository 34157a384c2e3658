//! A child with tasks that want the lock, as the test tells it.

use std::io::BufRead;
use std::process::Command;
use std::time::Duration;

use fencepost::Locker;
use fencepost::resource::{FencedError, RedisRegister};
use fencepost::stores::redis::Redis;
use fencepost_rig::{Child, Ears, Feed, Said, Signal};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::support::{CLAIM_LEASE, LONG, NAME, Server, now};

const ROLE_VARIABLE: &str = "FENCEPOST_REDIS_ROLE";

/// What makes one child differ from another.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) url: String,
    pub(crate) ttl: Duration,
    pub(crate) task: Task,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Task {
    /// So many tasks wait, each holds for so long and gives back, once.
    WaitOnce { waiters: usize, hold: Duration },
    /// Holds, and when it is told to, writes to a fenced number without looking whether it still holds.
    Hold,
    /// So many tasks take the lock again and again, and add to a fenced number under it, until the input ends.
    Count { tasks: usize },
}

/// What a child has to say. Moments are nanoseconds of the boot clock, which all processes of a machine share.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Report {
    Ready,
    Served(Served),
    /// The resource refused a write, although the lock was believed to be held.
    Refused,
    /// The lock was lost under work.
    Lost,
    /// A request failed; the task goes on.
    Failed(String),
    Done,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Served {
    pub(crate) owner: String,
    pub(crate) fence: i64,
    pub(crate) granted_ns: u64,
    /// How it ended.
    pub(crate) outcome: String,
    /// The number that was read and replaced by one more.
    pub(crate) counted: Option<u64>,
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

/// The next report, and who made it; `None` when somebody's output ended.
pub(crate) fn hear(feed: &Feed, within: Duration) -> Option<(usize, Option<Report>)> {
    let heard = feed.next(within).ok()?;
    let report = match heard.said {
        Said::Line(line) => Some(serde_json::from_str(&line).expect(&line)),
        Said::Closed => None,
    };
    Some((heard.child, report))
}

/// Kills it, and returns when it is no more.
pub(crate) fn kill(child: &mut Child) {
    // It may have ended by itself.
    let _ = child.signal(Signal::SIGKILL);
    child.wait(LONG).expect("SIGKILL ends every process");
}

/// A holder that is killed costs the rest of its lease. That is a claim's lease, unless a slow machine made it hold for so long
/// that it was renewed: not what is tried here.
pub(crate) fn free_if_long_held<'a>(server: &Server, dead: impl IntoIterator<Item = &'a Child>) {
    let mut plain = server.plain();
    let left = plain.number(&["PTTL", NAME]);
    let value = plain.text(&["GET", NAME]).unwrap_or_default();
    let is_dead = dead
        .into_iter()
        .any(|child| value.ends_with(&format!(":{}", child.pid())));
    if is_dead && left > CLAIM_LEASE.as_millis() as i64 {
        plain.does(&["DEL", NAME]);
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
        let store = Arc::new(Redis::open(&part.url).await.unwrap());
        let register = RedisRegister::new(&store, "count");
        let locker = Locker::builder(store)
            .ttl(part.ttl)
            .without_hand_over()
            .build()
            .unwrap();
        say(&Report::Ready);
        match &part.task {
            Task::WaitOnce { waiters, hold } => {
                let tasks = (0..*waiters).map(|_| tokio::spawn(wait_once(locker.clone(), *hold)));
                futures_util::future::join_all(tasks).await;
                say(&Report::Done);
            }
            Task::Hold => hold(&locker, &register).await,
            Task::Count { tasks } => {
                for _ in 0..*tasks {
                    tokio::spawn(count(locker.clone(), register.clone()));
                }
                tokio::task::spawn_blocking(until_told).await.unwrap();
                locker.shutdown().await;
                say(&Report::Done);
            }
        }
    });
}

/// Returns when the test says so, or is gone.
fn until_told() {
    let mut line = String::new();
    let _ = std::io::stdin().lock().read_line(&mut line);
}

async fn wait_once(locker: Locker, hold: Duration) {
    let guard = match locker.acquire(NAME).await {
        Ok(guard) => guard,
        Err(error) => return say(&Report::Failed(error.to_string())),
    };
    let granted_ns = now().as_nanos();
    let (owner, fence) = (guard.owner().to_string(), guard.fence().as_i64());
    tokio::time::sleep(hold).await;
    let outcome = format!("{:?}", guard.release().await);
    say(&Report::Served(Served {
        owner,
        fence,
        granted_ns,
        outcome,
        counted: None,
    }));
}

async fn hold(locker: &Locker, register: &RedisRegister) {
    let guard = locker.acquire(NAME).await.unwrap();
    say(&Report::Ready);
    tokio::task::spawn_blocking(until_told).await.unwrap();
    let written = register.write(guard.credential(), "late").await;
    say(&match written {
        Err(FencedError::Refused(_)) => Report::Refused,
        Err(error) => Report::Failed(error.to_string()),
        Ok(()) => Report::Failed("a write that was let through".to_owned()),
    });
    if guard.is_lost() {
        say(&Report::Lost);
    }
    say(&Report::Done);
}

async fn count(locker: Locker, register: RedisRegister) {
    loop {
        let guard = match locker.acquire(NAME).await {
            Ok(guard) => guard,
            Err(error) if error.kind() == fencepost::ErrorKind::Closed => return,
            Err(error) => {
                say(&Report::Failed(error.to_string()));
                continue;
            }
        };
        let granted_ns = now().as_nanos();
        let (owner, fence) = (guard.owner().to_string(), guard.fence().as_i64());
        let added = match guard.run(add(&register, guard.credential())).await {
            Ok(Ok(counted)) => Some(counted),
            Ok(Err(FencedError::Refused(_))) => {
                say(&Report::Refused);
                continue;
            }
            Ok(Err(error)) => {
                say(&Report::Failed(error.to_string()));
                None
            }
            Err(_) => {
                say(&Report::Lost);
                continue;
            }
        };
        let outcome = format!("{:?}", guard.release().await);
        say(&Report::Served(Served {
            owner,
            fence,
            granted_ns,
            outcome,
            counted: added,
        }));
    }
}

async fn add(
    register: &RedisRegister,
    pass: fencepost::resource::Credential,
) -> Result<u64, FencedError> {
    let text = register.read(pass).await?;
    let number = text.map_or(0, |text| String::from_utf8(text).unwrap().parse().unwrap());
    tokio::task::yield_now().await;
    register.write(pass, (number + 1_u64).to_string()).await?;
    Ok(number + 1)
}
