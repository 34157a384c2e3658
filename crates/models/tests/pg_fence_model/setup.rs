//! The settings of a search of the Postgres fence: the number of sessions, the faults, and the flaw, if any.

/// A mistake that looks harmless.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flaw {
    /// The fence is a plain counter, like a transaction number.
    NoLift,
    /// One sequence is both drawn from and lifted, and a draw can happen between the two halves of a lift.
    OneSequence,
    /// Two sessions may lift at the same time.
    LiftersTogether,
    /// The client remembers that the fence was lifted. Behind a pooler, the client outlives the server's session.
    KeptByClient,
    /// The lift is the time itself, without subtracting what was already counted.
    CountedTwice,
    /// A holder is told its fence before the number is on the server's disk.
    NoFlush,
    /// The lift is read when the lock is requested, as in the snapshot of a statement.
    ReadBeforeTheLock,
    /// Sessions draw two numbers at once and keep the second for later (`CACHE 2`).
    Cached,
}

#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) sessions: usize,
    /// How many fences each session draws.
    pub(crate) draws: u8,
    pub(crate) crashes: u8,
    pub(crate) failovers: u8,
    pub(crate) clock_max: u8,
    /// How far the clock goes back with each crash.
    pub(crate) crash_sets_back: u8,
    /// How far the standby's clock is behind.
    pub(crate) standby_is_behind: u8,
    /// Fences are reported in the middle of a transaction, before they can be written to disk.
    pub(crate) told_in_transaction: bool,
    pub(crate) flaw: Option<Flaw>,
}

impl Setup {
    pub(crate) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }
}

const CALM: Setup = Setup {
    sessions: 2,
    draws: 2,
    crashes: 0,
    failovers: 0,
    clock_max: 2,
    crash_sets_back: 0,
    standby_is_behind: 0,
    told_in_transaction: false,
    flaw: None,
};
/// In this setup the clock cannot be trusted, and need not be.
const CRASH: Setup = Setup {
    crashes: 1,
    crash_sets_back: 2,
    ..CALM
};
const FAILOVER: Setup = Setup {
    failovers: 1,
    clock_max: 3,
    ..CALM
};
const BOTH: Setup = Setup {
    crashes: 1,
    failovers: 1,
    clock_max: 3,
    ..CALM
};
const TRANSACTIONS: Setup = Setup {
    told_in_transaction: true,
    ..BOTH
};

pub(crate) const SOUND: &[(&str, Setup)] = &[
    ("two sessions", CALM),
    (
        "three sessions",
        Setup {
            sessions: 3,
            ..CALM
        },
    ),
    ("a crash that sets the clock back", CRASH),
    ("a failover", FAILOVER),
    ("a crash and a failover", BOTH),
    (
        "a crash and a failover, fences told inside transactions",
        TRANSACTIONS,
    ),
];

pub(crate) const SOUND_DEEPER: &[(&str, Setup)] = &[
    (
        "three sessions, two failovers",
        Setup {
            sessions: 3,
            failovers: 2,
            ..FAILOVER
        },
    ),
    (
        "three sessions, two crashes that set the clock back",
        Setup {
            sessions: 3,
            crashes: 2,
            ..CRASH
        },
    ),
];

pub(crate) const BROKEN: &[(&str, Setup)] = &[
    (
        "the number of a transaction",
        Setup {
            flaw: Some(Flaw::NoLift),
            ..FAILOVER
        },
    ),
    (
        "one sequence, without exclusion",
        Setup {
            sessions: 3,
            flaw: Some(Flaw::OneSequence),
            ..CALM
        },
    ),
    (
        "lifters that do not exclude each other",
        Setup {
            sessions: 3,
            flaw: Some(Flaw::LiftersTogether),
            ..CALM
        },
    ),
    (
        "lifted, as the client remembers",
        Setup {
            flaw: Some(Flaw::KeptByClient),
            ..FAILOVER
        },
    ),
    (
        "lifted to the time, on top of what was counted",
        Setup {
            draws: 3,
            flaw: Some(Flaw::CountedTwice),
            ..FAILOVER
        },
    ),
    (
        "told before it is on the disk",
        Setup {
            flaw: Some(Flaw::NoFlush),
            ..CRASH
        },
    ),
    (
        "the lift is read before the lock is granted",
        Setup {
            sessions: 3,
            flaw: Some(Flaw::ReadBeforeTheLock),
            ..CALM
        },
    ),
    (
        "numbers kept for later",
        Setup {
            flaw: Some(Flaw::Cached),
            ..CALM
        },
    ),
];

pub(crate) const LIMITS: &[(&str, Setup)] = &[
    (
        "a standby whose clock is behind by more than the outage",
        Setup {
            standby_is_behind: 3,
            ..FAILOVER
        },
    ),
    (
        "a fence told inside a transaction, and a crash that sets the clock back",
        Setup {
            told_in_transaction: true,
            ..CRASH
        },
    ),
];
