//! A thread that owns an SQLite connection and runs jobs in the order in which they are sent.
//!
//! Jobs that are waiting share one transaction, with a savepoint for each and one commit. Answers are sent after that commit is on disk, so
//! a hundred concurrent orders wait for the disk a few times instead of a hundred.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

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
        answered.await.map_err(thread_gone)?
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
        Ok(answered.await.map_err(thread_gone)??)
    }

    fn send(&self, task: Task) -> Result<(), StorageError> {
        let sent = self.tasks.try_send(task);
        sent.map_err(|_| StorageError::Unavailable("too many jobs wait for the database".into()))
    }
}

fn thread_gone(_: oneshot::error::RecvError) -> StorageError {
    StorageError::Broken("the database's thread has ended".into())
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
            work(&connection);
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
    let (is_kept, answer) = job(Ok(transaction));
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
