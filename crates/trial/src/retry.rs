//! What waiting costs: the same sale in rounds, in each of which the buyers wait for the lock in another way.
//!
//! Every round has processes, a store and a stock of its own. A round is judged like any other sale; the figures beside
//! that ([`figures`]) compare the ways of waiting, and what is concluded from them ([`found`]) rests on this run alone.

use std::fs::File;
use std::process::Command;

use fencepost_rig::Interrupt;

use crate::facts::{Attempt, Facts};
use crate::ground::Place;
use crate::history::{Event, Header, History, Recorder, What};
use crate::protocol::{Pauses, Retry};
use crate::sale::{self, Sale, Stopped, Watch};
use crate::strategy::{self, Group, OF_SESSION, Strategy};
use crate::verdict::{self, Verdict};

pub(crate) mod buyer;
pub mod figures;
pub mod found;
pub mod json;
mod pauses;
pub mod terminal;
mod verdicts;

use figures::Figures;

/// What histories call it.
pub const SCENARIO: &str = "retry";

/// What to compare.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The lock that is waited for.
    pub strategy: &'static Strategy,
    /// Units at the start of each round.
    pub stock: u32,
    /// Processes in each round, each with one attempt.
    pub concurrency: usize,
    /// Work between reading and writing the stock.
    pub delay_us: u64,
    /// How often a process tries again.
    pub max_retries: u32,
    /// How long a lock may be held without being renewed.
    pub ttl_ms: u64,
    /// How long a process waits in all before it gives up.
    pub budget_ms: u64,
    /// Where it takes place.
    pub place: Place,
    /// The random seed: it decides the order in which processes are asked, and their jitter.
    pub seed: u64,
}

impl Comparison {
    /// Units at the start, unless told otherwise.
    pub const STOCK: u32 = 10;
    /// Processes, unless told otherwise.
    pub const CONCURRENCY: usize = 20;
    /// Retries, unless told otherwise.
    pub const MAX_RETRIES: u32 = 15;
    /// The lease, unless told otherwise.
    pub const TTL_MS: u64 = 2_000;
    /// The budget, unless told otherwise: longer than all retries of the slowest schedule take.
    pub const BUDGET_MS: u64 = 60_000;

    /// The comparison as it is made when nothing else is asked for.
    pub fn new(strategy: &'static Strategy, seed: u64) -> Self {
        Self {
            strategy,
            stock: Self::STOCK,
            concurrency: Self::CONCURRENCY,
            delay_us: Sale::DELAY_US,
            max_retries: Self::MAX_RETRIES,
            ttl_ms: Self::TTL_MS,
            budget_ms: Self::BUDGET_MS,
            place: Place::default(),
            seed,
        }
    }

    /// The ways of waiting that are compared. Only the library's locks and those of a database's sessions have a line to wait in.
    pub fn ways(&self) -> Vec<Pauses> {
        let strategy = self.strategy;
        let has_line = strategy.group == Group::Locks || strategy.claims == OF_SESSION;
        Pauses::ALL
            .into_iter()
            .filter(|pauses| *pauses != Pauses::Line || has_line)
            .collect()
    }

    /// What the committed table expects of each round: the same as of a race.
    pub fn expected(&self) -> Option<crate::verdict::Outcome> {
        crate::expectation::oversell(&Sale {
            stock: self.stock,
            concurrency: self.concurrency,
            ..Sale::new(self.strategy, self.seed)
        })
    }

    /// One round.
    fn sale(&self, pauses: Pauses) -> Sale {
        Sale {
            stock: self.stock,
            concurrency: self.concurrency,
            delay_us: self.delay_us,
            retry: Some(Retry {
                pauses,
                max_retries: self.max_retries,
                budget_ms: self.budget_ms,
                seed: self.seed,
            }),
            lease_ms: Some(self.ttl_ms),
            place: self.place.clone(),
            ..Sale::new(self.strategy, self.seed)
        }
    }

    /// What a history of this comparison starts with.
    pub fn header(&self) -> Header {
        Header {
            scenario: SCENARIO.into(),
            ..self.sale(Pauses::Line).header()
        }
    }

    /// What a history says was compared; `None` when it was no comparison, or its strategy is not one of ours.
    pub fn of(history: &History) -> Option<Self> {
        let header = &history.header;
        let strategy = strategy::find(&header.strategy)?;
        let first = history.events.iter().find_map(|event| match event.what {
            What::Round { retry } => Some(retry),
            _ => None,
        })?;
        (header.scenario == SCENARIO).then_some(Self {
            strategy,
            stock: u32::try_from(header.stock).ok()?,
            concurrency: header.concurrency,
            delay_us: header.delay_us,
            max_retries: first.max_retries,
            ttl_ms: header.ttl_ms,
            budget_ms: first.budget_ms,
            place: Place::named(&header.store),
            seed: header.seed,
        })
    }

    /// The command that makes this comparison again.
    pub fn reproduce(&self) -> String {
        let mut text = format!(
            "fencepost retry --lock={} --stock={} --concurrency={}",
            self.strategy.name, self.stock, self.concurrency
        );
        let numbers = [
            (
                "--max-retries",
                self.max_retries.into(),
                Self::MAX_RETRIES.into(),
            ),
            ("--ttl", self.ttl_ms, Self::TTL_MS),
            ("--delay", self.delay_us, Sale::DELAY_US),
            ("--budget", self.budget_ms, Self::BUDGET_MS),
        ];
        for (flag, value, _) in numbers.iter().filter(|(_, value, usual)| value != usual) {
            text.push_str(&format!(" {flag} {value}"));
        }
        if self.place != Place::Sqlite {
            text.push_str(&format!(" --store {}", self.place.typed()));
        }
        format!("{text} --seed {}", self.seed)
    }
}

/// Somebody who looks on.
pub trait Onlooker {
    /// A round begins.
    fn round(&mut self, pauses: Pauses) {
        let _ = pauses;
    }

    /// So many of its attempts are answered.
    fn answered(&mut self, answered: usize, of: usize) {
        let _ = (answered, of);
    }
}

/// Looks away.
impl Onlooker for () {}

/// Makes the comparison: one round after the other, in one history.
///
/// `subject` makes the command of each process; `file` receives the history as it happens.
///
/// Call it from a thread that outlives the run (see [`fencepost_rig::Child::spawn`]). Whatever the outcome, no process and no
/// temporary file is left when it returns.
///
/// # Errors
/// [`Stopped`] says why there is nothing to judge.
pub fn run(
    comparison: &Comparison,
    subject: &dyn Fn() -> Command,
    file: Option<File>,
    onlooker: &mut dyn Onlooker,
    interrupt: Interrupt,
) -> Result<History, Stopped> {
    let recorder = Recorder::start(comparison.header(), file);
    let mut recorder = recorder.map_err(|error| Stopped::History {
        error,
        progress: "no round had begun".into(),
        events: 0,
    })?;
    for pauses in comparison.ways() {
        onlooker.round(pauses);
        let mut counter = Counter {
            onlooker,
            answered: 0,
            of: comparison.concurrency,
        };
        let sale = comparison.sale(pauses);
        sale::record(&sale, &mut recorder, subject, &mut counter, interrupt)
            .map_err(|stopped| in_round(stopped, pauses, recorder.len()))?;
    }
    Ok(recorder.finish())
}

struct Counter<'a> {
    onlooker: &'a mut dyn Onlooker,
    answered: usize,
    of: usize,
}

impl Watch for Counter<'_> {
    fn starting(&mut self, _: usize, _: usize) {
        self.onlooker.answered(0, self.of);
    }

    fn answered(&mut self, _: &Attempt, _: i64) {
        self.answered += 1;
        self.onlooker.answered(self.answered, self.of);
    }

    fn waiting(&mut self, answered: usize, of: usize) {
        self.onlooker.answered(answered, of);
    }
}

/// The same, saying which round it was.
fn in_round(mut stopped: Stopped, pauses: Pauses, recorded: usize) -> Stopped {
    if let Stopped::Interrupted {
        progress, events, ..
    }
    | Stopped::History {
        progress, events, ..
    } = &mut stopped
    {
        *progress = format!("{}: {progress}", pauses.short());
        *events = recorded;
    }
    stopped
}

/// One way of waiting and what came of it.
#[derive(Debug, Clone)]
pub struct Round {
    /// The way.
    pub retry: Retry,
    /// When it began.
    pub started_ns: u64,
    /// What happened.
    pub facts: Facts,
    /// What it cost.
    pub figures: Figures,
    /// What was decided about this round alone.
    pub verdict: Verdict,
}

/// A comparison that was judged: what its reports are made of.
#[derive(Debug, Clone)]
pub struct Judged {
    /// What was compared.
    pub comparison: Comparison,
    /// What was set.
    pub header: Header,
    /// How many events it rests on.
    pub events: usize,
    /// Every way of waiting, in the order in which they were tried.
    pub rounds: Vec<Round>,
    /// What was decided about all of them.
    pub verdict: Verdict,
}

/// Judges a comparison: a pure function of its history. `None` when it is none.
pub fn judge(history: &History) -> Option<Judged> {
    let comparison = Comparison::of(history)?;
    let rounds: Vec<Round> = split(&history.events)
        .into_iter()
        .map(|(retry, events)| {
            let facts = Facts::of(events);
            let started_ns = events.first().map_or(0, |event| event.at_ns);
            Round {
                retry,
                started_ns,
                figures: Figures::of(&facts, started_ns),
                verdict: verdict::judge(&history.header, &facts),
                facts,
            }
        })
        .collect();
    let verdict = verdicts::combine(&comparison, &rounds);
    Some(Judged {
        comparison,
        header: history.header.clone(),
        events: history.events.len(),
        rounds,
        verdict,
    })
}

/// The verdict over a comparison, however little of it there is.
pub fn verdict(history: &History) -> Verdict {
    judge(history).map_or_else(verdicts::without_rounds, |judged| judged.verdict)
}

/// The events of each round, without the one that begins it.
pub(crate) fn split(events: &[Event]) -> Vec<(Retry, &[Event])> {
    let begins = |event: &Event| match event.what {
        What::Round { retry } => Some(retry),
        _ => None,
    };
    let mut rounds = Vec::new();
    for (index, event) in events.iter().enumerate() {
        if let Some(retry) = begins(event) {
            let rest = &events[index + 1..];
            let length = rest.iter().position(|event| begins(event).is_some());
            rounds.push((retry, &rest[..length.unwrap_or(rest.len())]));
        }
    }
    rounds
}

#[cfg(test)]
mod tests;
