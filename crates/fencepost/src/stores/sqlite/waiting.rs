//! The waiting claims of this process, and the checks that find out when they may take their locks.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::oneshot;

use super::STORE;
use super::requests::{IfBusy, Outcome, Ticket, WaitingOrder};
use super::session::LockFile;
use crate::claim::{Claim, Grant, LockName};
use crate::clock::{BootClock, Clock, Moment};
use crate::error::{Effect, Error, ErrorKind, Operation, Result};
use crate::random::{Random, SystemRandom};

/// How long a check waits for other programs. It can be short, because a failed check is simply repeated.
pub(super) const LOOK_TIMEOUT: Duration = Duration::from_millis(50);

/// Why a wait ends without the lock although its future is alive: the caller used one claim twice at the same time.
pub(super) const ASKED_AGAIN: &str = "the same claim was asked for again while this one waited";
pub(super) const RELEASED: &str = "the claim was released while it waited";

/// One waiting claim.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) claim: Claim,
    pub(super) reply: oneshot::Sender<Result<Grant>>,
    /// The claim's ticket, in the file of this generation.
    pub(super) ticket: Option<Ticket>,
    pub(super) generation: u64,
}

/// All waiting claims of this process, and what is known about their locks.
#[derive(Debug)]
pub(super) struct Waiting {
    waiters: Vec<Waiter>,
    next_look: Moment,
    /// The earliest moment at which a waiter may take its lock even if nobody commits anything.
    next_due: Moment,
    /// The `data_version` of the last check and the file in which it was read, or `None` after a commit of our own.
    seen: Option<(u64, i64)>,
    is_troubled: bool,
}

impl Waiting {
    pub(super) fn new() -> Self {
        Self {
            waiters: Vec::new(),
            next_look: Moment::ZERO,
            next_due: Moment::ZERO,
            seen: None,
            is_troubled: false,
        }
    }

    /// Returns how long there is nothing to check, or `None` if nobody waits.
    pub(super) fn pause(&self) -> Option<Duration> {
        let pause = || self.next_look.saturating_duration_since(BootClock.now());
        (!self.waiters.is_empty()).then(pause)
    }

    /// Adds a waiter.
    pub(super) fn add(&mut self, waiter: Waiter, due: Moment) {
        self.end(&waiter.claim, ASKED_AGAIN);
        let look_at = look_after(BootClock.now());
        // While nobody waits, the time of the next check is not kept up to date.
        self.next_look = if self.waiters.is_empty() {
            look_at
        } else {
            self.next_look.min(look_at)
        };
        self.waiters.push(waiter);
        self.next_due = self.next_due.min(due);
    }

    /// Ends the wait of this owner, if it waits. Usually its future was dropped before.
    pub(super) fn end(&mut self, claim: &Claim, why: &'static str) {
        let is_it = |waiter: &mut Waiter| {
            waiter.claim.owner == claim.owner && waiter.claim.name == claim.name
        };
        for waiter in self.waiters.extract_if(.., is_it) {
            let error = Error::new(ErrorKind::InvalidInput, STORE, Operation::Acquire, why);
            let _ = waiter.reply.send(Err(error));
        }
    }

    /// Records that this process has changed the file, because `data_version` does not show our own changes.
    pub(super) fn changed_here(&mut self) {
        self.seen = None;
    }

    /// Makes the next check happen at once, because a lock was released here and somebody here may wait for it.
    pub(super) fn look_soon(&mut self) {
        self.seen = None;
        self.next_look = Moment::ZERO;
    }

    /// Checks whether a waiter may take its lock now, if a check is due.
    pub(super) fn look_if_due(&mut self, file: &mut LockFile) {
        if self.waiters.is_empty() || self.next_look > BootClock.now() {
            return;
        }
        // A waiter whose future was dropped keeps its place, but nobody here asks on its behalf.
        self.waiters.retain(|waiter| !waiter.reply.is_closed());
        if !self.waiters.is_empty() {
            match self.look(file) {
                Ok(()) => self.is_troubled = false,
                Err(error) => self.handle_failure(file, error),
            }
        }
        self.next_look = look_after(BootClock.now());
    }

    fn look(&mut self, file: &mut LockFile) -> Result<()> {
        let version = file.run_within(LOOK_TIMEOUT, Operation::Acquire, |database| {
            Ok((database.generation, database.data_version()?))
        })?;
        if self.seen == Some(version) && BootClock.now() < self.next_due {
            return Ok(());
        }
        // Set this before anything is read or written, so that the next check sees a change in between.
        self.seen = Some(version);
        self.next_due = Moment::FAR;
        let lines = self.read_lines(file).inspect_err(|_| self.seen = None)?;
        for waiter in std::mem::take(&mut self.waiters) {
            let due = match lines.get(&waiter.claim.name) {
                Some(line) => line.due(&waiter.claim.owner.to_string()),
                None => Moment::ZERO,
            };
            if due <= BootClock.now() {
                self.ask_again(file, waiter);
            } else {
                self.next_due = self.next_due.min(due);
                self.waiters.push(waiter);
            }
        }
        Ok(())
    }

    fn read_lines(&self, file: &mut LockFile) -> Result<BTreeMap<LockName, WaitingOrder>> {
        let mut lines = BTreeMap::new();
        for Waiter { claim, .. } in &self.waiters {
            if !lines.contains_key(&claim.name) {
                let line = file.run_within(LOOK_TIMEOUT, Operation::Acquire, |database| {
                    database.line(&claim.name)
                })?;
                lines.insert(claim.name.clone(), line);
            }
        }
        Ok(lines)
    }

    fn ask_again(&mut self, file: &mut LockFile, mut waiter: Waiter) {
        let answer = file.run_within(LOOK_TIMEOUT, Operation::Acquire, |database| {
            let ticket = waiter
                .ticket
                .filter(|_| waiter.generation == database.generation);
            let answer = database.ask(&waiter.claim, IfBusy::Wait { ticket })?;
            Ok((answer, database.generation))
        });
        self.seen = None;
        match answer {
            Ok((Outcome::Granted(grant), _)) => {
                // If the future was dropped, its release is already on the way.
                let _ = waiter.reply.send(Ok(grant));
            }
            Ok((Outcome::Refused { ticket, due }, generation)) => {
                (waiter.ticket, waiter.generation) = (ticket, generation);
                self.next_due = self.next_due.min(due);
                self.waiters.push(waiter);
            }
            Err(error) if error.is_transient() => {
                self.note_trouble(&error);
                self.waiters.push(waiter);
            }
            Err(error) => {
                let left_behind = leave(file, &waiter.claim).is_err();
                let _ = waiter
                    .reply
                    .send(Err(error.with_effect(effect(left_behind))));
            }
        }
    }

    /// Continues to wait if the failure may be temporary, and otherwise ends all waits with the error.
    fn handle_failure(&mut self, file: &mut LockFile, error: Error) {
        if error.is_transient() {
            return self.note_trouble(&error);
        }
        let mut left_behind = false;
        for waiter in &self.waiters {
            left_behind |= leave(file, &waiter.claim).is_err();
        }
        let error = error.with_effect(effect(left_behind));
        for waiter in self.waiters.drain(..) {
            let _ = waiter.reply.send(Err(error.clone()));
        }
    }

    fn note_trouble(&mut self, error: &Error) {
        self.seen = None;
        if !std::mem::replace(&mut self.is_troubled, true) {
            tracing::warn!(%error, "cannot look after waiting claims; trying again");
        }
    }
}

/// Returns the effect of an error that ends a wait: nothing was changed unless the ticket could not be removed.
fn effect(left_behind: bool) -> Effect {
    if left_behind {
        Effect::Maybe
    } else {
        Effect::None
    }
}

fn leave(file: &mut LockFile, claim: &Claim) -> Result<()> {
    file.run_within(LOOK_TIMEOUT, Operation::Release, |database| {
        database.release(claim)
    })
    .map(|_| ())
}

/// Returns a moment 2 to 4 ms later, at random, so that processes that wait for one lock do not check in step.
pub(super) fn look_after(now: Moment) -> Moment {
    const LEAST: Duration = Duration::from_millis(2);
    now + LEAST + SystemRandom.up_to(LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::OwnerId;
    use crate::stores::sqlite::settings::{Purpose, Settings};

    fn claim() -> Claim {
        Claim::new(
            LockName::new("one").unwrap(),
            OwnerId::random(&SystemRandom),
            Duration::from_secs(60),
        )
        .with_label("test")
    }

    #[test]
    fn a_waiter_whose_turn_has_not_come_does_not_even_try_to_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db");
        let mut file = LockFile::open(Settings {
            path: path.clone(),
            busy_timeout: Duration::from_secs(5),
            first_epoch: None,
            boot: "test".to_owned(),
            purpose: Purpose::Lock,
        })
        .unwrap();
        let mut ask = |claim: &Claim| {
            let wait = IfBusy::Wait { ticket: None };
            let asked = file.run(Operation::Acquire, |database| {
                Ok((database.ask(claim, wait)?, database.generation))
            });
            asked.unwrap()
        };
        assert!(matches!(ask(&claim()).0, Outcome::Granted(_)));
        let mut waiting = Waiting::new();
        let mut answers = Vec::new();
        for _ in 0..3 {
            let claim = claim();
            let (Outcome::Refused { ticket, due }, generation) = ask(&claim) else {
                panic!("the lock is taken");
            };
            let (reply, answer) = oneshot::channel();
            answers.push(answer);
            let waiter = Waiter {
                claim,
                reply,
                ticket,
                generation,
            };
            waiting.add(waiter, due);
        }
        let other = rusqlite::Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        waiting.look_soon();
        waiting.look_if_due(&mut file);
        assert!(
            !waiting.is_troubled,
            "somebody met the other program's lock"
        );
        assert_eq!(waiting.waiters.len(), 3);
        assert!(waiting.next_due > BootClock.now() && waiting.next_due < Moment::FAR);
    }
}
