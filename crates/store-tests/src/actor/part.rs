//! The part of a child: the store it opens, and the task it performs there.

use std::fmt::Debug;
use std::io::BufRead;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use fencepost::resource::FencedError;
use fencepost::{Backend, Guard, Locker};
use fencepost_rig::{Child, Feed, FeedSender, feed};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::report::{Report, Served, report};
use crate::{NAME, locker};

const PART_VARIABLE: &str = "FENCEPOST_CHILD";

/// Opens a store in a child, and accesses the resource that the lock protects.
pub trait Opener: Debug + Clone + Serialize + DeserializeOwned {
    /// The type of the store.
    type Store: Backend + 'static;
    /// Tasks that only the tests of this store use; [`NoVerb`] if there are none.
    type Verb: Debug + Clone + Serialize + DeserializeOwned;

    /// Opens the store.
    fn open(&self) -> impl Future<Output = Arc<Self::Store>>;

    /// Creates the locker of a child.
    fn locker(store: &Arc<Self::Store>, ttl: Duration) -> Locker {
        locker(store, ttl)
    }

    /// Writes to the resource under the guard's fence, without checking whether the lock is still held.
    fn write(&self, store: &Arc<Self::Store>, guard: &Guard) -> impl Future<Output = Wrote>;

    /// Performs a task that only this store has.
    fn perform(
        &self,
        verb: &Self::Verb,
        store: &Arc<Self::Store>,
        locker: &Locker,
    ) -> impl Future<Output = ()>;
}

/// The type of tasks for a store that has none of its own.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum NoVerb {}

/// The result of a write.
#[derive(Debug)]
pub enum Wrote {
    /// The resource accepted it.
    Through,
    /// The resource refused its fence.
    Refused,
    /// It failed for another reason.
    Failed(String),
}

impl From<Result<(), FencedError>> for Wrote {
    fn from(written: Result<(), FencedError>) -> Self {
        match written {
            Ok(()) => Self::Through,
            Err(FencedError::Refused(_)) => Self::Refused,
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

/// The part that a child plays.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Part<O: Opener> {
    /// How to open the store.
    pub store: O,
    /// The TTL of its locks.
    pub ttl: Duration,
    /// What the child does.
    pub task: Task<O::Verb>,
}

/// What a child does once it is connected.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Task<V> {
    /// This many tasks wait for the lock. Each holds it once, for this long, and releases it.
    WaitOnce {
        /// The number of tasks.
        waiters: usize,
        /// How long each of them holds the lock.
        hold: Duration,
    },
    /// Acquires the lock and follows orders until it is told to release the lock, or until the test is gone.
    Hold,
    /// A task that only the tests of this store use.
    Verb(V),
}

/// An instruction from a test to a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Instruction {
    /// Write to the resource without checking whether the lock is still held, then report whether it is lost.
    Write,
    /// Release the lock.
    Release,
}

impl<O: Opener> Part<O> {
    /// Returns the part of this process; `None` in the process that runs the tests.
    pub fn of_this_process() -> Option<Self> {
        let part = std::env::var(PART_VARIABLE).ok()?;
        Some(serde_json::from_str(&part).expect("a part this program knows"))
    }

    /// Starts a child that plays this part.
    pub fn start(&self, id: usize, sender: &FeedSender) -> Child {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.env(PART_VARIABLE, serde_json::to_string(self).expect("a part"));
        // Only the last lines are kept. They should say what happened, rather than where.
        command.env("RUST_BACKTRACE", "0");
        Child::spawn(command, id, sender).expect("a child")
    }

    /// Starts the only child of a test and waits until it holds the lock. Returns the child, its reports, and its fence.
    pub fn start_holding(&self) -> (Child, Feed, i64) {
        let (feed, sender) = feed();
        let child = self.start(0, &sender);
        assert_eq!(report(&feed), Report::Ready);
        match report(&feed) {
            Report::Held { fence } => (child, feed, fence),
            other => panic!("it was to hold the lock: {other:?}"),
        }
    }

    /// Plays the part, in the child.
    pub(crate) fn play(&self) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(self.do_task());
    }

    async fn do_task(&self) {
        let store = self.store.open().await;
        let locker = O::locker(&store, self.ttl);
        say(&Report::Ready);
        match &self.task {
            Task::WaitOnce { waiters, hold } => {
                let tasks = (0..*waiters).map(|_| tokio::spawn(wait_once(locker.clone(), *hold)));
                futures_util::future::join_all(tasks).await;
            }
            Task::Hold => self.hold(&store, &locker).await,
            Task::Verb(verb) => self.store.perform(verb, &store, &locker).await,
        }
        say(&Report::Done);
    }

    async fn hold(&self, store: &Arc<O::Store>, locker: &Locker) {
        let guard = match locker.acquire(NAME).await {
            Ok(guard) => guard,
            Err(error) => return say(&Report::Failed(error.to_string())),
        };
        let fence = guard.fence().as_i64();
        say(&Report::Held { fence });
        while next_instruction().await == Some(Instruction::Write) {
            say(&match self.store.write(store, &guard).await {
                Wrote::Through => Report::Written,
                Wrote::Refused => Report::Refused,
                Wrote::Failed(why) => Report::Failed(why),
            });
            if guard.is_lost() {
                say(&Report::Lost);
            }
        }
        say(&Report::Released(guard.release().await.is_released()));
    }
}

async fn wait_once(locker: Locker, hold: Duration) {
    let guard = match locker.acquire(NAME).await {
        Ok(guard) => guard,
        Err(error) => return say(&Report::Failed(error.to_string())),
    };
    let served = Served::granted(&guard);
    tokio::time::sleep(hold).await;
    say(&Report::Served(served.release(guard).await));
}

/// Sends a report to the test.
pub fn say(report: &Report) {
    println!("{}", serde_json::to_string(report).expect("a report"));
}

/// Returns when the test sends a line, or is gone.
pub async fn until_told() {
    next_line().await;
}

async fn next_instruction() -> Option<Instruction> {
    let line = next_line().await?;
    Some(serde_json::from_str(&line).expect(&line))
}

async fn next_line() -> Option<String> {
    let read = || std::io::stdin().lock().lines().next();
    let line = tokio::task::spawn_blocking(read).await;
    line.expect("a line is read").and_then(Result::ok)
}
