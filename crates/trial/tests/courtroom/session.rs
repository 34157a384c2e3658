//! Runs one trial of one subject, from its start to the verdict.

use std::fs::File;
use std::rc::Rc;
use std::time::Duration;

use fencepost_rig::Interrupt;
use fencepost_trial::history::{Event, StormSettings};
use fencepost_trial::holds::{self, Scenario, Trial};
use fencepost_trial::processes::NoVerdict;
use fencepost_trial::sale::facts::Facts;
use fencepost_trial::sale::{self, Sale};
use fencepost_trial::store::TrialStore;
use fencepost_trial::verdict::{Outcome, Verdict};

use crate::part::Part;
use crate::servers::{Place, Servers};

/// Leases are short, but long compared with the delays of a busy machine.
pub(crate) const TTL_MS: u64 = 500;
/// How long a storm lasts.
const STORM_MS: u64 = 6_000;
/// Long enough for a process to start, and short enough to wait for one that never answers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// The trial that a subject undergoes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ordeal {
    /// Many processes buy at once.
    Oversell,
    /// A lock trial.
    Holds(Scenario),
    /// A lock trial with this TTL.
    Lasting(Scenario, u64),
    /// A lock trial on servers of this kind.
    At(Place, Scenario),
    /// The same, with this TTL.
    LastingAt(Place, Scenario, u64),
    /// A lock trial on servers of this kind, and the way to the servers leads through the lab.
    Through(Place, Scenario),
    /// So many short storms, until one convicts.
    Storms(u64),
}

impl Ordeal {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Oversell => "oversell".into(),
            Self::Storms(_) => Scenario::Storm.name().into(),
            Self::Holds(scenario) | Self::Lasting(scenario, _) => scenario.name().into(),
            Self::At(place, scenario) | Self::LastingAt(place, scenario, _) => {
                format!("{}::{}", scenario.name(), place.name())
            }
            Self::Through(place, scenario) => {
                format!("{}::through::{}", scenario.name(), place.name())
            }
        }
    }

    /// Returns where the trial is held; `None` for a file.
    pub(crate) fn place(self) -> Option<Place> {
        match self {
            Self::Oversell | Self::Storms(_) => None,
            Self::Holds(scenario) | Self::Lasting(scenario, _) => {
                scenario.needs_server().then_some(Place::Redis)
            }
            Self::At(place, _) | Self::LastingAt(place, ..) | Self::Through(place, _) => {
                Some(place)
            }
        }
    }

    /// Returns whether the servers for it are installed, and the machine has what else it needs.
    pub(crate) fn is_possible(self) -> bool {
        let is_able = self.scenario().is_none_or(|one| one.lacks().is_none());
        is_able && self.place().is_none_or(Place::is_installed)
    }

    /// Starts the servers, which run for as long as the result lives. A lab that makes servers fail starts them itself.
    pub(crate) fn start_servers(self) -> Option<Rc<Servers>> {
        let fails_servers = self.scenario().is_some_and(Scenario::fails_servers);
        self.place().filter(|_| !fails_servers).map(Place::open)
    }

    /// Returns the TTL of its leases.
    pub(crate) fn ttl_ms(self) -> u64 {
        match self {
            Self::Oversell | Self::Holds(_) | Self::Storms(_) => TTL_MS,
            Self::Lasting(_, ttl_ms) | Self::LastingAt(_, _, ttl_ms) => ttl_ms,
            Self::At(place, _) | Self::Through(place, _) => place.ttl_ms(),
        }
    }

    /// Tries the subject once in a lock trial, and writes the history to a file.
    pub(crate) fn record(self, part: Part, seed: u64, file: File) -> Result<(), NoVerdict> {
        let scenario = self.scenario().unwrap();
        let servers = self.start_servers();
        let store = self.store(scenario, servers.as_deref());
        let trial = trial(scenario, store, self.ttl_ms(), part, seed);
        let mut onlooker = Onlooker {
            is_impatient: false,
        };
        let subject = || part.command();
        let interrupt = Interrupt::never();
        holds::run(&trial, &subject, Some(file), &mut onlooker, interrupt).map(drop)
    }

    /// Returns the scenario of a lock trial.
    pub(crate) fn scenario(self) -> Option<Scenario> {
        match self {
            Self::Holds(scenario)
            | Self::Lasting(scenario, _)
            | Self::At(_, scenario)
            | Self::LastingAt(_, scenario, _)
            | Self::Through(_, scenario) => Some(scenario),
            Self::Storms(_) => Some(Scenario::Storm),
            Self::Oversell => None,
        }
    }

    /// Returns the store of a trial: a file, running servers, or private ones. To private ones, the way of an external lock leads through
    /// the lab.
    fn store(self, scenario: Scenario, servers: Option<&Servers>) -> TrialStore {
        let private = |place: Place| TrialStore::named(place.name()).unwrap();
        match (self, servers) {
            (Self::Through(place, _), Some(servers)) => private(place).at(servers.address.clone()),
            (_, Some(servers)) => TrialStore::named(&servers.address).unwrap(),
            (_, None) => self.place().map_or_else(|| scenario.store(), private),
        }
    }

    /// Tries the subject. `is_impatient` means that it is expected never to answer.
    pub(crate) fn try_subject(
        self,
        part: Part,
        seed: u64,
        is_impatient: bool,
    ) -> Result<Verdict, NoVerdict> {
        let servers = self.start_servers();
        let hold = |scenario| {
            let store = self.store(scenario, servers.as_deref());
            let trial = trial(scenario, store, self.ttl_ms(), part, seed);
            hold(&trial, part, is_impatient)
        };
        match self {
            Self::Oversell => oversell(part, seed, is_impatient),
            Self::Storms(times) => storms(part, seed, times),
            Self::Holds(scenario)
            | Self::Lasting(scenario, _)
            | Self::At(_, scenario)
            | Self::LastingAt(_, scenario, _)
            | Self::Through(_, scenario) => hold(scenario),
        }
    }
}

fn trial(scenario: Scenario, store: TrialStore, ttl_ms: u64, part: Part, seed: u64) -> Trial {
    Trial {
        store,
        ttl_ms,
        work_ms: ttl_ms + ttl_ms / 2,
        ..Trial::new(scenario, part.strategy(), seed)
    }
}

fn hold(trial: &Trial, part: Part, is_impatient: bool) -> Result<Verdict, NoVerdict> {
    let subject = || part.command();
    let history = holds::run(
        trial,
        &subject,
        None,
        &mut Onlooker { is_impatient },
        Interrupt::never(),
    )?;
    let facts = holds::facts::Facts::of(&history.events);
    let verdict = holds::verdict::judge(&history.header, &facts);
    assert_cites(&verdict, &history.events);
    Ok(verdict)
}

/// Makes sure that whatever a verdict cites is in the history: the event with this number, at this time, of this process.
fn assert_cites(verdict: &Verdict, events: &[Event]) {
    for cited in &verdict.evidence {
        let event = events.iter().find(|event| event.n == cited.event);
        let event = event.unwrap_or_else(|| panic!("no such event: {cited:#?}"));
        let who = event.who.as_deref().unwrap_or("lab");
        let is_same = event.at_ns == cited.at_ns && who == cited.who;
        assert!(is_same, "{cited:#?} is not {event:#?}");
    }
}

/// Returns the verdict of the first storm that convicts, or of the last.
fn storms(part: Part, seed: u64, times: u64) -> Result<Verdict, NoVerdict> {
    let mut last = storm(part, times * seed)?;
    for number in 1..times {
        if matches!(last.outcome, Outcome::Broken | Outcome::Stuck) {
            break;
        }
        last = storm(part, times * seed + number)?;
    }
    Ok(last)
}

fn storm(part: Part, seed: u64) -> Result<Verdict, NoVerdict> {
    let mut trial = Trial::new(Scenario::Storm, part.strategy(), seed);
    trial.ttl_ms = TTL_MS;
    trial.storm = trial.storm.map(|storm| StormSettings {
        for_ms: STORM_MS,
        ..storm
    });
    let subject = || part.command();
    let mut onlooker = Onlooker {
        is_impatient: false,
    };
    let history = holds::run(&trial, &subject, None, &mut onlooker, Interrupt::never())?;
    let judged = holds::Judged::of(&trial, history);
    assert_cites(&judged.verdict, &judged.events);
    Ok(judged.verdict)
}

fn oversell(part: Part, seed: u64, is_impatient: bool) -> Result<Verdict, NoVerdict> {
    let sale = Sale {
        stock: 3,
        concurrency: 6,
        delay_us: 20_000,
        wait_ms: 20_000,
        ..Sale::new(part.strategy(), seed)
    };
    let subject = || part.command();
    let mut onlooker = Onlooker { is_impatient };
    let history = sale::run(&sale, &subject, None, &mut onlooker, Interrupt::never())?;
    let facts = Facts::of(&history.events);
    let verdict = sale::verdict::judge(&history.header, &facts);
    assert_cites(&verdict, &history.events);
    Ok(verdict)
}

struct Onlooker {
    is_impatient: bool,
}

impl Onlooker {
    fn answer_timeout(&self) -> Duration {
        if self.is_impatient {
            ANSWER_TIMEOUT
        } else {
            20 * ANSWER_TIMEOUT
        }
    }
}

impl holds::LockWatch for Onlooker {
    fn answer_timeout(&self) -> Duration {
        self.answer_timeout()
    }
}

impl sale::SaleWatch for Onlooker {
    fn answer_timeout(&self) -> Duration {
        self.answer_timeout()
    }
}
