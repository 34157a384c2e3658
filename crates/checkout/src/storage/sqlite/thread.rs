//! A thread that owns an SQLite connection and runs jobs in the order in which they are sent.
//!
//! Jobs that are waiting share one transaction, with a savepoint for each and one commit. Answers are sent after that commit is on disk, so
//! a hundred concurrent orders wait for the disk a few times instead of a hundred.
//!
//! A job that panics fails alone: what it wrote is taken back, and the thread goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::oneshot;

use super::Fault;
use crate::storage::{Decision, StorageError};

/// The maximum number of jobs in one commit.
const MAX_JOBS_PER_COMMIT: usize = 64;
/// The maximum number of queued jobs; further ones are refused.
const MAX_QUEUED_JOBS: usize = 4_096;

type Answer = Box<dyn FnOnce(Result<(), StorageError>) + Send>;
/// A job. It gets the transaction, or the error if there is none, and returns whether to keep what it wrote and a function that sends the
/// answer.
type Job = Box<dyn FnOnce(Result<&Transaction<'_>, StorageError>) -> (bool, Answer) + Send>;

/// A message to the thread.
enum Task {
    /// A job that shares a transaction with others.
    Job(Job),
    /// A job outside of transactions, after all jobs that were sent before.
    Alone(Box<dyn FnOnce(&Connection) + Send>),
}

/// A handle to the thread. The thread ends when the last handle is dropped.
#[derive(Clone)]
pub(super) struct DatabaseThread {
    tasks: SyncSender<Task>,
}

impl DatabaseThread {
    /// Starts the thread. `behaviour` says whether it may write.
    pub(super) fn start(
        connection: Connection,
        behaviour: TransactionBehavior,
        name: &str,
    ) -> std::io::Result<Self> {
        let (tasks, inbox) = sync_channel(MAX_QUEUED_JOBS);
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || serve(connection, behaviour, &inbox))?;
        Ok(Self { tasks })
    }

    /// Does `work` in a transaction, which completes even if the future is dropped.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<Decision<T>, Fault> + Send + 'static,
    ) -> Result<T, StorageError> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |transaction| {
            let done = transaction.and_then(|transaction| Ok(work(transaction)?));
            let is_kept = matches!(done, Ok(Decision::Commit(_)));
            let outcome = done.map(|done| match done {
                Decision::Commit(value) | Decision::RollBack(value) => value,
            });
            let reply: Answer = Box::new(move |committed| {
                // The receiver may be gone.
                let _ = answer.send(committed.and(outcome));
            });
            (is_kept, reply)
        });
        self.send(Task::Job(job))?;
        answered.await.map_err(never_answered)?
    }

    /// Does `work` outside of transactions, after all jobs that were sent before. Completes even if the future is dropped.
    pub(super) async fn run_alone<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StorageError> {
        let (answer, answered) = oneshot::channel();
        self.send(Task::Alone(Box::new(move |connection| {
            // The receiver may be gone.
            let _ = answer.send(work(connection));
        })))?;
        Ok(answered.await.map_err(never_answered)??)
    }

    fn send(&self, task: Task) -> Result<(), StorageError> {
        self.tasks.try_send(task).map_err(|error| match error {
            TrySendError::Full(_) => {
                StorageError::Unavailable("too many jobs wait for the database".into())
            }
            TrySendError::Disconnected(_) => {
                StorageError::Broken("the database's thread has ended".into())
            }
        })
    }
}

/// The job was dropped without an answer, which only a panic does.
fn never_answered(_: oneshot::error::RecvError) -> StorageError {
    StorageError::Broken("a panic ended the job; what it wrote was taken back".into())
}

/// Runs a part of a job. Returns `None` if it panicked; it has told nobody then, so whoever waits for it learns that it is gone.
fn caught<T>(part: impl FnOnce() -> T) -> Option<T> {
    // The connection is the only thing that outlives the panic, and SQLite's own state does not unwind.
    catch_unwind(AssertUnwindSafe(part)).ok()
}

fn serve(mut connection: Connection, behaviour: TransactionBehavior, inbox: &Receiver<Task>) {
    while let Ok(first) = inbox.recv() {
        let mut jobs = Vec::new();
        let mut alone = None;
        for task in std::iter::once(first).chain(inbox.try_iter().take(MAX_JOBS_PER_COMMIT - 1)) {
            match task {
                Task::Job(job) => jobs.push(job),
                Task::Alone(work) => {
                    alone = Some(work);
                    break;
                }
            }
        }
        if !jobs.is_empty() {
            together(&mut connection, behaviour, jobs);
        }
        if let Some(work) = alone {
            let _ = caught(|| work(&connection));
        }
    }
}

fn together(connection: &mut Connection, behaviour: TransactionBehavior, jobs: Vec<Job>) {
    let transaction = match connection.transaction_with_behavior(behaviour) {
        Ok(transaction) => transaction,
        Err(error) => {
            let error = StorageError::from(Fault::from(error));
            for job in jobs {
                let (_, answer) = job(Err(error.clone()));
                answer(Ok(()));
            }
            return;
        }
    };
    let answers: Vec<Answer> = jobs.into_iter().map(|job| one(&transaction, job)).collect();
    let committed = transaction.commit();
    let committed = committed.map_err(|error| StorageError::from(Fault::from(error)));
    for answer in answers {
        answer(committed.clone());
    }
}

/// Runs one job inside a savepoint.
fn one(transaction: &Transaction<'_>, job: Job) -> Answer {
    if let Err(error) = begin(transaction) {
        let (_, answer) = job(Err(error));
        return answer;
    }
    let done = caught(|| job(Ok(transaction)));
    let (is_kept, answer) = done.unwrap_or_else(|| (false, Box::new(|_| ())));
    let end = if is_kept {
        "RELEASE job"
    } else {
        "ROLLBACK TO job; RELEASE job"
    };
    match transaction.execute_batch(end) {
        Ok(()) => answer,
        Err(error) => Box::new(move |_| answer(Err(Fault::from(error).into()))),
    }
}

fn begin(transaction: &Transaction<'_>) -> Result<(), StorageError> {
    // A full disk rolls back the whole transaction; a savepoint would then silently begin a new one.
    if transaction.is_autocommit() {
        return Err(StorageError::Unavailable(
            "the transaction was ended".into(),
        ));
    }
    let begun = transaction.execute_batch("SAVEPOINT job");
    begun.map_err(|error| Fault::from(error).into())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A generous limit: what does not happen within this time never will.
    const LONG: Duration = Duration::from_secs(60);

    fn thread() -> DatabaseThread {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (n)").unwrap();
        DatabaseThread::start(connection, TransactionBehavior::Immediate, "test").unwrap()
    }

    fn write(transaction: &Transaction<'_>, number: i64) -> Result<Decision<()>, Fault> {
        transaction.execute("INSERT INTO t VALUES (?)", [number])?;
        Ok(Decision::Commit(()))
    }

    async fn numbers(thread: &DatabaseThread) -> Vec<i64> {
        let read = thread.run(|transaction| {
            let mut statement = transaction.prepare("SELECT n FROM t ORDER BY n")?;
            let rows = statement.query_map([], |row| row.get(0))?;
            Ok(Decision::RollBack(rows.collect::<rusqlite::Result<_>>()?))
        });
        let read = tokio::time::timeout(LONG, read).await;
        read.unwrap().unwrap()
    }

    #[tokio::test]
    async fn a_job_that_panics_takes_back_what_it_wrote_and_ends_nothing_else() {
        let thread = thread();
        // Everything that is sent while this one blocks shares one transaction.
        let (go, going) = std::sync::mpsc::channel::<()>();
        let first = thread.run(move |transaction| {
            let _ = going.recv_timeout(LONG);
            write(transaction, 1)
        });
        let before = thread.run(|transaction| write(transaction, 2));
        let broken = thread.run(|transaction| -> Result<Decision<()>, Fault> {
            write(transaction, 3)?;
            panic!("on purpose")
        });
        let after = thread.run(|transaction| write(transaction, 4));
        let release = async { go.send(()).unwrap() };
        let (first, before, broken, after, ()) =
            tokio::join!(first, before, broken, after, release);
        assert_eq!((first, before, after), (Ok(()), Ok(()), Ok(())));
        assert!(matches!(broken, Err(StorageError::Broken(_))), "{broken:?}");
        assert_eq!(numbers(&thread).await, [1, 2, 4]);
    }

    #[tokio::test]
    async fn work_outside_of_transactions_may_panic_too() {
        let thread = thread();
        let broken = thread.run_alone(|_| -> Result<(), Fault> { panic!("on purpose") });
        let broken = broken.await;
        assert!(matches!(broken, Err(StorageError::Broken(_))), "{broken:?}");
        assert_eq!(numbers(&thread).await, [0_i64; 0]);
    }
}
