//! The parts that the courtroom program plays as a subject.

use std::io;
use std::process::Command;

use fencepost_trial::protocol::Claims;
use fencepost_trial::strategy::{self, Origin, Strategy};
use fencepost_trial::subject;

use crate::flaw::Flaw;
use crate::player::{self, Manners};
use crate::{bad, good, stopped};

const PART: &str = "FENCEPOST_COURTROOM_PART";

/// The part of a process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Part {
    /// A lock of the library, as the program itself plays it.
    Library(&'static str),
    /// An external lock.
    External(ExternalLock),
}

/// An external lock: the flaw of the lock, the behaviour of its process, and its claims.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ExternalLock {
    pub(crate) name: &'static str,
    pub(crate) flaw: Option<Flaw>,
    pub(crate) manners: Manners,
    pub(crate) claims: Claims,
    /// Whether it renews its leases in the background.
    pub(crate) renews: bool,
    /// Whether waiters stand in line.
    pub(crate) has_line: bool,
}

pub(crate) const FENCED: Claims = Claims {
    fencing: true,
    ..Claims::PLAIN
};

pub(crate) const KEPT_ALIVE: Claims = Claims {
    keep_alive: true,
    ..Claims::PLAIN
};

pub(crate) const fn lock(name: &'static str, claims: Claims) -> ExternalLock {
    ExternalLock {
        name,
        flaw: None,
        manners: Manners::Good,
        claims,
        renews: false,
        has_line: false,
    }
}

pub(crate) const fn flawed(name: &'static str, flaw: Flaw, claims: Claims) -> ExternalLock {
    ExternalLock {
        flaw: Some(flaw),
        ..lock(name, claims)
    }
}

const fn rude(name: &'static str, manners: Manners) -> ExternalLock {
    ExternalLock {
        manners,
        ..lock(name, Claims::PLAIN)
    }
}

pub(crate) const HONEST: ExternalLock = lock("honest", Claims::PLAIN);
pub(crate) const HONEST_FENCED: ExternalLock = lock("honest-fenced", FENCED);
/// A right lock, whose resource checks fences on writes only.
pub(crate) const FENCED_WRITES: ExternalLock = lock(
    "fenced-writes-by-hand",
    Claims {
        fences_writes_only: true,
        ..FENCED
    },
);
pub(crate) const HONEST_RENEWED: ExternalLock = ExternalLock {
    renews: true,
    ..lock("honest-renewed", KEPT_ALIVE)
};
pub(crate) const HONEST_LINE: ExternalLock = ExternalLock {
    has_line: true,
    ..lock("honest-line", Claims::PLAIN)
};
pub(crate) const HONEST_FENCED_LINE: ExternalLock = ExternalLock {
    has_line: true,
    ..lock("honest-fenced-line", FENCED)
};
pub(crate) const HONEST_RENEWED_FENCED: ExternalLock = ExternalLock {
    renews: true,
    ..lock(
        "honest-renewed-fenced",
        Claims {
            keep_alive: true,
            ..FENCED
        },
    )
};
pub(crate) const LINE_KEEPS_DEAD: ExternalLock = ExternalLock {
    has_line: true,
    ..flawed("line-keeps-dead", Flaw::LineKeepsDead, Claims::PLAIN)
};
pub(crate) const LINE_KEEPS_GIVEN_UP: ExternalLock = ExternalLock {
    has_line: true,
    ..flawed("line-keeps-given-up", Flaw::LineKeepsGivenUp, Claims::PLAIN)
};
pub(crate) const LEASE_FROM_REQUEST: ExternalLock =
    flawed("lease-from-request", Flaw::LeaseFromRequest, Claims::PLAIN);
/// It knows when its lease is over, and counts it from the request.
pub(crate) const COUNTS_FROM_REQUEST: ExternalLock = ExternalLock {
    manners: Manners::StopsItself,
    ..flawed(
        "counts-from-request",
        Flaw::CountsFromRequest,
        Claims::PLAIN,
    )
};
pub(crate) const TIME_OUT_IS_GRANT: ExternalLock =
    flawed("time-out-is-grant", Flaw::TimeOutIsGrant, Claims::PLAIN);
pub(crate) const FENCE_RESTARTS: ExternalLock =
    flawed("fence-restarts", Flaw::FenceRestarts, FENCED);
pub(crate) const RELEASES_PREFIX: ExternalLock =
    flawed("releases-prefix", Flaw::ReleasesPrefix, Claims::PLAIN);
pub(crate) const CUTS_NAMES: ExternalLock = flawed("cuts-names", Flaw::CutsNames, Claims::PLAIN);
pub(crate) const RENEWS_LAST: ExternalLock = ExternalLock {
    renews: true,
    ..flawed("renews-last", Flaw::RenewsLast, KEPT_ALIVE)
};
pub(crate) const WALL_CLOCK: ExternalLock = flawed("wall-clock", Flaw::WallClock, Claims::PLAIN);
pub(crate) const RENEWS_BY_WALL_CLOCK: ExternalLock = ExternalLock {
    renews: true,
    ..flawed("renews-by-wall-clock", Flaw::RenewsByWallClock, KEPT_ALIVE)
};
pub(crate) const STOPS_ITSELF: ExternalLock = rude("stops-itself", Manners::StopsItself);
pub(crate) const STOPS_BY_STEADY_CLOCK: ExternalLock =
    rude("stops-by-steady-clock", Manners::StopsItselfBySteadyClock);
pub(crate) const STOPS_RENEWING: ExternalLock = ExternalLock {
    renews: true,
    ..flawed("stops-renewing", Flaw::StopsRenewing, KEPT_ALIVE)
};
pub(crate) const IGNORES_CASE: ExternalLock =
    flawed("ignores-case", Flaw::IgnoresCase, Claims::PLAIN);
pub(crate) const CUTS_LONG_NAMES: ExternalLock =
    flawed("cuts-long-names", Flaw::CutsLongNames, Claims::PLAIN);
pub(crate) const ONE_NAME: ExternalLock = flawed("one-name", Flaw::OneName, Claims::PLAIN);
pub(crate) const FENCE_WRAPS: ExternalLock = flawed("fence-wraps", Flaw::FenceWraps, FENCED);
pub(crate) const FENCE_BY_TEXT: ExternalLock = flawed("fence-by-text", Flaw::FenceByText, FENCED);
pub(crate) const WEARS_OUT: ExternalLock = flawed("wears-out", Flaw::WearsOut, FENCED);
pub(crate) const REUSES_NUMBERS: ExternalLock = rude("reuses-numbers", Manners::ReusesNumbers);
pub(crate) const NONE: ExternalLock = flawed("none", Flaw::NoLock, Claims::PLAIN);
pub(crate) const BLIND_DELETE: ExternalLock =
    flawed("blind-delete", Flaw::BlindDelete, Claims::PLAIN);
pub(crate) const NO_EXPIRY: ExternalLock = flawed("no-expiry", Flaw::NoExpiry, Claims::PLAIN);
pub(crate) const TWICE: ExternalLock =
    flawed("twice-after-expiry", Flaw::TwiceAfterExpiry, Claims::PLAIN);
pub(crate) const FORGETFUL: ExternalLock =
    flawed("forgets-to-release", Flaw::ForgetsToRelease, Claims::PLAIN);
pub(crate) const CONSTANT: ExternalLock = flawed("fence-constant", Flaw::FenceConstant, FENCED);
pub(crate) const REGRESSING: ExternalLock =
    flawed("fence-regressing", Flaw::FenceRegressing, FENCED);
pub(crate) const WORDS: ExternalLock = flawed("fence-of-words", Flaw::FenceOfWords, FENCED);
pub(crate) const NO_FENCE: ExternalLock = flawed("lies-about-fences", Flaw::NoFence, FENCED);
pub(crate) const NO_RENEWAL: ExternalLock = lock("lies-about-renewal", KEPT_ALIVE);
pub(crate) const SLOW_RECOVERY: ExternalLock = lock(
    "lies-about-recovery",
    Claims {
        recovery_ms: Some(10),
        ..Claims::PLAIN
    },
);
pub(crate) const FROM_REPLY: ExternalLock = flawed("from-reply", Flaw::FromReply, Claims::PLAIN);
pub(crate) const GET_THEN_DELETE: ExternalLock = flawed(
    "get-then-delete-by-hand",
    Flaw::GetThenDelete,
    Claims::PLAIN,
);
pub(crate) const BLIND_REGRET: ExternalLock =
    flawed("blind-regret", Flaw::BlindRegret, Claims::PLAIN);
pub(crate) const ERROR_IS_GRANT: ExternalLock =
    flawed("error-is-grant", Flaw::ErrorIsGrant, Claims::PLAIN);
/// A right lock with two requests under way at once.
pub(crate) const ANNOUNCES: ExternalLock =
    flawed("announces-release", Flaw::AnnouncesRelease, Claims::PLAIN);
pub(crate) const LATE: ExternalLock = rude("late", Manners::LateAndBlind);
pub(crate) const LATE_AND_AWARE: ExternalLock = rude("late-and-aware", Manners::LateAndAware);
pub(crate) const KNOWS_AND_WRITES: ExternalLock = rude("knows-and-writes", Manners::KnowsAndWrites);
pub(crate) const KNOWS_AND_WRITES_FIRST: ExternalLock =
    rude("knows-and-writes-first", Manners::KnowsAndWritesFirst);
pub(crate) const DIES_AT_STEP: ExternalLock = rude("dies-at-step", Manners::DiesAtStep);
pub(crate) const DIES_AT_WORK: ExternalLock = rude("dies-at-work", Manners::DiesAtWork);
pub(crate) const DIES_AT_INIT: ExternalLock = rude("dies-at-init", Manners::DiesAtInit);
pub(crate) const GARBAGE: ExternalLock = rude("garbage", Manners::Garbage);
pub(crate) const GARBAGE_AT_INIT: ExternalLock = rude("garbage-at-init", Manners::GarbageAtInit);
pub(crate) const CHATTY: ExternalLock = rude("chatty", Manners::Chatty);
pub(crate) const BUFFERED: ExternalLock = rude("buffered", Manners::Buffered);

/// Returns the part that the environment assigns to this process, if any. It is one of those that are tried.
pub(crate) fn of_this_process() -> Option<Part> {
    let name = std::env::var(PART).ok()?;
    let bad = bad::cases().map(|(part, ..)| part);
    let good = good::cases().into_iter().map(|(part, _)| part);
    let stopped = stopped::CASES.iter().map(|(part, _)| *part);
    let mut tried = bad.chain(good).chain(stopped);
    Some(tried.find(|part| part.name() == name).unwrap())
}

impl Part {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Library(name) => name,
            Self::External(lock) => lock.name,
        }
    }

    /// Plays the part: answers the lab until the input ends.
    pub(crate) fn play(self) {
        match self {
            Self::External(lock) => player::play(lock),
            Self::Library(name) => {
                let strategy = strategy::find(name).unwrap();
                subject::serve(strategy, io::stdin().lock(), io::stdout()).unwrap();
            }
        }
    }

    /// Returns a command that starts this program in this part.
    pub(crate) fn command(self) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(PART, self.name());
        command
    }

    /// Returns the strategy on trial. An external lock counts as a lock with no more than its claims.
    pub(crate) fn strategy(self) -> &'static Strategy {
        let safe = strategy::find("safe").unwrap();
        match self {
            Self::Library(name) => strategy::find(name).unwrap(),
            Self::External(lock) => Box::leak(Box::new(Strategy {
                name: lock.name,
                origin: Origin::External {
                    argument: lock.name,
                },
                summary: "somebody else's",
                gloss: "",
                flaw: None,
                claims: lock.claims,
                ..*safe
            })),
        }
    }
}
