//! A sale trial: many real processes buy from one stock at once.
//!
//! Every process is started and ready before the first is asked to buy. The lab stamps each request before it is
//! written and each answer after it was read, and reads the final stock itself.

use std::collections::VecDeque;
use std::fs::File;
use std::process::Command;
use std::time::{Duration, Instant};

use fencepost::random::{Random, SeededRandom};
use fencepost_rig::{Interrupt, Silence};

use crate::facts::{Attempt, Facts};
use crate::ground::{Ground, Place, Swept};
use crate::history::{self, Event, Header, History, Recorder, What};
use crate::protocol::{Request, Resource, Retry};
use crate::start::StartingLine;
use crate::stock::Stock;
use crate::strategy::{self, Strategy};
use crate::subjects::{LOOK_UP, PATIENCE, Subjects};

pub use crate::stopped::Stopped;

mod crowd;

use crowd::Crowd;

/// What histories call it.
pub const SCENARIO: &str = "oversell";
/// What is sold; also the name of the lock that protects it.
pub const PRODUCT: &str = "product_A";

/// What to try.
#[derive(Debug, Clone)]
pub struct Sale {
    /// The strategy on trial.
    pub strategy: &'static Strategy,
    /// Units at the start.
    pub stock: u32,
    /// Processes, each with one attempt.
    pub concurrency: usize,
    /// Work between reading and writing the stock.
    pub delay_us: u64,
    /// How long an attempt waits for the lock; 0 is one attempt.
    pub wait_ms: u64,
    /// Where it takes place.
    pub place: Place,
    /// The random seed: it decides in which order the processes are asked.
    pub seed: u64,
    /// How attempts go on when the lock is taken, instead of waiting.
    pub retry: Option<Retry>,
    /// How long a lock may be held without being renewed; if not told, far longer than the work.
    pub lease_ms: Option<u64>,
}

impl Sale {
    /// Units at the start, unless told otherwise.
    pub const STOCK: u32 = 1;
    /// Processes, unless told otherwise.
    pub const CONCURRENCY: usize = 50;
    /// Work between reading and writing the stock, unless told otherwise.
    pub const DELAY_US: u64 = 5_000;

    /// The race as it is run when nothing else is asked for.
    pub fn new(strategy: &'static Strategy, seed: u64) -> Self {
        let (stock, concurrency, delay_us) = (Self::STOCK, Self::CONCURRENCY, Self::DELAY_US);
        Self {
            strategy,
            stock,
            concurrency,
            delay_us,
            wait_ms: 0,
            place: Place::default(),
            seed,
            retry: None,
            lease_ms: None,
        }
    }

    /// What a history says was tried; `None` when it was no sale, or its strategy is not one of ours.
    pub fn of(header: &Header) -> Option<Self> {
        let strategy = strategy::find(&header.strategy)?;
        (header.scenario == SCENARIO).then_some(Self {
            strategy,
            stock: u32::try_from(header.stock).ok()?,
            concurrency: header.concurrency,
            delay_us: header.delay_us,
            wait_ms: header.wait_ms,
            place: Place::named(&header.store),
            seed: header.seed,
            retry: None,
            lease_ms: None,
        })
    }

    /// Far longer than the work, unless told otherwise: what happens beyond the lease is not the question of this trial.
    fn ttl_ms(&self) -> u64 {
        self.lease_ms.unwrap_or(10_000 + 2 * self.delay_us / 1_000)
    }

    /// How long an attempt may take by what it is told.
    fn told(&self) -> Duration {
        let patience_ms = self.retry.map_or(self.wait_ms, |retry| retry.budget_ms);
        Duration::from_millis(patience_ms) + Duration::from_micros(self.delay_us)
    }

    /// What a history of this sale starts with.
    pub fn header(&self) -> Header {
        Header {
            schema: history::SCHEMA.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            recorded: history::now(),
            scenario: SCENARIO.into(),
            strategy: self.strategy.name.into(),
            claim: self.strategy.claim,
            store: self.place.name().into(),
            seed: self.seed,
            stock: self.stock.into(),
            concurrency: self.concurrency,
            delay_us: self.delay_us,
            wait_ms: self.wait_ms,
            ttl_ms: self.ttl_ms(),
            holds: None,
        }
    }

    /// The order in which the processes are asked: the lab's one choice.
    fn start_order(&self) -> Vec<usize> {
        let random = SeededRandom::new(self.seed);
        let mut order: Vec<usize> = (0..self.concurrency).collect();
        for last in (1..order.len()).rev() {
            let chosen = random.next_u64() % (last as u64 + 1);
            order.swap(last, chosen as usize);
        }
        order
    }
}

/// Somebody who looks on.
pub trait Watch {
    /// How long all processes may say nothing while they start, or longer than they were told to work and wait.
    fn patience(&self) -> Duration {
        PATIENCE
    }

    /// So many of the processes are ready.
    fn starting(&mut self, ready: usize, of: usize) {
        let _ = (ready, of);
    }

    /// This was written down. The race does not wait for whoever looks on: be quick.
    fn recorded(&mut self, event: &Event) {
        let _ = event;
    }

    /// An answer came; `sold` counts the units of acknowledged orders, this one included.
    fn answered(&mut self, attempt: &Attempt, sold: i64) {
        let _ = (attempt, sold);
    }

    /// Called now and then while answers are awaited.
    fn waiting(&mut self, answered: usize, of: usize) {
        let _ = (answered, of);
    }
}

/// Looks away.
impl Watch for () {}

/// Runs a sale.
///
/// `subject` makes the command of each process; `file` receives the history as it happens.
///
/// Call it from a thread that outlives the run (see [`fencepost_rig::Child::spawn`]). Whatever the outcome, no process and no
/// temporary file is left when it returns.
///
/// # Errors
/// [`Stopped`] says why there is nothing to judge.
pub fn run(
    sale: &Sale,
    subject: &dyn Fn() -> Command,
    file: Option<File>,
    watch: &mut dyn Watch,
    interrupt: Interrupt,
) -> Result<History, Stopped> {
    let recorder = Recorder::start(sale.header(), file);
    let mut recorder = recorder.map_err(|error| Stopped::History {
        error,
        progress: progress(0, sale.concurrency),
        events: 0,
    })?;
    record(sale, &mut recorder, subject, watch, interrupt)?;
    Ok(recorder.finish())
}

/// Runs a sale and adds it to what was recorded before. The clock starts with the first race.
pub(crate) fn record(
    sale: &Sale,
    recorder: &mut Recorder,
    subject: &dyn Fn() -> Command,
    watch: &mut dyn Watch,
    interrupt: Interrupt,
) -> Result<(), Stopped> {
    let site = Swept::prepare(&sale.place)?;
    let stock = site.ground.stock()?;
    let line = StartingLine::draw(site.folder.path());
    let line = line.map_err(|error| Stopped::Store(format!("no line to start at: {error}")))?;
    let mut lab = Lab {
        sale,
        line,
        stock,
        recorder,
        facts: Facts::default(),
        asked: VecDeque::new(),
        patience: watch.patience(),
        watch,
        interrupt,
    };
    let mut crowd = lab.gather(&site.ground, subject)?;
    let raced = lab.race(&mut crowd);
    raced.map_err(|stopped| stopped.after(lab.recorder.len()))?;
    crowd.say_goodbye();
    Ok(())
}

struct Lab<'a> {
    sale: &'a Sale,
    line: StartingLine,
    stock: Box<dyn Stock>,
    recorder: &'a mut Recorder,
    facts: Facts,
    asked: VecDeque<(Instant, usize)>,
    patience: Duration,
    watch: &'a mut dyn Watch,
    interrupt: Interrupt,
}

impl Lab<'_> {
    /// Starts every process and waits until all are ready.
    fn gather(&mut self, ground: &Ground, subject: &dyn Fn() -> Command) -> Result<Crowd, Stopped> {
        let init = |id: &str| Request::Init {
            id: id.into(),
            keys: vec![PRODUCT.into()],
            ttl_ms: self.sale.ttl_ms(),
            endpoints: ground.endpoints(),
            resource: Resource::Stock,
            start: Some(self.line.path()),
        };
        let watch = &mut *self.watch;
        let mut starting = |ready, of| watch.starting(ready, of);
        let names = (0..self.sale.concurrency).map(name).collect();
        let (patience, interrupt) = (self.patience, self.interrupt);
        let subjects = Subjects::gather(names, subject, &init, patience, interrupt, &mut starting)?;
        Ok(Crowd::of(subjects))
    }

    /// Asks everybody at once, and listens until everybody has answered or is given up.
    fn race(&mut self, crowd: &mut Crowd) -> Result<(), Stopped> {
        let initial = i64::from(self.sale.stock);
        self.stock.write(PRODUCT, initial)?;
        if self.recorder.is_empty() {
            self.recorder.restart_clock();
        }
        if let Some(retry) = self.sale.retry {
            self.record(Instant::now(), None, What::Round { retry })?;
        }
        self.record(Instant::now(), None, What::StockSet { units: initial })?;
        for index in self.sale.start_order() {
            let request = Request::Purchase {
                op: operation(index),
                product: PRODUCT.into(),
                quantity: 1,
                wait_ms: self.sale.wait_ms,
                delay_us: self.sale.delay_us,
                retry: self.sale.retry.map(|retry| retry.of_process(index)),
            };
            // Stamped before it is sent, written down later: the race must not wait for a file.
            self.asked.push_back((Instant::now(), index));
            crowd.subjects.send(index, &request);
        }
        let started = self.line.go();
        started.map_err(|error| Stopped::Store(format!("the line does not open: {error}")))?;
        self.listen(crowd)?;
        let units = self.stock.read(PRODUCT)?;
        self.record(Instant::now(), None, What::StockRead { units })
    }

    fn listen(&mut self, crowd: &mut Crowd) -> Result<(), Stopped> {
        let total = self.sale.concurrency;
        let told = self.sale.told();
        let mut heard_at = Instant::now();
        while crowd.answered() < total {
            if self.interrupt.requested().is_some() {
                self.write_down_asked(Instant::now())?;
            }
            self.check_interrupt(total - crowd.answered())?;
            if heard_at.elapsed() >= told + self.patience {
                return self.give_up(&crowd.silent(), heard_at.elapsed());
            }
            match crowd.subjects.feed.next(LOOK_UP) {
                Ok(heard) => {
                    self.write_down_asked(heard.at)?;
                    if let Some(what) = crowd.answer(&heard) {
                        heard_at = heard.at;
                        self.record(heard.at, Some(heard.child), what)?;
                    }
                }
                Err(Silence::TimedOut) => {
                    self.write_down_asked(Instant::now())?;
                    self.watch.waiting(crowd.answered(), total);
                }
                Err(Silence::Ended) => return self.give_up(&crowd.silent(), heard_at.elapsed()),
            }
        }
        Ok(())
    }

    /// Whoever has not answered by now may still have bought.
    fn give_up(&mut self, silent: &[usize], after: Duration) -> Result<(), Stopped> {
        self.write_down_asked(Instant::now())?;
        for &index in silent {
            let message = format!("no answer for {} s", after.as_secs());
            let what = What::Failed {
                op: operation(index),
                definite: false,
                message,
            };
            self.record(Instant::now(), Some(index), what)?;
        }
        Ok(())
    }

    /// Records the requests made until then, so that the history is in the order of its stamps.
    fn write_down_asked(&mut self, until: Instant) -> Result<(), Stopped> {
        while let Some((at, index)) = self.asked.pop_front_if(|(at, _)| *at <= until) {
            let what = What::Purchase {
                op: operation(index),
                quantity: 1,
            };
            self.record(at, Some(index), what)?;
        }
        Ok(())
    }

    fn record(&mut self, at: Instant, who: Option<usize>, what: What) -> Result<(), Stopped> {
        let events = self.recorder.len();
        let who = who.map(name);
        let progress = progress(self.facts.attempts.len(), self.sale.concurrency);
        let event = self.recorder.record(at, who.as_deref(), what);
        let event = event.map_err(|error| Stopped::History {
            error,
            progress,
            events,
        })?;
        self.watch.recorded(event);
        if self.facts.learn(event).is_some() {
            let sold = self.facts.sold().least;
            if let Some(attempt) = self.facts.attempts.last() {
                self.watch.answered(attempt, sold);
            }
        }
        Ok(())
    }

    fn check_interrupt(&self, stopped: usize) -> Result<(), Stopped> {
        match self.interrupt.requested() {
            None => Ok(()),
            Some(signal) => Err(Stopped::Interrupted {
                signal,
                progress: progress(self.facts.attempts.len(), self.sale.concurrency),
                stopped,
                events: self.recorder.len(),
            }),
        }
    }
}

fn progress(answered: usize, of: usize) -> String {
    format!("{answered} of {of} attempts were answered")
}

fn name(index: usize) -> String {
    format!("proc_{index}")
}

/// Each process makes one attempt, so its number will do for both.
fn operation(index: usize) -> u64 {
    index as u64 + 1
}
