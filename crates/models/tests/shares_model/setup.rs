//! The settings of a search: what there is, what each client does, what can go wrong, and the flaw, if any.

use fencepost::backend::Part;

use crate::promises::{
    BACK_AGAIN, EPOCH_FELL, GAP, OVERTAKEN, REVIVED, STARVED, TOGETHER, TURN_TAKEN,
};

/// A mistake that looks harmless.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flaw {
    /// The store replaces the record whatever it contains.
    ComparesNothing,
    /// A renewal extends a lease that has ended, as long as nobody has removed it.
    RevivesEndedLeases,
    /// An attempt takes what is free, although it is kept for a waiter whose turn it is.
    KeepsNoRoom,
    /// A waiter that comes late asks only whether there is room, and not who is ahead.
    Overtakes,
    /// Whoever is called is waited for, however long that takes.
    HasNoWindow,
    /// Whoever was passed over starts again at the end of the line.
    ForgetsPlaces,
    /// The epoch is not counted up.
    KeepsTheEpoch,
    /// The epoch is counted in the record alone, which the store may lose.
    IgnoresTheFloor,
    /// A release leaves the record alone if there is nothing of the owner in it.
    ReleasesWithoutReplacing,
    /// A release leaves the record alone if what the owner had has ended by itself.
    ForgetsWhatIsStored,
    /// A downgrade is a release and a claim.
    DowngradesInTwoSteps,
}

#[derive(Clone, Copy)]
pub(crate) struct Setup {
    /// What each client asks for.
    pub(crate) clients: &'static [Client],
    /// How many answers get lost.
    pub(crate) losses: u8,
    pub(crate) crashes: u8,
    /// How many holders renew.
    pub(crate) renewals: u8,
    /// How often time passes until the next lease or turn ends.
    pub(crate) ticks: u8,
    /// How often the store loses the record.
    pub(crate) disasters: u8,
    pub(crate) flaw: Option<Flaw>,
}

/// A client and its plan.
#[derive(Clone, Copy)]
pub(crate) struct Client {
    pub(crate) part: Part,
    /// Whether it waits in line, or only tries.
    pub(crate) waits: bool,
    /// Whether it becomes a reader before it leaves.
    pub(crate) downgrades: bool,
}

impl Setup {
    pub(crate) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }
}

const fn waits(part: Part) -> Client {
    Client {
        part,
        waits: true,
        downgrades: false,
    }
}

const fn tries(part: Part) -> Client {
    Client {
        waits: false,
        ..waits(part)
    }
}

const fn permits(count: u32, of: u32) -> Part {
    Part::Permits { count, of }
}

const ONE_OF_ONE: Part = permits(1, 1);

const THREE_WAIT: &[Client] = &[waits(ONE_OF_ONE), waits(ONE_OF_ONE), waits(ONE_OF_ONE)];

const CALM: Setup = Setup {
    clients: &[waits(ONE_OF_ONE), waits(ONE_OF_ONE), tries(ONE_OF_ONE)],
    losses: 0,
    crashes: 0,
    renewals: 0,
    ticks: 1,
    disasters: 0,
    flaw: None,
};
const TWO: Setup = Setup {
    clients: &[waits(ONE_OF_ONE), waits(ONE_OF_ONE)],
    ..CALM
};
const WEIGHTS: Setup = Setup {
    clients: &[
        waits(permits(1, 2)),
        waits(permits(2, 2)),
        tries(permits(1, 2)),
    ],
    ..CALM
};
const READERS: Setup = Setup {
    clients: &[waits(Part::Read), waits(Part::Write), waits(Part::Read)],
    ..CALM
};
const DOWNGRADE: Setup = Setup {
    clients: &[
        Client {
            downgrades: true,
            ..waits(Part::Write)
        },
        waits(Part::Write),
    ],
    ..CALM
};
const LOST: Setup = Setup { losses: 1, ..TWO };
const CRASH: Setup = Setup {
    crashes: 1,
    ticks: 3,
    ..CALM
};
const DISASTER: Setup = Setup {
    disasters: 1,
    ..TWO
};

pub(crate) const SOUND: &[(&str, Setup)] = &[
    ("three clients of one permit", CALM),
    ("weights", WEIGHTS),
    ("readers and a writer", READERS),
    (
        "three clients and a crash",
        Setup {
            crashes: 1,
            ticks: 0,
            ..CALM
        },
    ),
    ("a downgrade", DOWNGRADE),
    ("a lost answer", LOST),
    (
        "two lost answers and a renewal",
        Setup {
            losses: 2,
            renewals: 1,
            ..TWO
        },
    ),
    ("a crash", Setup { crashes: 1, ..TWO }),
    (
        "a downgrade, a lost answer and time",
        Setup {
            losses: 1,
            ticks: 2,
            ..DOWNGRADE
        },
    ),
    ("a lost record", DISASTER),
];

pub(crate) const SOUND_DEEPER: &[(&str, Setup)] = &[
    ("three clients, a crash and time", CRASH),
    (
        "two lost answers, a renewal and time",
        Setup {
            losses: 2,
            renewals: 1,
            ticks: 2,
            ..TWO
        },
    ),
    (
        "a lost answer, a crash, a renewal and time",
        Setup {
            losses: 1,
            crashes: 1,
            renewals: 1,
            ticks: 3,
            ..TWO
        },
    ),
    (
        "three clients and a lost answer",
        Setup { losses: 1, ..CALM },
    ),
    (
        "readers and a writer, and a crash",
        Setup {
            crashes: 1,
            ..READERS
        },
    ),
    (
        "weights and a crash",
        Setup {
            crashes: 1,
            ..WEIGHTS
        },
    ),
    (
        "a downgrade, a lost answer, a crash and time",
        Setup {
            losses: 1,
            crashes: 1,
            ticks: 2,
            ..DOWNGRADE
        },
    ),
    (
        "a lost record and a lost answer",
        Setup {
            losses: 1,
            ticks: 2,
            ..DISASTER
        },
    ),
];

const fn with(setup: Setup, flaw: Flaw) -> Setup {
    Setup {
        flaw: Some(flaw),
        ..setup
    }
}

pub(crate) const BROKEN: &[(&str, &str, Setup)] = &[
    (
        "no version is compared",
        TOGETHER,
        with(TWO, Flaw::ComparesNothing),
    ),
    (
        "a lease that has ended is revived",
        REVIVED,
        with(Setup { renewals: 1, ..TWO }, Flaw::RevivesEndedLeases),
    ),
    (
        "no room is kept for those who are called",
        TURN_TAKEN,
        with(CALM, Flaw::KeepsNoRoom),
    ),
    (
        "a small claim does not wait for a large one",
        OVERTAKEN,
        with(WEIGHTS, Flaw::Overtakes),
    ),
    (
        "a dead waiter is waited for",
        STARVED,
        with(
            Setup {
                clients: THREE_WAIT,
                crashes: 1,
                ticks: 0,
                ..CALM
            },
            Flaw::HasNoWindow,
        ),
    ),
    (
        "whoever was passed over starts again",
        OVERTAKEN,
        with(
            Setup {
                clients: THREE_WAIT,
                ticks: 2,
                ..CALM
            },
            Flaw::ForgetsPlaces,
        ),
    ),
    (
        "the epoch is not counted up",
        EPOCH_FELL,
        with(TWO, Flaw::KeepsTheEpoch),
    ),
    (
        "the epoch starts again with the record",
        EPOCH_FELL,
        with(DISASTER, Flaw::IgnoresTheFloor),
    ),
    (
        "a release leaves the record alone after a lost answer",
        BACK_AGAIN,
        with(LOST, Flaw::ReleasesWithoutReplacing),
    ),
    (
        "a release leaves the record alone after a turn that passed",
        BACK_AGAIN,
        with(Setup { ticks: 3, ..CALM }, Flaw::ForgetsWhatIsStored),
    ),
    (
        "a downgrade in two steps",
        GAP,
        with(DOWNGRADE, Flaw::DowngradesInTwoSteps),
    ),
];
