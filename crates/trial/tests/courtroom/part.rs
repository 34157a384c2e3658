//! The parts that the courtroom program plays as a subject.

use std::io;
use std::process::Command;

use fencepost_trial::protocol::Claims;
use fencepost_trial::strategy::{self, Strategy};
use fencepost_trial::subject;

use crate::latch::Flaw;
use crate::player::{self, Manners};

const PART: &str = "FENCEPOST_COURTROOM_PART";

/// The part of a process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Part {
    /// A lock of the library, as the program itself plays it.
    Library(&'static str),
    /// An external lock.
    Stranger(Stranger),
}

/// An external lock: the flaw of the lock, the behaviour of its process, and its claims.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stranger {
    pub(crate) name: &'static str,
    pub(crate) flaw: Option<Flaw>,
    pub(crate) manners: Manners,
    pub(crate) claims: Claims,
}

const FENCED: Claims = Claims {
    fencing: true,
    ..Claims::PLAIN
};

const fn stranger(name: &'static str, claims: Claims) -> Stranger {
    Stranger {
        name,
        flaw: None,
        manners: Manners::Good,
        claims,
    }
}

const fn flawed(name: &'static str, flaw: Flaw, claims: Claims) -> Stranger {
    Stranger {
        flaw: Some(flaw),
        ..stranger(name, claims)
    }
}

const fn rude(name: &'static str, manners: Manners) -> Stranger {
    Stranger {
        manners,
        ..stranger(name, Claims::PLAIN)
    }
}

pub(crate) const HONEST: Stranger = stranger("honest", Claims::PLAIN);
pub(crate) const HONEST_FENCED: Stranger = stranger("honest-fenced", FENCED);
pub(crate) const NONE: Stranger = flawed("none", Flaw::NoLock, Claims::PLAIN);
pub(crate) const BLIND_DELETE: Stranger = flawed("blind-delete", Flaw::BlindDelete, Claims::PLAIN);
pub(crate) const NO_EXPIRY: Stranger = flawed("no-expiry", Flaw::NoExpiry, Claims::PLAIN);
pub(crate) const TWICE: Stranger =
    flawed("twice-after-expiry", Flaw::TwiceAfterExpiry, Claims::PLAIN);
pub(crate) const FORGETFUL: Stranger =
    flawed("forgets-to-release", Flaw::ForgetsToRelease, Claims::PLAIN);
pub(crate) const CONSTANT: Stranger = flawed("fence-constant", Flaw::FenceConstant, FENCED);
pub(crate) const REGRESSING: Stranger = flawed("fence-regressing", Flaw::FenceRegressing, FENCED);
pub(crate) const WORDS: Stranger = flawed("fence-of-words", Flaw::FenceOfWords, FENCED);
pub(crate) const NO_FENCE: Stranger = flawed("lies-about-fences", Flaw::NoFence, FENCED);
pub(crate) const NO_RENEWAL: Stranger = stranger(
    "lies-about-renewal",
    Claims {
        keep_alive: true,
        ..Claims::PLAIN
    },
);
pub(crate) const SLOW_RECOVERY: Stranger = stranger(
    "lies-about-recovery",
    Claims {
        recovery_ms: Some(10),
        ..Claims::PLAIN
    },
);
pub(crate) const LATE: Stranger = rude("late", Manners::LateAndBlind);
pub(crate) const LATE_AND_AWARE: Stranger = rude("late-and-aware", Manners::LateAndAware);
pub(crate) const DIES_AT_STEP: Stranger = rude("dies-at-step", Manners::DiesAtStep);
pub(crate) const DIES_AT_WORK: Stranger = rude("dies-at-work", Manners::DiesAtWork);
pub(crate) const DIES_AT_INIT: Stranger = rude("dies-at-init", Manners::DiesAtInit);
pub(crate) const GARBAGE: Stranger = rude("garbage", Manners::Garbage);
pub(crate) const GARBAGE_AT_INIT: Stranger = rude("garbage-at-init", Manners::GarbageAtInit);
pub(crate) const CHATTY: Stranger = rude("chatty", Manners::Chatty);
pub(crate) const BUFFERED: Stranger = rude("buffered", Manners::Buffered);

const STRANGERS: [Stranger; 22] = [
    HONEST,
    HONEST_FENCED,
    NONE,
    BLIND_DELETE,
    NO_EXPIRY,
    TWICE,
    FORGETFUL,
    CONSTANT,
    REGRESSING,
    WORDS,
    NO_FENCE,
    NO_RENEWAL,
    SLOW_RECOVERY,
    LATE,
    LATE_AND_AWARE,
    DIES_AT_STEP,
    DIES_AT_WORK,
    DIES_AT_INIT,
    GARBAGE,
    GARBAGE_AT_INIT,
    CHATTY,
    BUFFERED,
];

/// Returns the part that the environment assigns to this process, if any.
pub(crate) fn of_this_process() -> Option<Part> {
    let name = std::env::var(PART).ok()?;
    let stranger = STRANGERS.iter().find(|stranger| stranger.name == name);
    let part = stranger.copied().map(Part::Stranger);
    Some(part.unwrap_or_else(|| Part::Library(strategy::find(&name).unwrap().name)))
}

impl Part {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Library(name) => name,
            Self::Stranger(stranger) => stranger.name,
        }
    }

    /// Plays the part: answers the lab until the input ends.
    pub(crate) fn play(self) {
        match self {
            Self::Stranger(stranger) => player::play(stranger),
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
            Self::Stranger(stranger) => Box::leak(Box::new(Strategy {
                name: stranger.name,
                summary: "somebody else's",
                gloss: "",
                flaw: None,
                claims: stranger.claims,
                ..*safe
            })),
        }
    }
}
