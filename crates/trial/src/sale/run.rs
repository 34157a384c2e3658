//! Runs a sale and records its history.
//!
//! All processes are started and ready before the first is asked to buy. The lab timestamps each request before writing it and
//! each answer after reading it, and reads the final stock itself.

use std::collections::VecDeque;
use std::fs::File;
use std::process::Command;
use std::time::{Duration, Instant};

use fencepost_rig::{Interrupt, Silence};

use super::facts::{Attempt, Facts};
use super::{PRODUCT, Sale};
use crate::history::{Event, History, Recorder, What};
use crate::processes::start::StartingLine;
use crate::processes::{ANSWER_TIMEOUT, LOOK_UP, NoVerdict, Pids, Processes, stall_ms};
use crate::protocol::{PROTOCOL, Request, Resource};
use crate::store::stock::Stock;
use crate::store::{Ground, TemporaryGround};

mod crowd;

use crowd::Crowd;

/// Observes a run, and sets its time limits. By default, it observes nothing and the limits are the usual ones.
pub trait SaleWatch {
    /// Returns how long the processes may be silent while they start, or beyond the time they were asked to work and wait.
    fn answer_timeout(&self) -> Duration {
        ANSWER_TIMEOUT
    }

    /// Called while processes start: `ready` of `of` are ready.
    fn starting(&mut self, ready: usize, of: usize) {
        let _ = (ready, of);
    }

    /// Called when an event was recorded. The sale waits for this call, so it must return quickly.
    fn recorded(&mut self, event: &Event) {
        let _ = event;
    }

    /// Called for each answer. `sold` is the number of units in acknowledged orders, including this one.
    fn answered(&mut self, attempt: &Attempt, sold: i64) {
        let _ = (attempt, sold);
    }

    /// Called regularly while the lab waits for answers.
    fn waiting(&mut self, answered: usize, of: usize) {
        let _ = (answered, of);
    }
}

/// Observes nothing.
impl SaleWatch for () {}

/// Runs a sale.
///
/// `subject` makes the command of each process; `file` receives the history as it happens.
///
/// Call this function from a thread that outlives the run (see [`fencepost_rig::Child::spawn`]). Whatever the outcome, no
/// process and no temporary file is left when it returns.
///
/// # Errors
/// Returns a [`NoVerdict`] that says why there is nothing to judge.
pub fn run(
    sale: &Sale,
    subject: &dyn Fn() -> Command,
    file: Option<File>,
    watch: &mut dyn SaleWatch,
    interrupt: Interrupt,
) -> Result<History, NoVerdict> {
    let recorder = Recorder::start(sale.header(), file);
    let mut recorder = recorder.map_err(|error| NoVerdict::History {
        error,
        progress: progress(0, sale.concurrency),
        events: 0,
    })?;
    record(sale, &mut recorder, subject, watch, interrupt)?;
    Ok(recorder.finish())
}

/// Runs a sale and appends it to what was recorded before. The clock starts with the first sale.
pub(crate) fn record(
    sale: &Sale,
    recorder: &mut Recorder,
    subject: &dyn Fn() -> Command,
    watch: &mut dyn SaleWatch,
    interrupt: Interrupt,
) -> Result<(), NoVerdict> {
    let temporary = TemporaryGround::prepare(&sale.store)?;
    let stock = temporary.ground.stock()?;
    let line = StartingLine::draw(temporary.folder.path());
    let line = line.map_err(|error| {
        NoVerdict::Lab(format!(
            "cannot create the file that starts all processes at once: {error}"
        ))
    })?;
    let mut lab = Lab {
        sale,
        line,
        stock,
        recorder,
        facts: Facts::default(),
        unwritten: VecDeque::new(),
        answer_timeout: watch.answer_timeout(),
        watch,
        interrupt,
    };
    let mut crowd = lab.gather(&temporary.ground, subject)?;
    let sold = lab.sell(&mut crowd);
    sold.map_err(|no_verdict| no_verdict.after(lab.recorder.len()))?;
    crowd.wait_for_exits();
    Ok(())
}

struct Lab<'a> {
    sale: &'a Sale,
    line: StartingLine,
    stock: Box<dyn Stock>,
    recorder: &'a mut Recorder,
    facts: Facts,
    /// Events of the lab that are not recorded yet: answers that were read earlier come before them.
    unwritten: VecDeque<(Instant, Option<usize>, What)>,
    answer_timeout: Duration,
    watch: &'a mut dyn SaleWatch,
    interrupt: Interrupt,
}

impl Lab<'_> {
    /// Starts all processes and waits until they are ready.
    fn gather(
        &mut self,
        ground: &Ground,
        subject: &dyn Fn() -> Command,
    ) -> Result<Crowd, NoVerdict> {
        let strategy = self.sale.strategy;
        let init = |id: &str| Request::Init {
            protocol: PROTOCOL,
            id: id.into(),
            incarnation: 1,
            keys: vec![PRODUCT.into()],
            ttl_ms: self.sale.ttl_ms(),
            endpoints: strategy.endpoints(ground),
            resource: Resource::Stock,
            start: Some(self.line.path()),
        };
        let watch = &mut *self.watch;
        let mut starting = |ready, of| watch.starting(ready, of);
        let names = (0..self.sale.concurrency).map(name).collect();
        let (answer_timeout, interrupt) = (self.answer_timeout, self.interrupt);
        let subject = &|_| subject();
        let gathered = Processes::gather(
            (names, Pids::ANY),
            subject,
            &init,
            answer_timeout,
            interrupt,
            &mut starting,
        );
        let subjects = if strategy.is_external() {
            gathered?
        } else {
            gathered.map_err(NoVerdict::of_our_lock)?
        };
        Ok(Crowd::of(subjects))
    }

    /// Asks all processes at once, and listens until every one has answered or is given up.
    fn sell(&mut self, crowd: &mut Crowd) -> Result<(), NoVerdict> {
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
            let what = What::Purchase {
                op: operation(index),
                quantity: 1,
            };
            // Timestamped before it is sent, but recorded later: the sale must not wait for a file.
            self.unwritten
                .push_back((Instant::now(), Some(index), what));
            crowd.subjects.send(index, &request);
        }
        let started = self.line.go();
        started.map_err(|error| {
            NoVerdict::Lab(format!(
                "cannot unlock the file that starts all processes: {error}"
            ))
        })?;
        self.listen(crowd)?;
        self.write_down(Instant::now())?;
        let units = self.stock.read(PRODUCT)?;
        self.record(Instant::now(), None, What::StockRead { units })?;
        match crowd.subjects.slept_ms() {
            Some(for_ms) => self.record(Instant::now(), None, What::Slept { for_ms }),
            None => Ok(()),
        }
    }

    fn listen(&mut self, crowd: &mut Crowd) -> Result<(), NoVerdict> {
        let total = self.sale.concurrency;
        let longest = self.sale.longest_attempt();
        let mut heard_at = Instant::now();
        let mut last_seen = heard_at;
        while crowd.answered() < total {
            self.notice_stall(&mut last_seen);
            if self.interrupt.requested().is_some() {
                self.write_down(Instant::now())?;
            }
            self.check_interrupt(total - crowd.answered())?;
            if heard_at.elapsed() >= longest + self.answer_timeout {
                return self.give_up(&crowd.silent(), heard_at.elapsed());
            }
            match crowd.subjects.next(LOOK_UP) {
                Ok(heard) => {
                    let (at, from) = (heard.at, heard.from);
                    self.write_down(at)?;
                    if let Some(what) = crowd.answer(heard) {
                        heard_at = at;
                        self.record(at, Some(from), what)?;
                    }
                }
                Err(Silence::TimedOut) => {
                    self.write_down(Instant::now())?;
                    self.watch.waiting(crowd.answered(), total);
                }
                Err(Silence::Ended) => return self.give_up(&crowd.silent(), heard_at.elapsed()),
            }
        }
        self.notice_stall(&mut last_seen);
        Ok(())
    }

    /// Notes that the lab itself stalled, if it did since it was here last. The processes may have stalled as well.
    fn notice_stall(&mut self, last_seen: &mut Instant) {
        let now = Instant::now();
        if let Some(for_ms) = stall_ms(now, last_seen) {
            let what = What::Stalled { for_ms };
            self.unwritten.push_back((now, None, what));
        }
    }

    /// Records that these processes did not answer in time. They may still have bought something.
    fn give_up(&mut self, silent: &[usize], after: Duration) -> Result<(), NoVerdict> {
        self.write_down(Instant::now())?;
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

    /// Records the lab's own events up to this time, so that the history is in the order of its timestamps.
    fn write_down(&mut self, until: Instant) -> Result<(), NoVerdict> {
        while let Some((at, who, what)) = self.unwritten.pop_front_if(|(at, ..)| *at <= until) {
            self.record(at, who, what)?;
        }
        Ok(())
    }

    fn record(&mut self, at: Instant, who: Option<usize>, what: What) -> Result<(), NoVerdict> {
        let events = self.recorder.len();
        let who = who.map(name);
        let progress = progress(self.facts.attempts.len(), self.sale.concurrency);
        let event = self.recorder.record(at, who.as_deref(), what);
        let event = event.map_err(|error| NoVerdict::History {
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

    fn check_interrupt(&self, stopped: usize) -> Result<(), NoVerdict> {
        match self.interrupt.requested() {
            None => Ok(()),
            Some(signal) => Err(NoVerdict::Interrupted {
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

/// Returns the number of an attempt. Each process makes one attempt, so its index also identifies the attempt.
fn operation(index: usize) -> u64 {
    index as u64 + 1
}
