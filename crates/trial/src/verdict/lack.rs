//! What an inconclusive run lacks, in a word.

use serde::{Serialize, Serializer};

/// What an inconclusive run is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// A single word, for programs.
    pub what: Lack,
    /// What is missing and how to get it, for people.
    pub advice: &'static str,
}

/// The words for what a run can lack. They are the same in all reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// A lock that is taken once more when the storm is over.
    Aftermath,
    /// Answers: to requests of the lab, or to purchases.
    Answers,
    /// A machine that was not suspended.
    Awake,
    /// A machine on which the lab did not stall, and that was not too busy.
    Calm,
    /// A claim of the lock.
    Claim,
    /// Two who used the number at once.
    Clash,
    /// A program whose clock the lab could set.
    Clock,
    /// A connection to the store.
    Connection,
    /// Somebody whom the lock kept out.
    Contention,
    /// A cut from the store beyond the lease.
    Cut,
    /// A wait cycle.
    Cycle,
    /// A message that was delayed.
    Delay,
    /// An error of the store.
    Error,
    /// A purchase that found nothing to sell.
    FailedPurchase,
    /// A server that took over.
    Failover,
    /// A server that failed.
    Failure,
    /// A fault, of one kind or of any, that took effect in a storm.
    Fault,
    /// The final stock of a sale.
    FinalStock,
    /// A grant.
    Grant,
    /// A hold that lasted until the fault.
    Hold,
    /// Several holds at once.
    Holds,
    /// A lock that was kept for as long as it claims.
    Kept,
    /// A kill of the holder.
    Kill,
    /// A lease that was long enough, or of the lock's own.
    Lease,
    /// Leaders that died, one after the other.
    Leaders,
    /// Processes that waited one after the other.
    Line,
    /// Processes that came back.
    Lives,
    /// A lock that was lost, a server that lost it, or a reply that was lost.
    Loss,
    /// An order.
    Order,
    /// An outage of servers beyond the lease.
    Outage,
    /// Somebody else who had the lock before its holder went on.
    Overrun,
    /// A pause of the holder beyond its lease.
    Pause,
    /// A process that came back with the same process id.
    Pid,
    /// A race that went wrong.
    Race,
    /// A program that got ready.
    Ready,
    /// A renewal that met an error.
    Renewal,
    /// Rounds of a storm.
    Rounds,
    /// A scenario that this version knows.
    Scenario,
    /// A process that came back before the lease was over.
    Start,
    /// Somebody who tried the lock of the second holder.
    Third,
    /// Enough of the lease when a request failed.
    Time,
    /// A lock that went through the store on trial.
    Traffic,
    /// Turns for everybody.
    Turns,
    /// A machine that vanished.
    Vanish,
    /// Processes that waited, and were served.
    Waiters,
    /// Waits that timed out, and others that did not.
    Waits,
}

impl Lack {
    /// Returns the word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aftermath => "aftermath",
            Self::Answers => "answers",
            Self::Awake => "awake",
            Self::Calm => "calm",
            Self::Claim => "claim",
            Self::Clash => "clash",
            Self::Clock => "clock",
            Self::Connection => "connection",
            Self::Contention => "contention",
            Self::Cut => "cut",
            Self::Cycle => "cycle",
            Self::Delay => "delay",
            Self::Error => "error",
            Self::FailedPurchase => "failed_purchase",
            Self::Failover => "failover",
            Self::Failure => "failure",
            Self::Fault => "fault",
            Self::FinalStock => "final_stock",
            Self::Grant => "grant",
            Self::Hold => "hold",
            Self::Holds => "holds",
            Self::Kept => "kept",
            Self::Kill => "kill",
            Self::Lease => "lease",
            Self::Leaders => "leaders",
            Self::Line => "line",
            Self::Lives => "lives",
            Self::Loss => "loss",
            Self::Order => "order",
            Self::Outage => "outage",
            Self::Overrun => "overrun",
            Self::Pause => "pause",
            Self::Pid => "pid",
            Self::Race => "race",
            Self::Ready => "ready",
            Self::Renewal => "renewal",
            Self::Rounds => "rounds",
            Self::Scenario => "scenario",
            Self::Start => "start",
            Self::Third => "third",
            Self::Time => "time",
            Self::Traffic => "traffic",
            Self::Turns => "turns",
            Self::Vanish => "vanish",
            Self::Waiters => "waiters",
            Self::Waits => "waits",
        }
    }
}

impl Serialize for Lack {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}
