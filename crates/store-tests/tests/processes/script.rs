//! The messages between the process tests and their children, one line of JSON each.

use std::io::BufRead;
use std::time::{Duration, SystemTime};

pub(crate) use fencepost_store_tests::NAME;
use serde::{Deserialize, Serialize};

use crate::{actor, exclusion, runtime};

/// The variable with the part that a child plays.
pub(crate) const ROLE_VARIABLE: &str = "FENCEPOST_PROCESSES_ROLE";

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Follows instructions to acquire and use the lock.
    Actor(actor::ActorPart),
    /// Adds to a shared number under the lock.
    Counter(exclusion::CounterPart),
    /// Loses its runtime while it holds locks.
    Freed(runtime::RuntimePart),
    /// Exits while it holds a lock.
    Quitter(runtime::RuntimePart),
}

impl Role {
    /// Returns the role of this process; `None` in the process that runs the tests.
    pub(crate) fn of_this_process() -> Option<Self> {
        let role = std::env::var(ROLE_VARIABLE).ok()?;
        Some(serde_json::from_str(&role).expect("a role this program knows"))
    }

    pub(crate) fn play(self) {
        match self {
            Self::Actor(part) => actor::play(&part),
            Self::Counter(part) => exclusion::play(part),
            Self::Freed(part) => runtime::lose_the_runtime(&part),
            Self::Quitter(part) => runtime::quit_with_a_guard_alive(&part),
        }
    }
}

/// An instruction from the test to a child.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Instruction {
    /// Start counting.
    Go,
    /// Acquire the lock, however long that takes.
    Acquire,
    /// Take a step every [`actor::STEP_PAUSE`] for as long as the lock is held.
    Work,
    /// Write to the fenced register.
    Write(i64),
    /// Read the fenced register.
    Read,
    /// Report what the clocks show and whether the lock is lost.
    Look,
    /// Release the lock.
    Release,
    /// Exit.
    End,
}

/// A report from a child. Times are nanoseconds of the boot clock, which all processes of a machine share.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    Ready,
    Granted(Granted),
    Step {
        at_ns: u64,
    },
    /// The work stopped because the lock was lost.
    Stopped {
        at_ns: u64,
        reason: String,
    },
    /// The register accepted the access. Contains its current value.
    Admitted(i64),
    Refused {
        offered: i64,
        highest: i64,
    },
    Looked(Looked),
    Released(String),
    Done,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Granted {
    pub(crate) fence: i64,
    /// The time before the store was asked.
    pub(crate) asked_ns: u64,
    /// The time after the store answered.
    pub(crate) granted_ns: u64,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Looked {
    pub(crate) boot_ns: u64,
    pub(crate) wall_s: i64,
    pub(crate) is_lost: bool,
}

/// Sends a report to the test.
pub(crate) fn say(report: &Report) {
    println!("{}", serde_json::to_string(report).unwrap());
}

/// Returns the instructions of the test as they arrive. Blocks, and ends when the test closes the input.
pub(crate) fn instructions() -> impl Iterator<Item = Instruction> {
    let lines = std::io::stdin().lock().lines().map_while(Result::ok);
    lines.map(|line| serde_json::from_str(&line).unwrap())
}

pub(crate) fn boot_ns() -> u64 {
    fencepost_store_tests::now().as_nanos()
}

/// Returns the seconds since 1970 on the wall clock, which can be set.
pub(crate) fn wall_s() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    i64::try_from(since.unwrap().as_secs()).unwrap()
}

pub(crate) fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap()
}
