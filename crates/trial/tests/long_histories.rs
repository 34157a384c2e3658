//! Tests that a long history of a lock trial is judged and reported in a time that grows with its length, not with its square.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::time::Instant;

use fencepost_trial::history::{Event, History, What};
use fencepost_trial::holds::check::OVERLAPS_MAX;
use fencepost_trial::holds::{Judged, NAMES, Scenario, Trial};
use fencepost_trial::protocol::{Action, ReleaseResult};
use fencepost_trial::report::html::Page;
use fencepost_trial::report::json;
use fencepost_trial::report::terminal::holds::Lanes;
use fencepost_trial::strategy;
use fencepost_trial::text::ink::Ink;
use fencepost_trial::verdict::Outcome;

const KEY: &str = "product_A";
/// The number of events of one turn: request, grant, two steps and their answers, release and its answer.
const PER_TURN: usize = 8;

/// A history in which processes take turns, and the next one always asks before the last one releases.
struct Turns {
    events: Vec<Event>,
    now_ns: u64,
    serial: u64,
    /// Whether every process calls all its holds by the same number, as a careless program may.
    same_hold: bool,
}

impl Turns {
    fn history(trial: &Trial, events: usize, same_hold: bool) -> History {
        let mut turns = Self {
            events: Vec::with_capacity(events + PER_TURN),
            now_ns: 0,
            serial: 0,
            same_hold,
        };
        turns.ask(0);
        for turn in 0..events / PER_TURN {
            turns.take(turn);
        }
        History {
            header: trial.header(),
            events: turns.events,
        }
    }

    fn add(&mut self, turn: usize, what: What) {
        self.now_ns += 500_000;
        self.events.push(Event {
            n: self.events.len() as u64 + 1,
            at_ns: self.now_ns,
            who: Some(NAMES[turn % NAMES.len()].to_owned()),
            what,
        });
    }

    fn ask(&mut self, turn: usize) {
        let what = What::Acquire {
            op: turn as u64 * 10 + 1,
            key: KEY.into(),
            wait_ms: 60_000,
        };
        self.add(turn, what);
    }

    fn take(&mut self, turn: usize) {
        let (first, key) = (turn as u64 * 10, || KEY.to_owned());
        let hold = if self.same_hold { 1 } else { turn as u64 + 1 };
        let fence = Some(format!("{}.0", 1_450_759_757_219 + turn));
        self.add(
            turn,
            What::Acquired {
                op: first + 1,
                key: key(),
                hold,
                fence: fence.clone(),
                valid_ms: None,
                contended: true,
            },
        );
        for (op, action) in [(first + 2, Action::Read), (first + 3, Action::Write)] {
            self.serial += 1;
            let serial = self.serial;
            let value = turn as i64 + i64::from(action == Action::Write);
            self.add(turn, What::Step { op, hold, action });
            let what = What::Register {
                op,
                hold,
                serial,
                action,
                value,
                fence: fence.clone(),
                highest: None,
                refused: false,
            };
            self.add(turn, what);
        }
        self.ask(turn + 1);
        let op = first + 4;
        self.add(
            turn,
            What::Release {
                op,
                key: key(),
                hold,
            },
        );
        let outcome = ReleaseResult::Released;
        let released = What::Released {
            op,
            key: key(),
            hold,
            outcome,
        };
        self.add(turn, released);
    }
}

fn trial() -> Trial {
    Trial::new(
        Scenario::DeadlockSorted,
        strategy::find("fenced").unwrap(),
        7,
    )
}

/// Returns the time that this thread has used, so that other programs on the machine do not count.
fn used_ns() -> Option<u64> {
    let used = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    used.split(' ').next()?.parse().ok()
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let (began, used) = (Instant::now(), used_ns());
    let done = work();
    let took_ns = began.elapsed().as_nanos() as u64;
    let used = used_ns().zip(used).map(|(now, before)| now - before);
    (done, used.unwrap_or(took_ns))
}

/// Returns how long it takes to judge a history of so many events, to write its report and its page, and to tell it on the
/// terminal.
fn stages(events: usize, same_hold: bool) -> [u64; 4] {
    let trial = trial();
    let history = Turns::history(&trial, events, same_hold);
    let (judged, judging) = timed(|| Judged::of(&trial, history));
    // Whoever uses a number twice is not told apart from a hold that came back in between.
    let expected = if same_hold {
        Outcome::Broken
    } else {
        Outcome::Held
    };
    assert_eq!(
        judged.verdict.outcome, expected,
        "{}",
        judged.verdict.because
    );
    let (_, reporting) = timed(|| json::holds::report(&judged).to_string());
    let (page, drawing) = timed(|| Page::of_trial(&judged).render());
    let mut lanes = Lanes::new(Ink::PLAIN);
    let (_, telling) = timed(|| lanes.finish(&judged.header, &judged.events));
    println!(
        "{events} events: judged in {} ms, report {} ms, page {} ms ({} KB), lanes {} ms",
        judging / 1_000_000,
        reporting / 1_000_000,
        drawing / 1_000_000,
        page.len() / 1000,
        telling / 1_000_000
    );
    [judging, reporting, drawing, telling]
}

#[test]
fn ten_times_the_events_take_nowhere_near_a_hundred_times_as_long() {
    for same_hold in [false, true] {
        let (few, many) = (stages(10_000, same_hold), stages(100_000, same_hold));
        for (stage, (few, many)) in ["judge", "report", "page", "lanes"]
            .iter()
            .zip(few.iter().zip(many))
        {
            assert!(
                many < few.saturating_mul(30),
                "{stage}: {few} ns, then {many} ns"
            );
        }
    }
}

#[test]
fn the_page_of_a_long_history_is_bounded_and_says_what_it_left_out() {
    let trial = trial();
    let judged = Judged::of(&trial, Turns::history(&trial, 100_000, false));
    let page = Page::of_trial(&judged).render();
    assert!(page.len() < 2_000_000, "{}", page.len());
    let start = r#"<script type="application/json" id="data">"#;
    let (_, data) = page.split_once(start).unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let events = &data["runs"][0]["events"];
    let total = judged.events.len();
    assert_eq!(
        (&events["total"], &events["whole"]),
        (&total.into(), &20_000.into())
    );
    assert!(
        page.contains("later ones are left out"),
        "the words of its script"
    );
}

#[test]
fn a_lock_that_lets_everybody_in_does_not_fill_the_memory() {
    let trial = trial();
    let mut history = Turns::history(&trial, 30_000, false);
    // Nobody ever gives it back, so that every two of them hold it at once.
    let gives_back =
        |event: &Event| matches!(event.what, What::Release { .. } | What::Released { .. });
    history.events.retain(|event| !gives_back(event));
    let judged = Judged::of(&trial, history);
    assert_eq!(judged.verdict.outcome, Outcome::Broken);
    assert_eq!(judged.checks().overlaps().len(), OVERLAPS_MAX);
}
