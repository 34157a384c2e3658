//! Starts the trials of the live page: one at a time, with a time limit, and none outlives the service.
//!
//! A [`Lab`] from outside runs the trials; the service itself knows nothing about processes and verdicts.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;

use super::{LatestFrames, Topic};

/// How long a trial may take.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a trial may take to end after it is told to stop.
const EXIT_GRACE: Duration = Duration::from_secs(10);

/// Runs trials of locks with real processes.
pub trait Lab: Send + Sync {
    /// Describes a trial in a sentence or two.
    fn about(&self) -> String;

    /// Returns the locks on offer.
    fn offers(&self) -> Vec<Offer>;

    /// Returns the flag that ends the running trial soon after it is set. It is cleared before each trial.
    fn stop_flag(&self) -> &AtomicBool;

    /// Runs a trial on this thread, which must outlive it, and returns its page: data for the viewer, as one line of JSON. Whatever the
    /// outcome, it leaves no process and no file behind.
    ///
    /// # Errors
    /// Returns a sentence that says why there is no verdict.
    fn run(&self, lock: &str, tell: &mut dyn FnMut(Progress)) -> Result<String, String>;
}

/// A lock that can be put on trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Offer {
    /// The name of the lock.
    pub lock: String,
    /// A description in one sentence.
    pub about: String,
}

/// The progress of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// How many of the processes are ready.
    Ready(usize, usize),
    /// The page of the events so far, without a verdict.
    Page(String),
}

/// Why a trial was not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotStarted {
    /// This service has no lab.
    NoLab,
    /// The lock is not on offer.
    Unknown,
    /// Another trial is running.
    Busy,
    /// The service is being stopped.
    Closing,
    /// The system could not start a thread.
    System,
}

/// The state of the trials, as the page shows it.
#[derive(Debug, Default, Serialize)]
struct TrialState {
    /// The number of the trial; 0 before the first.
    id: u64,
    phase: Phase,
    lock: String,
    ready: usize,
    of: usize,
    /// Why there is no verdict.
    words: Option<String>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    #[default]
    Idle,
    Starting,
    Running,
    Ended,
    Stopped,
    Failed,
}

impl Phase {
    fn is_under_way(self) -> bool {
        matches!(self, Self::Starting | Self::Running)
    }
}

#[derive(Debug, Default)]
struct State {
    trial: TrialState,
    page: Option<String>,
    /// Why the trial was told to stop.
    stopped: Option<&'static str>,
    is_closed: bool,
}

/// The trials of a service, a shared handle. Cheap to clone.
#[derive(Clone)]
pub struct Trials(Arc<Inner>);

struct Inner {
    lab: OnceLock<Arc<dyn Lab>>,
    state: Mutex<State>,
    latest_frames: LatestFrames,
    /// The number of the running trial; 0 if none is running.
    under_way: watch::Sender<u64>,
}

impl Trials {
    pub(super) fn new(latest_frames: LatestFrames) -> Self {
        let trials = Self(Arc::new(Inner {
            lab: OnceLock::new(),
            state: Mutex::default(),
            latest_frames,
            under_way: watch::Sender::new(0),
        }));
        trials.show(&trials.state());
        trials
    }

    /// Sets the lab that runs trials. Only the first call has an effect.
    pub fn set_lab(&self, lab: Arc<dyn Lab>) {
        let _ = self.0.lab.set(lab);
        self.show(&self.state());
    }

    /// Starts a trial of this lock and returns its number.
    ///
    /// # Errors
    /// Returns [`NotStarted`] if the trial cannot be started.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime, which keeps the time limit of the trial.
    pub fn start(&self, lock: &str) -> Result<u64, NotStarted> {
        let lab = Arc::clone(self.0.lab.get().ok_or(NotStarted::NoLab)?);
        if !lab.offers().iter().any(|offer| offer.lock == lock) {
            return Err(NotStarted::Unknown);
        }
        let mut state = self.state();
        if state.is_closed {
            return Err(NotStarted::Closing);
        }
        if *self.0.under_way.borrow() != 0 {
            return Err(NotStarted::Busy);
        }
        let id = state.trial.id + 1;
        // No trial is running, so this does not clear a request to stop another one.
        lab.stop_flag().store(false, Ordering::Relaxed);
        let (trials, name) = (self.clone(), lock.to_owned());
        let thread = thread::Builder::new().name("trial".into());
        let spawned = thread.spawn(move || trials.run(&*lab, &name));
        if spawned.is_err() {
            return Err(NotStarted::System);
        }
        state.trial = TrialState {
            id,
            phase: Phase::Starting,
            lock: lock.to_owned(),
            ..TrialState::default()
        };
        (state.page, state.stopped) = (None, None);
        self.0.under_way.send_replace(id);
        self.show(&state);
        drop(state);
        self.limit(id);
        Ok(id)
    }

    fn limit(&self, id: u64) {
        let trials = self.clone();
        tokio::spawn(async move {
            if !trials.ended(id, TRIAL_TIMEOUT).await {
                trials.end("its time was over");
            }
        });
    }

    /// Waits until this trial has ended. Returns `false` if it did not end in time.
    async fn ended(&self, id: u64, within: Duration) -> bool {
        let mut under_way = self.0.under_way.subscribe();
        let ended = under_way.wait_for(|running| *running != id);
        tokio::time::timeout(within, ended).await.is_ok()
    }

    /// Stops the running trial, if any.
    pub fn stop(&self) {
        self.end("it was stopped");
    }

    fn end(&self, why: &'static str) {
        let mut state = self.state();
        if *self.0.under_way.borrow() != 0 {
            state.stopped.get_or_insert(why);
            if let Some(lab) = self.0.lab.get() {
                lab.stop_flag().store(true, Ordering::Relaxed);
            }
        }
    }

    /// Stops the running trial, accepts no more, and waits until it has ended.
    ///
    /// # Cancel safety
    /// If the future is dropped, the trial still ends.
    pub async fn close(&self) {
        self.state().is_closed = true;
        self.end("the service was stopped");
        let id = *self.0.under_way.borrow();
        if id != 0 && !self.ended(id, EXIT_GRACE).await {
            tracing::error!("a trial does not end");
        }
    }

    /// Runs a trial on its own thread.
    fn run(&self, lab: &dyn Lab, lock: &str) {
        let mut tell = |progress| self.update(progress);
        let run = AssertUnwindSafe(|| lab.run(lock, &mut tell));
        let ended = catch_unwind(run);
        let ended = ended.unwrap_or_else(|_| Err("the lab failed".into()));
        let mut state = self.state();
        match (ended, state.stopped) {
            (Ok(page), _) => {
                state.trial.phase = Phase::Ended;
                state.page = Some(page);
            }
            (Err(_), Some(why)) => {
                state.trial.phase = Phase::Stopped;
                state.trial.words = Some(format!("No verdict: {why}."));
            }
            (Err(words), None) => {
                tracing::warn!(%words, "a trial ended without a verdict");
                state.trial.phase = Phase::Failed;
                state.trial.words = Some(words);
            }
        }
        self.show(&state);
        self.0.under_way.send_replace(0);
    }

    fn update(&self, progress: Progress) {
        let mut state = self.state();
        if !state.trial.phase.is_under_way() {
            return;
        }
        match progress {
            Progress::Ready(ready, of) => (state.trial.ready, state.trial.of) = (ready, of),
            Progress::Page(page) => {
                state.trial.phase = Phase::Running;
                state.page = Some(page);
            }
        }
        self.show(&state);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, state: &State) {
        let lab = self.0.lab.get();
        let (about, offers) = (lab.map(|lab| lab.about()), lab.map(|lab| lab.offers()));
        let json =
            |value: Result<String, serde_json::Error>| value.unwrap_or_else(|_| "null".into());
        let trial = json(serde_json::to_string(&state.trial));
        let offers = json(serde_json::to_string(&offers.unwrap_or_default()));
        let about = json(serde_json::to_string(&about.unwrap_or_default()));
        let page = state.page.as_deref().unwrap_or("null");
        let frame =
            format!("{{\"trial\":{trial},\"about\":{about},\"offers\":{offers},\"page\":{page}}}");
        self.0.latest_frames.put(Topic::Trial, frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::{Live, SeenFrames};

    /// A lab for tests: a trial runs until it is told to stop; `quick` ends at once, `bad` panics.
    #[derive(Default)]
    struct Slow {
        stop: AtomicBool,
    }

    impl Lab for Slow {
        fn about(&self) -> String {
            String::new()
        }

        fn offers(&self) -> Vec<Offer> {
            let offer = |lock: &str| Offer {
                lock: lock.into(),
                about: String::new(),
            };
            ["quick", "slow", "bad"].map(offer).into()
        }

        fn stop_flag(&self) -> &AtomicBool {
            &self.stop
        }

        fn run(&self, lock: &str, tell: &mut dyn FnMut(Progress)) -> Result<String, String> {
            assert_ne!(lock, "bad");
            tell(Progress::Ready(1, 1));
            tell(Progress::Page("{\"so\":\"far\"}".into()));
            if lock == "quick" {
                return Ok("{\"all\":1}".into());
            }
            while !self.stop.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
            Err("interrupted".into())
        }
    }

    fn frame(live: &Live) -> serde_json::Value {
        let frames = live.watch();
        let news = frames.borrow().unseen(&mut SeenFrames::default());
        let (_, text) = news
            .iter()
            .find(|(topic, _)| *topic == Topic::Trial)
            .unwrap();
        serde_json::from_str(text).unwrap()
    }

    fn trials() -> (Live, Trials) {
        let live = Live::default();
        live.trials().set_lab(Arc::new(Slow::default()));
        let trials = live.trials().clone();
        (live, trials)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn one_at_a_time_and_it_can_be_stopped() {
        let (live, trials) = trials();
        assert_eq!(trials.start("strange"), Err(NotStarted::Unknown));
        let id = trials.start("slow").unwrap();
        assert_eq!(trials.start("quick"), Err(NotStarted::Busy));
        trials.stop();
        assert!(trials.ended(id, LONG).await);
        let shown = frame(&live);
        assert_eq!(shown["trial"]["phase"], "stopped");
        assert_eq!(shown["trial"]["words"], "No verdict: it was stopped.");
        assert_eq!(shown["page"]["so"], "far");
        let id = trials.start("quick").unwrap();
        assert!(trials.ended(id, LONG).await);
        let shown = frame(&live);
        assert_eq!(
            (&shown["trial"]["phase"], &shown["page"]["all"]),
            (&"ended".into(), &1.into())
        );
    }

    #[tokio::test]
    async fn it_ends_with_the_service() {
        let (live, trials) = trials();
        trials.start("slow").unwrap();
        trials.close().await;
        assert_eq!(
            frame(&live)["trial"]["words"],
            "No verdict: the service was stopped."
        );
        assert_eq!(trials.start("quick"), Err(NotStarted::Closing));
    }

    /// Paused time advances as soon as all tasks are idle, but the trial's thread runs in real time.
    #[tokio::test(start_paused = true)]
    async fn a_trial_has_only_so_much_time() {
        let (live, trials) = trials();
        trials.start("slow").unwrap();
        let mut under_way = trials.0.under_way.subscribe();
        under_way.wait_for(|running| *running == 0).await.unwrap();
        assert_eq!(
            frame(&live)["trial"]["words"],
            "No verdict: its time was over."
        );
    }

    #[tokio::test]
    async fn a_lab_that_fails_never_keeps_the_next_trial_from_starting() {
        let (live, trials) = trials();
        let id = trials.start("bad").unwrap();
        assert!(trials.ended(id, LONG).await);
        assert_eq!(frame(&live)["trial"]["phase"], "failed");
        assert!(trials.start("quick").is_ok());
    }

    #[tokio::test]
    async fn without_a_lab_nothing_is_offered() {
        let live = Live::default();
        assert_eq!(live.trials().start("quick"), Err(NotStarted::NoLab));
        assert_eq!(frame(&live)["offers"], serde_json::json!([]));
    }
}
