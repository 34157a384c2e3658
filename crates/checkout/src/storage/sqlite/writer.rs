//! One thread that owns a connection, and does what it is sent in order.
//!
//! What waits is done together: one transaction, a savepoint for each job, one commit. Nobody is answered before that commit
//! is on the disk, so a hundred orders that arrive at once wait for the disk a few times instead of a hundred.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::oneshot;

use super::Fault;
use crate::storage::StorageError;

/// The most jobs of one commit.
const TOGETHER: usize = 64;
/// The most jobs that wait; who comes then is told to come later.
const WAITING: usize = 4_096;

/// What a job comes to, and whether what it wrote is kept.
pub(super) enum Done<T> {
    Keep(T),
    Undo(T),
}

type Answer = Box<dyn FnOnce(Result<(), StorageError>) + Send>;
/// Is given the transaction, or why there is none; says whether what it wrote is kept, and how to answer.
type Job = Box<dyn FnOnce(Result<&Transaction<'_>, StorageError>) -> (bool, Answer) + Send>;

/// What the thread is sent.
enum Task {
    /// Done in one transaction with others.
    Job(Job),
    /// Done outside of transactions, after what was sent before.
    Alone(Box<dyn FnOnce(&Connection) + Send>),
}

/// The line to the thread. The thread ends with the last of them.
#[derive(Clone)]
pub(super) struct Writer {
    tasks: SyncSender<Task>,
}

impl Writer {
    /// Starts the thread. `behaviour` says whether it may write.
    pub(super) fn start(
        connection: Connection,
        behaviour: TransactionBehavior,
        name: &str,
    ) -> std::io::Result<Self> {
        let (tasks, inbox) = sync_channel(WAITING);
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || serve(connection, behaviour, &inbox))?;
        Ok(Self { tasks })
    }

    /// Does `work` in a transaction. It goes on when the future is dropped.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<Done<T>, Fault> + Send + 'static,
    ) -> Result<T, StorageError> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |transaction| {
            let done = transaction.and_then(|transaction| Ok(work(transaction)?));
            let is_kept = matches!(done, Ok(Done::Keep(_)));
            let outcome = done.map(|done| match done {
                Done::Keep(value) | Done::Undo(value) => value,
            });
            let reply: Answer = Box::new(move |committed| {
                // Nobody may be waiting any more.
                let _ = answer.send(committed.and(outcome));
            });
            (is_kept, reply)
        });
        self.send(Task::Job(job))?;
        answered.await.map_err(thread_gone)?
    }

    /// Does `work` outside of transactions, after everything that was sent before. It goes on when the future is dropped.
    pub(super) async fn run_alone<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StorageError> {
        let (answer, answered) = oneshot::channel();
        self.send(Task::Alone(Box::new(move |connection| {
            // Nobody may be waiting any more.
            let _ = answer.send(work(connection));
        })))?;
        Ok(answered.await.map_err(thread_gone)??)
    }

    fn send(&self, task: Task) -> Result<(), StorageError> {
        let sent = self.tasks.try_send(task);
        sent.map_err(|_| StorageError::Unavailable("too much waits for the database".into()))
    }
}

fn thread_gone(_: oneshot::error::RecvError) -> StorageError {
    StorageError::Broken("the database's thread has ended".into())
}

fn serve(mut connection: Connection, behaviour: TransactionBehavior, inbox: &Receiver<Task>) {
    while let Ok(first) = inbox.recv() {
        let mut jobs = Vec::new();
        let mut alone = None;
        for task in std::iter::once(first).chain(inbox.try_iter().take(TOGETHER - 1)) {
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

/// One job between savepoints.
fn one(transaction: &Transaction<'_>, job: Job) -> Answer {
    if let Err(error) = begin(transaction) {
        let (_, answer) = job(Err(error));
        return answer;
    }
    let (is_kept, answer) = job(Ok(transaction));
    let end = match is_kept {
        true => "RELEASE job",
        false => "ROLLBACK TO job; RELEASE job",
    };
    match transaction.execute_batch(end) {
        Ok(()) => answer,
        Err(error) => Box::new(move |_| answer(Err(Fault::from(error).into()))),
    }
}

fn begin(transaction: &Transaction<'_>) -> Result<(), StorageError> {
    // A full disk ends the whole transaction; a savepoint would then quietly begin one of its own.
    if transaction.is_autocommit() {
        return Err(StorageError::Unavailable(
            "the transaction was ended".into(),
        ));
    }
    let begun = transaction.execute_batch("SAVEPOINT job");
    begun.map_err(|error| Fault::from(error).into())
}
