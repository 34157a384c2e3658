//! The setups that the quorum search explores: those in which the fence must hold, and one for each flaw.

use crate::promises::Promise;
use crate::setup::{Flaw, Setup, Troubles};

pub(crate) struct Scenario {
    pub(crate) title: &'static str,
    pub(crate) setup: Setup,
}

/// A flaw or a limit, the setup that shows it, and the promise that it breaks.
pub(crate) struct Broken {
    pub(crate) title: &'static str,
    pub(crate) setup: Setup,
    pub(crate) breaks: Promise,
    /// Whether it takes too long for everyday runs.
    pub(crate) is_long: bool,
}

const CALM: Setup = Setup::CALM;
/// One tick is enough for a key to expire under its holder.
const SHORT: Setup = Setup {
    ticks_max: Some(1),
    ..CALM
};
const CUT: Troubles = Troubles {
    cut: true,
    ..Troubles::NONE
};
const KEY_LOST: Troubles = Troubles {
    key_lost: true,
    ..Troubles::NONE
};
const RESTART: Troubles = Troubles {
    restart: true,
    ..Troubles::NONE
};
const RESTART_EMPTY: Troubles = Troubles {
    restart_empty: true,
    ..Troubles::NONE
};
const FLUSHED: Troubles = Troubles {
    flushed: true,
    ..Troubles::NONE
};
const DIE: Troubles = Troubles {
    die: true,
    ..Troubles::NONE
};
/// One client whose connections break, and that asks repeatedly.
const ALONE: Setup = Setup {
    clients: 1,
    attempts: [3, 0, 0],
    cancels: true,
    ticks_max: Some(0),
    ..with(CUT, CALM)
};
/// One client asks again while it holds the lock, beside another client.
const AGAIN: Setup = Setup {
    attempts: [2, 1, 0],
    counters: [9; 3],
    holder_asks_again: true,
    ticks_max: Some(0),
    ..CALM
};
/// One client holds the lock on a bare majority and extends twice, beside another client.
const HELD: Setup = Setup {
    attempts: [0, 1, 0],
    counters: [10, 10, 9],
    begins_held: true,
    extends: 2,
    ticks_max: Some(0),
    ..CALM
};
/// The same with one extension that may find the lease lost because keys are lost, and with connections that may break.
const HELD_LOST: Setup = Setup {
    extends: 1,
    faults: 3,
    troubles: Troubles {
        key_lost: true,
        ..CUT
    },
    ..HELD
};
/// The same on servers whose clock lifts new counters, and that lose all their keys.
const HELD_FLUSHED: Setup = Setup {
    counters: [7, 7, 6],
    lifts: true,
    ..with(FLUSHED, HELD)
};
/// A key is lost, and a node that comes back empty grants no keys for as long as any client may believe.
const HELD_DELAYED: Setup = Setup {
    faults: 2,
    ttl: 2,
    ticks_max: Some(1),
    restart_delay: 2,
    troubles: Troubles {
        key_lost: true,
        ..RESTART_EMPTY
    },
    ..HELD_FLUSHED
};
/// An extension reaches a node after the lease is over and the node has lost all its keys, and the other client asks again.
const HELD_LATE: Setup = Setup {
    attempts: [0, 2, 0],
    extends: 1,
    ticks_max: Some(1),
    ..HELD_FLUSHED
};
/// Servers whose clock lifts new counters.
const TIMED: Setup = Setup {
    counters: [0; 3],
    lifts: true,
    ticks_max: Some(2),
    ..with(RESTART_EMPTY, CALM)
};

const fn with(troubles: Troubles, setup: Setup) -> Setup {
    Setup {
        faults: 1,
        troubles,
        ..setup
    }
}

#[rustfmt::skip]
pub(crate) const SOUND: &[Scenario] = &[
    Scenario { title: "two clients, any node slow or silent", setup: SHORT },
    Scenario { title: "a key lost before its time", setup: with(KEY_LOST, SHORT) },
    Scenario { title: "a client dies", setup: with(DIE, SHORT) },
    Scenario { title: "one client, a broken connection", setup: ALONE },
    Scenario { title: "a holder asks again", setup: AGAIN },
    Scenario { title: "extensions on a bare majority", setup: Setup { ttl: 2, ticks_max: Some(1), ..HELD } },
    Scenario { title: "extensions on a bare majority, a key lost", setup: with(KEY_LOST, HELD) },
    Scenario { title: "extensions on a bare majority, a broken connection", setup: with(CUT, HELD) },
    Scenario { title: "an extension on a bare majority, two nodes flushed", setup: Setup { extends: 1, faults: 2, ..HELD_FLUSHED } },
    Scenario { title: "a lease found lost", setup: Setup { faults: 2, ..HELD_LOST } },
    Scenario { title: "one client, dropped attempts", setup: Setup { asks_again: true, ..ALONE } },
];

#[rustfmt::skip]
pub(crate) const SOUND_DEEPER: &[Scenario] = &[
    Scenario { title: "any time passes", setup: CALM },
    Scenario { title: "clients give up at any time", setup: Setup { cancels: true, ..CALM } },
    Scenario { title: "without the shortcut", setup: Setup { shortcut: false, ..CALM } },
    Scenario { title: "a key lost, any time passes", setup: with(KEY_LOST, CALM) },
    Scenario { title: "a node restarts with its data", setup: with(RESTART, CALM) },
    Scenario { title: "any one fault of the honest kind", setup: with(Troubles::HONEST, CALM) },
    Scenario { title: "two broken connections", setup: Setup { faults: 2, ..with(CUT, SHORT) } },
    Scenario { title: "two keys lost", setup: Setup { faults: 2, ..with(KEY_LOST, SHORT) } },
    Scenario { title: "an extension", setup: Setup { extends: 1, ttl: 2, ..CALM } },
    Scenario { title: "extensions on a bare majority, a node flushed", setup: HELD_FLUSHED },
    Scenario { title: "extensions on a bare majority, a young node", setup: HELD_DELAYED },
    Scenario { title: "a late extension, a node flushed", setup: HELD_LATE },
    Scenario { title: "a lease found lost, a broken connection", setup: HELD_LOST },
    Scenario { title: "a lease found lost, another one asked for", setup: Setup { attempts: [1, 1, 0], asks_after_a_loss: true, faults: 2, ..HELD_LOST } },
    Scenario { title: "extensions on a bare majority, asked again", setup: Setup { attempts: [1, 1, 0], holder_asks_again: true, ..with(CUT, HELD) } },
    Scenario { title: "extensions on a bare majority, the holder dies", setup: with(DIE, HELD) },
    Scenario { title: "one asks twice", setup: Setup { attempts: [2, 1, 0], ..CALM } },
    Scenario { title: "one asks twice, dropped attempts", setup: Setup { attempts: [2, 1, 0], asks_again: true, ..SHORT } },
    Scenario { title: "one asks twice over a broken connection", setup: Setup { attempts: [2, 1, 0], cancels: true, ticks_max: Some(0), ..with(CUT, CALM) } },
    Scenario { title: "a holder asks again, a key lost", setup: with(KEY_LOST, AGAIN) },
    Scenario { title: "a holder asks again, a broken connection", setup: with(CUT, AGAIN) },
    Scenario { title: "a holder asks again, time passes", setup: Setup { ttl: 2, ticks_max: Some(2), ..AGAIN } },
    Scenario { title: "three clients", setup: Setup { clients: 3, ticks_max: Some(1), ..CALM } },
    Scenario { title: "a node restarts empty, clocks agree", setup: Setup { ticks_max: Some(3), ..TIMED } },
    Scenario { title: "the counter alone decides (no key needed to accept)", setup: Setup { accept_needs_key: false, ..with(KEY_LOST, SHORT) } },
];

#[rustfmt::skip]
pub(crate) const BROKEN: &[Broken] = &[
    Broken { title: "a node takes whatever epoch it is told", breaks: Promise::EpochsAreUnique, is_long: false,
             setup: Setup { flaw: Some(Flaw::AcceptsAnything), ticks_max: Some(0), ..with(KEY_LOST, CALM) } },
    Broken { title: "the epoch is not written back", breaks: Promise::EpochsAreUnique, is_long: false,
             setup: Setup { flaw: Some(Flaw::NoWriteBack), ..SHORT } },
    Broken { title: "a minority accepts", breaks: Promise::EpochsAreUnique, is_long: false,
             setup: Setup { flaw: Some(Flaw::MinorityAccepts), ..SHORT } },
    Broken { title: "nobody looks at the time again", breaks: Promise::EpochsRise, is_long: false,
             setup: Setup { flaw: Some(Flaw::NoLookAtTheTime), ..SHORT } },
    Broken { title: "validity from the answer", breaks: Promise::OneHolder, is_long: false,
             setup: Setup { flaw: Some(Flaw::ValidityFromTheAnswer), ..SHORT } },
    Broken { title: "a minority extends", breaks: Promise::OneHolder, is_long: true,
             setup: Setup { flaw: Some(Flaw::MinorityExtends), extends: 1, ttl: 2, ticks_max: Some(2), ..CALM } },
    Broken { title: "released only where granted", breaks: Promise::NothingIsLeft, is_long: false,
             setup: Setup { flaw: Some(Flaw::ReleasesOnlyWhereGranted), cancels: true, ..SHORT } },
    Broken { title: "a release sent anew takes any key", breaks: Promise::OneHolder, is_long: true,
             setup: Setup { flaw: Some(Flaw::OwedReleaseTakesAnything), attempts: [2, 1, 0], cancels: true, ticks_max: Some(0), ..with(CUT, CALM) } },
    Broken { title: "a key from before a release counts", breaks: Promise::EpochsAreUnique, is_long: false,
             setup: Setup { flaw: Some(Flaw::OldKeyCounts), ticks_max: None, ..ALONE } },
    Broken { title: "a lease is kept by keys alone, a key lost", breaks: Promise::LaterIsLarger, is_long: false,
             setup: Setup { flaw: Some(Flaw::KeepsByKeysAlone), ..with(KEY_LOST, AGAIN) } },
    Broken { title: "a lease is kept by keys alone", breaks: Promise::EpochsRise, is_long: true,
             setup: Setup { flaw: Some(Flaw::KeepsByKeysAlone), ttl: 2, ticks_max: Some(2), ..AGAIN } },
    Broken { title: "an extension takes past the counter", breaks: Promise::LossIsTold, is_long: false,
             setup: Setup { flaw: Some(Flaw::TakesPastTheCounter), ..with(KEY_LOST, HELD) } },
    Broken { title: "a taken key is not for the release sent anew", breaks: Promise::NothingIsLeft, is_long: false,
             setup: Setup { flaw: Some(Flaw::TakenKeyEscapesTheRelease), ..with(CUT, HELD) } },
    Broken { title: "a key is taken after the release", breaks: Promise::NothingIsLeft, is_long: false,
             setup: Setup { flaw: Some(Flaw::TakesAfterTheRelease), ..with(CUT, HELD) } },
    Broken { title: "a taken key votes at once", breaks: Promise::LossIsTold, is_long: false,
             setup: Setup { flaw: Some(Flaw::TakenKeyVotesAtOnce), extends: 1, faults: 2, ..HELD_FLUSHED } },
    Broken { title: "a taken key votes unconfirmed", breaks: Promise::LossIsTold, is_long: false,
             setup: Setup { flaw: Some(Flaw::TakenKeyVotesUnconfirmed), faults: 2, ..HELD_FLUSHED } },
    Broken { title: "a loss is forgotten", breaks: Promise::LossIsTold, is_long: false,
             setup: Setup { flaw: Some(Flaw::ForgetsTheLoss), faults: 2, ..HELD_FLUSHED } },
    Broken { title: "keys taken in vain are released once", breaks: Promise::NothingIsLeft, is_long: false,
             setup: Setup { flaw: Some(Flaw::ReleasesTakenKeysOnce), ..HELD_LOST } },
    Broken { title: "a key is taken on a young node", breaks: Promise::LossIsTold, is_long: true,
             setup: Setup { flaw: Some(Flaw::TakesOnAYoungNode), ..HELD_DELAYED } },
    Broken { title: "a counter that is gone passes nothing that was seen", breaks: Promise::EpochsAreUnique, is_long: true,
             setup: Setup { flaw: Some(Flaw::NothingIsSeen), ..HELD_LATE } },
    Broken { title: "a taken counter is not lifted", breaks: Promise::EpochsAreUnique, is_long: true,
             setup: Setup { flaw: Some(Flaw::TakingDoesNotLift), ..HELD_LATE } },
    Broken { title: "a lease is kept by a minority", breaks: Promise::LaterIsLarger, is_long: true,
             setup: Setup { flaw: Some(Flaw::MinorityKeeps), ..with(KEY_LOST, AGAIN) } },
];

/// The limits of the fence, which it does not claim to exceed.
#[rustfmt::skip]
pub(crate) const LIMITS: &[Broken] = &[
    Broken { title: "two nodes are flushed during one extension", breaks: Promise::LossIsTold, is_long: true,
             setup: Setup { faults: 2, ..HELD_FLUSHED } },
    Broken { title: "an extension takes a key where the counter is gone and the clock is behind", breaks: Promise::LaterIsLarger, is_long: true,
             setup: Setup { takers_clock_is_behind: true, ..HELD_LATE } },
    Broken { title: "a late request for the key counts as a vote, a key lost", breaks: Promise::LossIsTold, is_long: false,
             setup: Setup { extends: 1, ticks_max: Some(0), ..with(KEY_LOST, CALM) } },
    Broken { title: "a node restarts empty, and counts from one", breaks: Promise::LaterIsLarger, is_long: true,
             setup: Setup { ticks_max: Some(1), ..with(RESTART_EMPTY, CALM) } },
    Broken { title: "a node restarts empty, and its clock is behind a lost one's", breaks: Promise::LaterIsLarger, is_long: true,
             setup: Setup { first_is_ahead: 2, ..TIMED } },
];
