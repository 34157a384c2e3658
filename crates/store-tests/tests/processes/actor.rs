//! A child that follows instructions to acquire, use and release the lock.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fencepost::resource::{FencedError, FencedResource, SqliteRegister};
use fencepost::stores::sqlite::Sqlite;
use fencepost::{Guard, Locker};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::script::{
    Granted, Instruction, Looked, NAME, Report, boot_ns, instructions, say, wall_s,
};

/// The pause between two steps of a working holder.
pub(crate) const STEP_PAUSE: Duration = Duration::from_millis(50);

/// The part of an actor.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ActorPart {
    pub(crate) label: String,
    pub(crate) locks: PathBuf,
    /// The file of the fenced register that the lock protects.
    pub(crate) register: PathBuf,
    pub(crate) ttl: Duration,
    pub(crate) keep_alive: bool,
}

/// Follows instructions until it is told to end.
pub(crate) fn play(part: &ActorPart) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    let (sender, mut receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || instructions().try_for_each(|instruction| sender.send(instruction)));
    runtime.block_on(async {
        let mut actor = Actor::new(part).await;
        say(&Report::Ready);
        while let Some(instruction) = receiver.recv().await {
            if let Instruction::End = instruction {
                break;
            }
            let report = actor.follow(instruction).await;
            report.iter().for_each(say);
        }
    });
}

struct Actor {
    locker: Locker,
    register: SqliteRegister<i64>,
    guard: Option<Guard>,
    work: Option<JoinHandle<()>>,
}

impl Actor {
    async fn new(part: &ActorPart) -> Self {
        let store = Arc::new(Sqlite::open(&part.locks).await.unwrap());
        let locker = Locker::builder(store)
            .ttl(part.ttl)
            .keep_alive(part.keep_alive)
            .label(part.label.as_str());
        Self {
            locker: locker.build().unwrap(),
            register: SqliteRegister::open(&part.register, NAME, &0).unwrap(),
            guard: None,
            work: None,
        }
    }

    /// Carries out an instruction and returns a report, if there is anything to report yet.
    async fn follow(&mut self, instruction: Instruction) -> Option<Report> {
        Some(match instruction {
            Instruction::Acquire => self.acquire().await,
            Instruction::Write(value) => {
                let credential = self.guard().credential();
                answer(self.register.write(credential, value).map(|()| value))
            }
            Instruction::Read => answer(self.register.read(self.guard().credential())),
            Instruction::Look => Report::Looked(Looked {
                boot_ns: boot_ns(),
                wall_s: wall_s(),
                is_lost: self.guard.as_ref().is_some_and(Guard::is_lost),
            }),
            Instruction::Release => self.release().await,
            Instruction::Work => {
                self.work = Some(tokio::spawn(work(self.guard().reenter())));
                return None;
            }
            Instruction::Go | Instruction::End => unreachable!("not for actors"),
        })
    }

    fn guard(&self) -> &Guard {
        self.guard.as_ref().expect("told to acquire before")
    }

    async fn acquire(&mut self) -> Report {
        let asked_ns = boot_ns();
        let guard = self.locker.acquire(NAME).await.unwrap();
        let granted_ns = boot_ns();
        let fence = guard.fence().as_i64();
        self.guard = Some(guard);
        Report::Granted(Granted {
            fence,
            asked_ns,
            granted_ns,
        })
    }

    async fn release(&mut self) -> Report {
        if let Some(work) = self.work.take() {
            work.await.unwrap();
        }
        let guard = self.guard.take().expect("told to acquire before");
        Report::Released(format!("{:?}", guard.release().await))
    }
}

/// Takes and reports steps for as long as the lock is held.
async fn work(guard: Guard) {
    let steps = async {
        loop {
            say(&Report::Step { at_ns: boot_ns() });
            tokio::time::sleep(STEP_PAUSE).await;
        }
    };
    let Err::<std::convert::Infallible, _>(lost) = guard.run(steps).await;
    say(&Report::Stopped {
        at_ns: boot_ns(),
        reason: format!("{:?}", lost.reason()),
    });
}

fn answer(outcome: Result<i64, FencedError>) -> Report {
    match outcome {
        Ok(value) => Report::Admitted(value),
        Err(FencedError::Refused(refused)) => Report::Refused {
            offered: refused.offered.as_i64(),
            highest: refused.highest.as_i64(),
        },
        Err(error) => panic!("the register failed: {error}"),
    }
}
