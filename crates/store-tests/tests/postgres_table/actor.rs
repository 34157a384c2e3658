//! A child that wants the lock, as the test tells it.

use std::io::BufRead;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use fencepost::Locker;
use fencepost::pg_tx::PgGate;
use fencepost::resource::{Credential, FencedError};
use fencepost_rig::{Child, Ears, Feed, Said};
use serde::{Deserialize, Serialize};
use tokio_postgres::Client;

use crate::support::{NAME, Plain, now, patient};

const ROLE_VARIABLE: &str = "FENCEPOST_POSTGRES_TABLE_ROLE";

/// What makes one child differ from another.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) url: String,
    pub(crate) ttl: Duration,
    pub(crate) task: Task,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Waits, holds for so long and gives back, once.
    WaitOnce { hold: Duration },
    /// Holds, and when it is told to, writes to a fenced table without looking whether it still holds.
    Hold,
}

/// What a child has to say. Moments are nanoseconds of the boot clock, which all processes of a machine share.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Report {
    Holding,
    Served(Served),
    /// The resource refused a write, although the lock was believed to be held.
    Refused,
    /// The lock was lost under work.
    Lost,
    Failed(String),
    Done,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Served {
    pub(crate) fence: i64,
    pub(crate) granted_ns: u64,
    /// How it ended.
    pub(crate) outcome: String,
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
        let store = patient(&part.url).open().await.unwrap();
        let builder = Locker::builder(Arc::new(store)).ttl(part.ttl);
        let locker = builder.without_hand_over().build().unwrap();
        match &part.task {
            Task::WaitOnce { hold } => wait_once(&locker, *hold).await,
            Task::Hold => hold(&locker, &part.url).await,
        }
    });
}

async fn wait_once(locker: &Locker, hold: Duration) {
    let guard = match locker.acquire(NAME).await {
        Ok(guard) => guard,
        Err(error) => return say(&Report::Failed(error.to_string())),
    };
    let (granted_ns, fence) = (now().as_nanos(), guard.fence().as_i64());
    tokio::time::sleep(hold).await;
    let outcome = format!("{:?}", guard.release().await);
    say(&Report::Served(Served {
        fence,
        granted_ns,
        outcome,
    }));
    say(&Report::Done);
}

async fn hold(locker: &Locker, url: &str) {
    let mut plain = Plain::open(url).await;
    let guard = locker.acquire(NAME).await.unwrap();
    say(&Report::Holding);
    let told = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        let _ = std::io::stdin().lock().read_line(&mut line);
    });
    told.await.unwrap();
    say(
        &match write(&mut plain.0, guard.credential(), "late").await {
            Err(FencedError::Refused(_)) => Report::Refused,
            Err(error) => Report::Failed(error.to_string()),
            Ok(()) => Report::Failed("a write that was let through".to_owned()),
        },
    );
    if guard.is_lost() {
        say(&Report::Lost);
    }
    say(&Report::Done);
}

/// Writes to a table behind a gate.
pub(crate) async fn write(
    client: &mut Client,
    pass: Credential,
    text: &str,
) -> Result<(), FencedError> {
    let transaction = client.transaction().await.unwrap();
    PgGate::admit(&transaction, NAME, pass).await?;
    let set = "UPDATE note SET text = $1";
    transaction.execute(set, &[&text]).await.unwrap();
    transaction.commit().await.unwrap();
    Ok(())
}
