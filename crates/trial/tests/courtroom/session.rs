//! Runs one trial of one subject, from its start to the verdict.

use std::time::Duration;

use fencepost_rig::Interrupt;
use fencepost_trial::history::StormSettings;
use fencepost_trial::holds::{self, Scenario, Trial};
use fencepost_trial::processes::Stopped;
use fencepost_trial::sale::facts::Facts;
use fencepost_trial::sale::{self, Sale};
use fencepost_trial::verdict::{Outcome, Verdict};

use crate::part::Part;

/// Leases are short, but long compared with the delays of a busy machine.
const TTL_MS: u64 = 500;
/// How long a storm lasts.
const STORM_MS: u64 = 6_000;
/// Long enough for a process to start, and short enough to wait for one that never answers.
const PATIENCE: Duration = Duration::from_secs(3);

/// The trial that a subject undergoes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ordeal {
    /// Many processes buy at once.
    Oversell,
    /// A lock trial.
    Holds(Scenario),
    /// A lock trial with this TTL.
    Lasting(Scenario, u64),
    /// So many short storms, until one convicts.
    Storms(u64),
}

impl Ordeal {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Oversell => "oversell",
            Self::Holds(scenario) | Self::Lasting(scenario, _) => scenario.name(),
            Self::Storms(_) => Scenario::Storm.name(),
        }
    }

    /// Returns whether the lab starts Redis servers for this trial.
    pub(crate) fn needs_redis(self) -> bool {
        match self {
            Self::Oversell | Self::Storms(_) => false,
            Self::Holds(scenario) | Self::Lasting(scenario, _) => scenario.fails_servers(),
        }
    }

    /// Tries the subject. `is_impatient` means that it is expected never to answer.
    pub(crate) fn try_subject(
        self,
        part: Part,
        seed: u64,
        is_impatient: bool,
    ) -> Result<Verdict, Stopped> {
        match self {
            Self::Oversell => oversell(part, seed, is_impatient),
            Self::Storms(times) => storms(part, seed, times),
            Self::Holds(scenario) => hold(scenario, TTL_MS, part, seed, is_impatient),
            // A server may have copied the lock before it dies. As in the gauntlet, a run that shows nothing is repeated, at most twice.
            Self::Lasting(scenario, ttl_ms) => {
                let mut verdict = hold(scenario, ttl_ms, part, seed, is_impatient)?;
                for _ in 0..2 {
                    if verdict.outcome == Outcome::Inconclusive {
                        verdict = hold(scenario, ttl_ms, part, seed, is_impatient)?;
                    }
                }
                Ok(verdict)
            }
        }
    }
}

fn hold(
    scenario: Scenario,
    ttl_ms: u64,
    part: Part,
    seed: u64,
    is_impatient: bool,
) -> Result<Verdict, Stopped> {
    let trial = Trial {
        ttl_ms,
        work_ms: ttl_ms + ttl_ms / 2,
        ..Trial::new(scenario, part.strategy(), seed)
    };
    let subject = || part.command();
    let history = holds::run(
        &trial,
        &subject,
        None,
        &mut Onlooker { is_impatient },
        Interrupt::never(),
    )?;
    let facts = holds::facts::Facts::of(&history.events);
    Ok(holds::verdict::judge(&history.header, &facts))
}

/// Returns the verdict of the first storm that convicts, or of the last.
fn storms(part: Part, seed: u64, times: u64) -> Result<Verdict, Stopped> {
    let mut last = storm(part, times * seed)?;
    for number in 1..times {
        if matches!(last.outcome, Outcome::Broken | Outcome::Stuck) {
            break;
        }
        last = storm(part, times * seed + number)?;
    }
    Ok(last)
}

fn storm(part: Part, seed: u64) -> Result<Verdict, Stopped> {
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
    Ok(holds::Judged::of(&trial, history).verdict)
}

fn oversell(part: Part, seed: u64, is_impatient: bool) -> Result<Verdict, Stopped> {
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
    Ok(sale::verdict::judge(&history.header, &facts))
}

struct Onlooker {
    is_impatient: bool,
}

impl Onlooker {
    fn patience(&self) -> Duration {
        if self.is_impatient {
            PATIENCE
        } else {
            20 * PATIENCE
        }
    }
}

impl holds::LockWatch for Onlooker {
    fn patience(&self) -> Duration {
        self.patience()
    }
}

impl sale::SaleWatch for Onlooker {
    fn patience(&self) -> Duration {
        self.patience()
    }
}
