//! Runs the trials of the live page: short sales for a scratch product, with real processes of this program.

use std::slice;
use std::sync::atomic::AtomicBool;

use fencepost_checkout::live::{Lab, Offer, Progress};
use fencepost_rig::Interrupt;
use fencepost_trial::history::{Event, Header};
use fencepost_trial::processes::NoVerdict;
use fencepost_trial::report::html::{Page, PageRun};
use fencepost_trial::sale::{Sale, SaleWatch};
use fencepost_trial::strategy;
use fencepost_trial::verdict::{Outcome, Verdict};

use super::lock_strategy::LockStrategy;
use crate::contender::Contender;
use crate::oversell;
use crate::values::random_seed;

/// The strategies on offer, from no lock at all to a fenced one.
const LOCKS: [LockStrategy; 4] = [
    LockStrategy::None,
    LockStrategy::Naive,
    LockStrategy::Safe,
    LockStrategy::Fenced,
];
/// Chosen so that a sale is slow enough to watch, but short.
const STOCK: u32 = 3;
const BUYERS: usize = 8;
const WORK_US: u64 = 400_000;
/// Long enough for all buyers to have their turn, even on a busy machine.
const WAIT_MS: u64 = 20_000;

/// Ends the running trial. A static, because an [`Interrupt`] is copied to wherever the trial can stop.
static STOP: AtomicBool = AtomicBool::new(false);

/// Runs `oversell` in a temporary folder.
pub(super) struct SaleTrials;

impl Lab for SaleTrials {
    fn about(&self) -> String {
        format!(
            "{BUYERS} real processes, each with {} ms of work, buy from a stock of {STOCK}: a scratch product in a folder of its \
             own that is gone afterwards. Your products are not touched.",
            WORK_US / 1_000
        )
    }

    fn offers(&self) -> Vec<Offer> {
        let known = LOCKS.iter().filter_map(|lock| strategy::find(lock.name()));
        let offer = |strategy: &strategy::Strategy| Offer {
            lock: strategy.name.into(),
            about: strategy.summary.into(),
        };
        known.map(offer).collect()
    }

    fn stop_flag(&self) -> &AtomicBool {
        &STOP
    }

    fn run(&self, lock: &str, tell: &mut dyn FnMut(Progress)) -> Result<String, String> {
        let strategy = strategy::find(lock).ok_or("there is no such lock")?;
        let sale = Sale {
            stock: STOCK,
            concurrency: BUYERS,
            delay_us: WORK_US,
            wait_ms: WAIT_MS,
            ..Sale::new(strategy, random_seed())
        };
        let contender =
            Contender::ours(strategy).map_err(|no_verdict| public_reason(&no_verdict))?;
        let mut onlooker = Onlooker {
            header: sale.header(),
            so_far: Verdict::bare(Outcome::Inconclusive, "The trial goes on."),
            events: Vec::new(),
            tell,
        };
        let interrupt = Interrupt::when(&STOP);
        let judged = oversell::run_and_judge(&sale, &contender, None, &mut onlooker, interrupt);
        let judged = judged.map_err(|no_verdict| public_reason(&no_verdict))?;
        Ok(Page::of_sales(slice::from_ref(&judged)).data())
    }
}

/// Returns a short reason without paths and the output of processes, which are not meant for everybody who sees the page.
fn public_reason(no_verdict: &NoVerdict) -> String {
    match no_verdict {
        NoVerdict::Interrupted { .. } => "The trial was interrupted.",
        NoVerdict::Store(_) => "The trial could not create its scratch product.",
        NoVerdict::StoreLost { .. } => "The trial lost the store of its scratch product.",
        NoVerdict::Lab(_) => "The lab itself failed.",
        NoVerdict::Refused { .. } => "A process of the trial refused to get ready.",
        NoVerdict::TooManyFiles { .. } => "The system allows too few open files for a trial.",
        NoVerdict::NotStarted { .. } => "A process of the trial could not be started.",
        NoVerdict::NotReady { .. } => "A process of the trial did not get ready.",
        NoVerdict::NotRestarted { .. } => "A process of the trial could not be started again.",
        NoVerdict::History { .. } => "The history of the trial could not be written.",
    }
    .into()
}

/// Sends an updated page whenever there are new events.
struct Onlooker<'a> {
    header: Header,
    so_far: Verdict,
    events: Vec<Event>,
    tell: &'a mut dyn FnMut(Progress),
}

impl SaleWatch for Onlooker<'_> {
    fn starting(&mut self, ready: usize, of: usize) {
        (self.tell)(Progress::Ready(ready, of));
    }

    fn recorded(&mut self, event: &Event) {
        self.events.push(event.clone());
        let page = Page {
            title: "oversell".into(),
            command: String::new(),
            generated: self.header.recorded.clone(),
            seed: self.header.seed,
            verdict: None,
            runs: vec![PageRun::new(&self.header, &self.so_far, &self.events)],
            retry: None,
        };
        (self.tell)(Progress::Page(page.data()));
    }
}
