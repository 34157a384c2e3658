//! Flawed variants of the Redis line protocol. The search must convict each of them; otherwise it could not be trusted with the
//! correct one.

use crate::invariants::Promise;
use crate::setup::{Setup, Troubles};

/// A mistake that looks harmless.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flaw {
    /// ADVANCE does not check whether the first in line still sends heartbeats.
    NoLivenessCheck,
    /// A waiter is given the full TTL before it has answered.
    GrantsTheFullTtl,
    /// PUBLISH reports 0 receivers, but the grant stands nevertheless.
    GrantsToNobody,
    /// Waiters rely on pushes alone.
    PublishWithoutPoll,
    /// A heartbeat refreshes the entry but does not take a free key.
    BeatDoesNotAdvance,
    /// A heartbeat without an entry creates one.
    BeatEntersTheLine,
    /// A heartbeat sets the lease to a waiter's lease even when it is longer.
    BeatShortensTheLease,
    /// A push counts for whatever the client waits for now.
    PushMatchedByName,
    /// RELEASE does not release a key that was granted meanwhile.
    CancelOnlyLeavesTheLine,
    /// RELEASE releases the key but does not take back the entry.
    ReleaseKeepsTheEntry,
    /// RELEASE removes the entry but not the record.
    ReleaseKeepsTheRecord,
    /// RELEASE is not sent again after a disconnect.
    ReleaseIsSentOnce,
    /// The same, but only if the next wait has begun meanwhile.
    NextWaitForgetsTheRelease,
    /// RELEASE does not check the owner of the key.
    ReleaseDoesNotCompare,
    /// A RELEASE answered 0 counts as released even after the deadline.
    ZeroMeansReleased,
    /// The deadline is counted from the receipt of the push.
    ValidityFromReceipt,
    /// A grant that has expired is accepted.
    StaleGrantTaken,
    /// A reconnect does not kill the previous connection.
    OldConnectionLives,
    /// A new counter starts at 1.
    PlainIncrement,
    /// No lift is requested on a new connection.
    NeverLifts,
    /// A lift is requested, but happens only if that very command draws a fence.
    LiftWaitsForAGrant,
    /// A try takes a free key although somebody waits.
    TryOvertakes,
    /// A line of dead waiters refuses a try.
    TryTrustsTheLine,
    /// After "gone" a waiter starts again at the end.
    ReentryDrawsANewTicket,
    /// ACQUIRE by a waiter that is already in line returns the current time as the ticket.
    QueuedTellsTheTimeNow,
    /// ADVANCE does not read the records of heartbeats.
    RecordsAreNotRead,
    /// A re-entry writes a record at once, before ADVANCE would look for it.
    RecordForAFreshEntry,
    /// ADVANCE pops the latest ticket.
    LastComeFirstServed,
    /// ACQUIRE answers the caller's own guess with the guessed epoch.
    GuessConfirmed,
    /// The client does not compare its guess with what the count answers.
    GuessNotCompared,
    /// The client does not check whether there is a line.
    LineNotLookedAt,
    /// ACQUIRE joins the line without telling the holder.
    EnqueueDoesNotMark,
    /// A plain count creates a missing counter, which nobody has lifted.
    PlainCountMakesACounter,
    /// ACQUIRE discards the guess of a client that was granted it and asks again.
    HolderLosesItsGuess,
    /// A client that cancels after plain commands deletes its key and does not check the line that it may have bypassed.
    CancelDoesNotLook,
    /// A heartbeat answers the caller's own guess with the guessed epoch.
    BeatTrustsAGuess,
    /// A missing counter is lifted to the clock, but not past what the caller knows; nor does the caller check.
    FloorIgnored,
    /// A client accepts a push with a lower epoch than one it knows. (Its own requests tell the server what it knows.)
    LowGrantTaken,
    /// A heartbeat removes the entry before its own, whether or not that one is alive.
    BuriesTheLiving,
}

/// A flaw, the setup that shows it, and the promise that it breaks.
pub(crate) struct Variant {
    pub(crate) flaw: Flaw,
    pub(crate) setup: Setup,
    pub(crate) breaks: Promise,
}

const CANCEL: Troubles = Troubles {
    cancel: true,
    ..Troubles::NONE
};
const DISCONNECT: Troubles = Troubles {
    disconnect: true,
    ..Troubles::NONE
};
const FREEZE: Troubles = Troubles {
    freeze: true,
    ..Troubles::NONE
};
const KILL: Troubles = Troubles {
    kill: true,
    ..Troubles::NONE
};
const RESTART: Troubles = Troubles {
    restart_empty: true,
    ..Troubles::NONE
};
const FAILOVER: Troubles = Troubles {
    failover: true,
    ..Troubles::NONE
};

const FLUSH: Troubles = Troubles {
    flush: true,
    ..Troubles::NONE
};

const fn with(faults: u8, troubles: Troubles) -> Setup {
    Setup {
        faults,
        troubles,
        ..Setup::CALM
    }
}

/// Every flaw, each in the smallest setup that reveals it.
#[rustfmt::skip]
pub(crate) fn variants() -> Vec<Variant> {
    use Flaw as F;
    use Promise as P;
    let calm = Setup::CALM;
    let plain = Setup { plain_turns: 1, ..calm };
    let plain_commands = Setup { plain_commands: true, is_known: true, ..calm };
    let variant = |flaw, setup, breaks| Variant {
        flaw,
        setup: Setup { flaw: Some(flaw), ..setup },
        breaks,
    };
    vec![
        variant(F::NoLivenessCheck, Setup { clients: 3, plain_turns: 1, late_ticks: Some(0), ..with(2, FREEZE) }, P::DeadWaiterCostsAWaiterLease),
        variant(F::GrantsTheFullTtl, with(1, FREEZE), P::DeadWaiterCostsAWaiterLease),
        variant(F::GrantsToNobody, Setup { clients: 3, plain_turns: 1, late_ticks: Some(0), ..with(2, KILL) }, P::DeadWaiterCostsAWaiterLease),
        variant(F::PublishWithoutPoll, plain, P::NobodyIsStuck),
        variant(F::BeatDoesNotAdvance, plain, P::NobodyIsStuck),
        variant(F::BeatEntersTheLine, Setup { clients: 3, ..calm }, P::FirstComeFirstServed),
        variant(F::BeatShortensTheLease, Setup { pipeline: 2, ..calm }, P::BeliefEndsBeforeLease),
        variant(F::PushMatchedByName, Setup { waits: 2, ..with(1, CANCEL) }, P::BeliefEndsBeforeLease),
        variant(F::CancelOnlyLeavesTheLine, with(1, CANCEL), P::NoOrphanLock),
        variant(F::ReleaseKeepsTheEntry, with(1, CANCEL), P::NoOrphanLock),
        variant(F::ReleaseKeepsTheRecord, with(1, CANCEL), P::NothingIsLeftBehind),
        variant(F::ReleaseIsSentOnce, with(1, DISCONNECT), P::NoOrphanLock),
        variant(F::NextWaitForgetsTheRelease, Setup { eager: true, waits: 2, ..with(1, DISCONNECT) }, P::NoOrphanLock),
        variant(F::ReleaseDoesNotCompare, calm, P::BeliefEndsBeforeLease),
        variant(F::ZeroMeansReleased, calm, P::ReleaseIsHonest),
        variant(F::ValidityFromReceipt, calm, P::BeliefEndsBeforeLease),
        variant(F::StaleGrantTaken, calm, P::BeliefEndsBeforeLease),
        variant(F::OldConnectionLives, with(2, Troubles { cancel: true, ..DISCONNECT }), P::NoOrphanLock),
        variant(F::PlainIncrement, with(1, RESTART), P::FencesGrow),
        variant(F::NeverLifts, with(1, FAILOVER), P::FencesGrow),
        variant(F::LiftWaitsForAGrant, with(1, FAILOVER), P::FencesGrow),
        variant(F::TryOvertakes, Setup { triers: 1, plain_turns: 1, ..calm }, P::FirstComeFirstServed),
        variant(F::TryTrustsTheLine, Setup { triers: 1, plain_turns: 1, ..with(1, KILL) }, P::TryFindsAFreeLock),
        variant(F::ReentryDrawsANewTicket, Setup { clients: 3, ..calm }, P::FirstComeFirstServed),
        variant(F::QueuedTellsTheTimeNow, Setup { clients: 3, late_ticks: Some(0), ..with(1, DISCONNECT) }, P::FirstComeFirstServed),
        variant(F::RecordsAreNotRead, calm, P::FirstComeFirstServed),
        variant(F::RecordForAFreshEntry, with(1, DISCONNECT), P::NothingIsLeftBehind),
        variant(F::LastComeFirstServed, Setup { clients: 3, ..calm }, P::FirstComeFirstServed),
        variant(F::GuessConfirmed, Setup { plain_commands: true, is_known: true, ..with(1, DISCONNECT) }, P::FencesGrow),
        variant(F::GuessNotCompared, plain_commands, P::FencesGrow),
        variant(F::LineNotLookedAt, Setup { plain_turns: 1, ..plain_commands }, P::FirstComeFirstServed),
        variant(F::EnqueueDoesNotMark, plain_commands, P::ReleaseHandsOn),
        variant(F::PlainCountMakesACounter, Setup { plain_commands: true, is_known: true, only_one_knows: true, ..with(1, FLUSH) }, P::FencesGrow),
        variant(F::HolderLosesItsGuess, Setup { asks_again: true, ..plain_commands }, P::BeliefEndsBeforeLease),
        variant(F::CancelDoesNotLook, Setup { plain_commands: true, is_known: true, plain_turns: 1, ..with(1, CANCEL) }, P::ReleaseHandsOn),
        variant(F::BeatTrustsAGuess, Setup { pipeline: 2, late_ticks: Some(0), ..plain_commands }, P::FencesGrow),
        variant(F::FloorIgnored, Setup { is_known: true, slow_clock: true, late_ticks: Some(0), ..with(1, FLUSH) }, P::FencesGrow),
        variant(F::LowGrantTaken, Setup { is_known: true, only_one_knows: true, slow_clock: true, late_ticks: Some(0), ..with(1, FLUSH) }, P::FencesGrow),
        variant(F::BuriesTheLiving, Setup { clients: 3, ..calm }, P::FirstComeFirstServed),
    ]
}
