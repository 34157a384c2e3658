//! A job that runs once: on one machine of many, for a limited time, and not twice for the same slot of its schedule.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use fencepost::Locker;
//! use fencepost::kinds::once::{Began, Outcome};
//! use fencepost::stores::memory::Memory;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let locker = Locker::new(Arc::new(Memory::new()));
//! # async fn write_report() -> bool { true }
//!
//! let nightly = locker.once("nightly")?.at_most(Duration::from_secs(1800)).slot("2026-11-19");
//! match nightly.begin().await? {
//!     Began::Run(run) => {
//!         let outcome = match run.run(write_report()).await {
//!             Ok(true) => Outcome::Completed,
//!             Ok(false) => Outcome::Failed,
//!             // Nobody knows how far it came: dropped, the run counts as crashed.
//!             Err(stopped) => return Err(stopped.into()),
//!         };
//!         println!("{:?}", run.finish(outcome).await);
//!     }
//!     Began::Skipped(skipped) => println!("not now: {:?}", skipped.why),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//! A run holds the lock of the job's name, and renews it while the job works. A lock and a job of the same name therefore exclude each other, and
//! a machine that crashes blocks the others for one TTL, not for the longest time that the job may take.
//!
//! - **At most.** [`Once::at_most`] is a bound that nothing extends. Renewals end before it, the run is [lost](crate::LostReason::OutOfTime)
//!   when it is reached, and [`Run::run`] stops the work a little earlier, so that there is time to record how it ended.
//! - **At least.** [`Once::at_least`] keeps others away after a quick run, for schedules whose machines do not start at exactly the same
//!   time. The lease is extended before the job begins. After a quick run it is not released, but left to end by itself, in the time of the
//!   store. A crash does not shorten it. (If it is shorter than the TTL, others may have to wait for the TTL.)
//! - **Slots.** A slot is a text that names one date of the schedule, such as `2026-11-19`. The store remembers which slots have begun and
//!   which were completed. A completed slot is not run again, by nobody, for as long as it is [kept](Once::keep).
//!
//! # Why nothing can promise "exactly once"
//! A machine that dies after the work and before the record of its completion leaves a slot of which nobody knows whether the work was done.
//! [`AfterCrash`] says what happens then: with [`Skip`](AfterCrash::Skip), a slot is run at most once; with [`Rerun`](AfterCrash::Rerun), at least
//! once, if somebody asks for it again after the crash. Only if the work itself and the record of its completion are one transaction can it be
//! exactly once, and then this is not needed.
//! What the work changes can also check the [fence](Run::fence) of the run.
//!
//! # Which stores
//! Slots need a store that keeps records: memory, SQLite, Redis, a Postgres table, etcd or ZooKeeper. Redlock refuses slots, because a majority
//! of its servers can forget them, and so do Postgres' advisory locks, which keep nothing. On a store that may forget what it acknowledged,
//! such as Redis after a failover, [`Run::slots_may_be_forgotten`] is `true`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::Backend;
use crate::claim::{LockName, hides_or_breaks_text};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::locker::Locker;
use crate::ttl::{MAX_TTL, MIN_TTL};

mod begin;
mod journal;
mod recorded;
mod run;
mod skipped;

pub use run::{Finished, Outcome, Run, Stopped};
pub use skipped::{Skipped, Why};

/// What happens to a slot whose run began and never said how it ended.
///
/// The variants are complete on purpose: a new one would be a breaking change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AfterCrash {
    /// It is not run again: a slot is run at most once.
    #[default]
    Skip,
    /// It is run again: a slot is run at least once.
    Rerun,
}

/// A job that runs once. [`Locker::once`] creates it; [`begin`](Self::begin) begins a run.
#[derive(Clone)]
#[must_use = "nothing runs before `begin`"]
pub struct Once {
    locker: Locker,
    name: LockName,
    terms: Terms,
}

/// What is asked of a run.
#[derive(Debug, Clone)]
struct Terms {
    at_most: Option<Duration>,
    at_least: Duration,
    slot: Option<Arc<str>>,
    after_crash: AfterCrash,
    keep: Duration,
}

/// The answer to [`Once::begin`].
///
/// The variants are complete on purpose: a new one would be a breaking change.
#[derive(Debug)]
pub enum Began {
    /// The job may run now, here and nowhere else.
    Run(Run),
    /// The job must not run now.
    Skipped(Skipped),
}

impl Locker {
    /// Returns the job of this name. It uses the store, the TTL, the store timeout and the label of this locker, and is shut down with it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// use std::time::Duration;
    /// use fencepost::kinds::once::{Began, Outcome};
    ///
    /// let cleanup = locker.once("cleanup")?.at_most(Duration::from_secs(60));
    /// if let Began::Run(run) = cleanup.begin().await? {
    ///     // ... clean up ...
    ///     assert!(run.finish(Outcome::Completed).await.is_released());
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the name is invalid.
    pub fn once<N>(&self, name: N) -> Result<Once>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        Ok(Once {
            name: name.try_into()?,
            locker: self.without_hand_over(),
            terms: Terms {
                at_most: None,
                at_least: Duration::ZERO,
                slot: None,
                after_crash: AfterCrash::default(),
                keep: Once::DEFAULT_KEEP,
            },
        })
    }
}

impl Once {
    /// How long slots are remembered unless [`keep`](Self::keep) says otherwise: 90 days.
    pub const DEFAULT_KEEP: Duration = Duration::from_secs(90 * 24 * 60 * 60);
    /// The longest slot, in bytes.
    pub const MAX_SLOT_BYTES: usize = 128;

    /// Returns the name of the job.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// Returns the store in which the job takes its lock.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        self.locker.backend()
    }

    /// Sets for how long a run may take at most. There is no default: nobody but you knows how long the job may block its next run.
    pub fn at_most(mut self, time: Duration) -> Self {
        self.terms.at_most = Some(time);
        self
    }

    /// Sets for how long nobody else may begin after a run has begun, however short it is. The default is zero.
    pub fn at_least(mut self, time: Duration) -> Self {
        self.terms.at_least = time;
        self
    }

    /// Sets the date of the schedule that this run is for, so that it is not run twice. Slots are compared as text when old ones are forgotten,
    /// so choose texts that grow, such as `2026-11-19` or `2026-11-19T03`.
    pub fn slot(mut self, slot: impl Into<Arc<str>>) -> Self {
        self.terms.slot = Some(slot.into());
        self
    }

    /// Sets what happens if the last run of this slot began and never said how it ended. The default is [`AfterCrash::Skip`].
    pub fn after_crash(mut self, after_crash: AfterCrash) -> Self {
        self.terms.after_crash = after_crash;
        self
    }

    /// Sets how long slots are remembered, by the clock of this machine. The default is [`DEFAULT_KEEP`](Self::DEFAULT_KEEP). A slot that is
    /// forgotten, and every slot that sorts before it, is refused from then on.
    pub fn keep(mut self, time: Duration) -> Self {
        self.terms.keep = time;
        self
    }

    /// Begins a run, or says why the job must not run now. Never waits for another run.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// use std::time::Duration;
    /// use fencepost::kinds::once::{Began, Why};
    ///
    /// let nightly = locker.once("nightly")?.at_most(Duration::from_secs(60));
    /// let Began::Run(run) = nightly.begin().await? else { panic!("nobody else runs it") };
    /// let Began::Skipped(skipped) = nightly.begin().await? else { panic!("it runs already") };
    /// assert_eq!(skipped.why, Why::Running);
    /// # drop(run);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if a time or the slot is out of range or the record of the job is full, [`ErrorKind::Unsupported`] if
    /// the store cannot do what is asked, and otherwise the errors of [`Locker::try_acquire`] and those of the record. After an error with the
    /// effect `Maybe`, the slot may count as begun.
    ///
    /// # Cancel safety
    /// The future can be dropped at any point. The lock is released in the background. If there is a slot, it may count as begun, as after a
    /// crash.
    pub async fn begin(&self) -> Result<Began> {
        let at_most = self.terms.check()?;
        begin::begin(self, at_most).await
    }
}

impl Terms {
    /// Checks the terms, and returns how long the run may take.
    fn check(&self) -> Result<Duration> {
        let Some(at_most) = self.at_most else {
            return Err(Error::invalid(
                "at_most is missing: for how long may this job block its next run?",
            ));
        };
        if at_most < MIN_TTL {
            return Err(Error::invalid(format!(
                "at_most is {at_most:?}, less than {MIN_TTL:?}: that is too short to be stopped in time"
            )));
        }
        if self.at_least > at_most {
            return Err(Error::invalid(format!(
                "at_least ({:?}) is more than at_most ({at_most:?})",
                self.at_least
            )));
        }
        if self.at_least > MAX_TTL {
            return Err(Error::invalid(format!(
                "at_least is {:?}, more than 24 h. A job that runs more rarely than that needs a slot",
                self.at_least
            )));
        }
        match &self.slot {
            Some(slot) => check_slot(slot).map(|()| at_most),
            None => Ok(at_most),
        }
    }
}

fn check_slot(slot: &str) -> Result<()> {
    if slot.is_empty() || slot.len() > Once::MAX_SLOT_BYTES {
        return Err(Error::invalid(format!(
            "a slot has 1 to {} bytes, this one has {}",
            Once::MAX_SLOT_BYTES,
            slot.len()
        )));
    }
    if slot.chars().any(hides_or_breaks_text) {
        return Err(Error::invalid(format!(
            "a slot must not contain control characters, line separators or text direction marks: {slot:?}"
        )));
    }
    Ok(())
}

/// Returns the error for a store that cannot do what a run asks of it.
fn unsupported(locker: &Locker, message: String) -> Error {
    let store = locker.backend().store_name();
    Error::new(
        ErrorKind::Unsupported,
        store,
        Operation::ReadRecord,
        message,
    )
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once")
            .field("name", &self.name)
            .field("terms", &self.terms)
            .finish_non_exhaustive()
    }
}
