//! The thread that owns the connection: it executes requests in the order in which they were sent, and waits on behalf of all claims of
//! this process.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use tokio::sync::oneshot;

use super::STORE;
use super::record_waiters::RecordWaiters;
use super::requests::{IfBusy, Outcome};
use super::session::{Database, LockFile};
use super::settings::Settings;
use super::stored_records::Seen;
use super::waiting::{ASKED_AGAIN, RELEASED, Waiter, Waiting};
use crate::backend::records::{RecordKey, RecordKind, Replaced, Snapshot};
use crate::backend::{Listed, Record, Release, Renewal};
use crate::claim::{Claim, Grant, LockName};
use crate::clock::Moment;
use crate::error::{Error, ErrorKind, Operation, Result};

/// How long a checkpoint waits for other programs. It can be short, because they can do it later.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(1);

type Reply<T> = oneshot::Sender<Result<T>>;

/// A request to the thread, with the channel for its answer.
#[derive(Debug)]
pub(super) enum Request {
    TryAcquire {
        claim: Claim,
        reply: Reply<Option<Grant>>,
    },
    Acquire {
        claim: Claim,
        /// Receives a message if the claim has to wait, and is dropped if it does not.
        busy: oneshot::Sender<()>,
        reply: Reply<Grant>,
    },
    Renew {
        claims: Vec<Claim>,
        reply: Reply<Vec<Renewal>>,
    },
    Release {
        claim: Claim,
        reply: Reply<Release>,
    },
    Inspect {
        name: LockName,
        reply: Reply<Option<Record>>,
    },
    List {
        pattern: Option<String>,
        reply: Reply<Vec<Listed>>,
    },
    ReadRecord {
        key: RecordKey,
        asked_at: Moment,
        reply: Reply<Snapshot>,
    },
    ReplaceRecord {
        key: RecordKey,
        seen: Seen,
        value: Vec<u8>,
        reply: Reply<Replaced>,
    },
    AwaitRecord {
        key: RecordKey,
        /// The version that the caller has seen.
        version: u128,
        /// Receives a message if the record has another version, and is dropped if that cannot be found out.
        told: oneshot::Sender<()>,
    },
    RecordNames {
        kind: RecordKind,
        reply: Reply<Vec<LockName>>,
    },
    Checkpoint {
        reply: Reply<bool>,
    },
}

/// Starts the thread. It reports to `opened` whether it could open the file, and ends when the sender of requests is dropped.
pub(super) fn start(
    settings: Settings,
    opened: impl FnOnce(Result<()>) + Send + 'static,
) -> Result<Sender<Request>> {
    let (sender, requests) = channel();
    let thread = std::thread::Builder::new().name("fencepost-db".to_owned());
    let started = thread.spawn(move || match LockFile::open(settings) {
        Ok(file) => {
            opened(Ok(()));
            Worker {
                requests,
                file,
                waiting: Waiting::new(),
                record_waiters: RecordWaiters::new(),
            }
            .run();
        }
        Err(error) => opened(Err(error)),
    });
    match started {
        Ok(_) => Ok(sender),
        Err(error) => Err(Error::new(
            ErrorKind::Unavailable,
            STORE,
            Operation::Open,
            "the system refused to start a thread",
        )
        .with_source(error)),
    }
}

struct Worker {
    requests: Receiver<Request>,
    file: LockFile,
    waiting: Waiting,
    record_waiters: RecordWaiters,
}

impl Worker {
    fn run(mut self) {
        loop {
            let pauses = [self.waiting.pause(), self.record_waiters.pause()];
            let request = match pauses.into_iter().flatten().min() {
                None => self.requests.recv().map_err(RecvTimeoutError::from),
                Some(pause) => self.requests.recv_timeout(pause),
            };
            match request {
                Ok(request) => self.serve(request),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.waiting.look_if_due(&mut self.file);
            self.record_waiters.look_if_due(&mut self.file);
        }
    }

    /// Executes a request. Sending its answer fails if its future was dropped, which is allowed at any time.
    fn serve(&mut self, request: Request) {
        match request {
            Request::TryAcquire { claim, reply } => {
                if !reply.is_closed() {
                    let _ = reply.send(self.try_acquire(&claim));
                }
            }
            Request::Acquire { claim, busy, reply } => {
                if !reply.is_closed() {
                    self.acquire(claim, busy, reply);
                }
            }
            Request::Renew { claims, reply } => {
                let renewals = self
                    .file
                    .run(Operation::Renew, |database| database.renew(&claims));
                self.waiting.changed_here();
                let _ = reply.send(renewals);
            }
            Request::Release { claim, reply } => {
                self.waiting.end(&claim, RELEASED);
                let released = self
                    .file
                    .run(Operation::Release, |database| database.release(&claim));
                self.waiting.look_soon();
                let _ = reply.send(released);
            }
            Request::Inspect { name, reply } => {
                let record = self
                    .file
                    .run(Operation::Inspect, |database| database.inspect(&name));
                let _ = reply.send(record);
            }
            Request::List { pattern, reply } => {
                let listed = self.file.run(Operation::Inspect, |database| {
                    database.list(pattern.as_deref())
                });
                let _ = reply.send(listed);
            }
            Request::ReadRecord {
                key,
                asked_at,
                reply,
            } => {
                let seen = self.file.run(Operation::ReadRecord, |database| {
                    database.read_record(&key, asked_at)
                });
                let _ = reply.send(seen);
            }
            Request::ReplaceRecord {
                key,
                seen,
                value,
                reply,
            } => {
                if !reply.is_closed() {
                    let replaced = self.file.run(Operation::ReplaceRecord, |database| {
                        database.replace_record(&key, seen, &value)
                    });
                    self.record_waiters.replaced_here(&key);
                    let _ = reply.send(replaced);
                }
            }
            Request::AwaitRecord { key, version, told } => {
                self.record_waiters.add(&mut self.file, key, version, told);
            }
            Request::RecordNames { kind, reply } => {
                let names = self.file.run(Operation::ReadRecord, |database| {
                    database.record_names(kind)
                });
                let _ = reply.send(names);
            }
            Request::Checkpoint { reply } => {
                let done = self.file.run_within(
                    CHECKPOINT_TIMEOUT,
                    Operation::Inspect,
                    Database::checkpoint,
                );
                let _ = reply.send(done);
            }
        }
    }

    fn try_acquire(&mut self, claim: &Claim) -> Result<Option<Grant>> {
        let answer = self.file.run(Operation::Acquire, |database| {
            database.ask(claim, IfBusy::GoAway)
        })?;
        self.waiting.changed_here();
        Ok(match answer {
            Outcome::Granted(grant) => Some(grant),
            Outcome::Refused { .. } => None,
        })
    }

    fn acquire(&mut self, claim: Claim, busy: oneshot::Sender<()>, reply: Reply<Grant>) {
        let answer = self.file.run(Operation::Acquire, |database| {
            let answer = database.ask(&claim, IfBusy::Wait { ticket: None })?;
            Ok((answer, database.generation))
        });
        self.waiting.changed_here();
        match answer {
            Ok((Outcome::Granted(grant), _)) => {
                self.waiting.end(&claim, ASKED_AGAIN);
                let _ = reply.send(Ok(grant));
            }
            Ok((Outcome::Refused { ticket, due }, generation)) => {
                let _ = busy.send(());
                let waiter = Waiter {
                    claim,
                    reply,
                    ticket,
                    generation,
                };
                self.waiting.add(waiter, due);
            }
            Err(error) => {
                let _ = reply.send(Err(error));
            }
        }
    }
}
