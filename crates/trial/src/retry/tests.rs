//! Tests the conclusions and the terminal text of comparisons with handwritten histories.

use super::*;
use crate::history::Event;
use crate::history::tests::header;
use crate::matrix::Run;
use crate::protocol::{Effort, Promise, Purchase, PurchaseOutcome};
use crate::report::json::retry as json;
use crate::report::terminal::{retry as terminal, verdict};
use crate::saved::{Rejudged, Saved};
use crate::text::ink::Ink;
use crate::verdict::Outcome;

const MS: u64 = 1_000_000;

/// Builds a history round by round. In each round, buyers hold the lock one after the other for 5 ms each, and the last until
/// the end of the round.
struct RetryBuilder {
    events: Vec<Event>,
    now_ns: u64,
}

impl RetryBuilder {
    fn new() -> Self {
        Self {
            events: Vec::new(),
            now_ns: 0,
        }
    }

    fn add(&mut self, at_ns: u64, who: Option<u64>, what: What) {
        let n = self.events.len() as u64 + 1;
        let who = who.map(|index| format!("proc_{index}"));
        self.events.push(Event {
            n,
            at_ns,
            who,
            what,
        });
    }

    /// Adds a round of `ms` milliseconds with a stock of 2. Each answer is (outcome, retries, contended).
    fn round(mut self, pauses: Pauses, ms: u64, answers: &[(PurchaseOutcome, u32, bool)]) -> Self {
        let started = self.now_ns;
        let retry = Retry {
            pauses,
            max_retries: 15,
            budget_ms: 8_000,
            seed: 7041,
        };
        self.add(started, None, What::Round { retry });
        self.add(started, None, What::StockSet { units: 2 });
        for op in 0..answers.len() as u64 {
            self.add(started, Some(op), What::Purchase { op, quantity: 1 });
        }
        let mut stock = 2;
        for (index, (outcome, retries, contended)) in answers.iter().enumerate() {
            let op = index as u64;
            let at = started + ms * MS * (op + 1) / answers.len() as u64;
            let held = *outcome != PurchaseOutcome::Busy;
            let sold = *outcome == PurchaseOutcome::Sold;
            let purchase = Purchase {
                outcome: *outcome,
                before: held.then_some(stock),
                after: sold.then_some(stock - 1),
                contended: *contended,
                waited_ms: 0.0,
                fence: None,
                effort: Some(Effort {
                    retries: *retries,
                    lock_ops: retries + 1 + u32::from(held),
                    held_ms_ago: held.then_some((5.0, 0.0)),
                }),
            };
            stock -= i64::from(sold);
            self.add(at, Some(op), What::Purchased { op, purchase });
        }
        self.now_ns = started + ms * MS;
        self.add(self.now_ns, None, What::StockRead { units: stock });
        self.now_ns += 100 * MS;
        self
    }

    fn judged(self) -> Judged {
        let header = Header {
            scenario: SCENARIO.into(),
            ttl_ms: 2_000,
            ..header(2, 4, Promise::Exclusion)
        };
        let history = History {
            header,
            events: self.events,
        };
        let comparison = Comparison::of(&history).unwrap();
        Judged::of(&comparison, history)
    }
}

const SOLD: PurchaseOutcome = PurchaseOutcome::Sold;
const GOOD: [(PurchaseOutcome, u32, bool); 4] = [
    (SOLD, 0, false),
    (SOLD, 1, true),
    (PurchaseOutcome::NoStock, 2, true),
    (PurchaseOutcome::NoStock, 3, true),
];
const FIXED: Pauses = Pauses::ALL[0];
const EXPONENTIAL: Pauses = Pauses::ALL[1];
const JITTER: Pauses = Pauses::ALL[2];
const LINE: Pauses = Pauses::ALL[3];

fn four(ms: [u64; 4]) -> Judged {
    four_rounds(ms).judged()
}

fn four_rounds(ms: [u64; 4]) -> RetryBuilder {
    let rounds = Pauses::ALL.into_iter().zip(ms);
    rounds.fold(RetryBuilder::new(), |story, (pauses, ms)| {
        story.round(pauses, ms, &GOOD)
    })
}

#[test]
fn the_conclusion_names_the_first_and_only_ratios_that_mean_something() {
    let judged = four([318, 1_524, 203, 47]);
    let verdict = &judged.verdict;
    assert_eq!(verdict.outcome, Outcome::Held);
    assert_eq!(
        verdict.because,
        "All four sold 2 of 2. In this run the waiting line was first, 4.3 × as fast as the next."
    );
    assert_eq!(
        verdict.witness,
        ["3 of 4 processes found the lock taken at first try, under every schedule"]
    );
    assert_eq!(
        verdict.found,
        [
            "jitter against fixed: 1.6 × as fast; against plain exponential: 7.5 ×",
            "plain exponential left the lock free 98.7 % of the time: all its buyers were asleep",
        ]
    );
}

#[test]
fn if_fixed_wins_it_says_so() {
    let verdict = four([100, 1_524, 203, 203]).verdict;
    assert_eq!(
        verdict.because,
        "All four sold 2 of 2. In this run fixed was first, 2.0 × as fast as the next."
    );
    assert_eq!(
        verdict.found[..2],
        [
            "jitter against plain exponential: 7.5 × as fast",
            "fixed against jitter: 2.0 × as fast"
        ]
    );
}

#[test]
fn a_small_difference_is_no_order() {
    let verdict = four([100, 110, 119, 105]).verdict;
    assert_eq!(
        verdict.because,
        "All four sold 2 of 2. In this run fixed and the waiting line came in about level."
    );
    assert!(
        !verdict.found.iter().any(|line| line.contains("as fast")),
        "{:?}",
        verdict.found
    );
}

#[test]
fn equal_idle_is_nobodys_record() {
    let verdict = four([100, 100, 100, 100]).verdict;
    assert_eq!(verdict.found, Vec::<String>::new());
}

#[test]
fn a_process_that_gave_up_is_reported_and_not_compared() {
    let busy = |retries| (PurchaseOutcome::Busy, retries, true);
    let gave_up = [(SOLD, 0, false), busy(15), busy(15), busy(4)];
    let judged = RetryBuilder::new()
        .round(FIXED, 50, &gave_up)
        .round(JITTER, 203, &GOOD)
        .round(LINE, 47, &GOOD)
        .judged();
    let verdict = &judged.verdict;
    assert_eq!(verdict.outcome, Outcome::Held);
    assert_eq!(
        verdict.because,
        "Orders and stock agree every time. Sold too few: fixed 1 of 2."
    );
    assert_eq!(
        verdict.found[0],
        "the waiting line was first, 4.3 × as fast as the next"
    );
    assert_eq!(
        verdict.notes,
        [
            "fixed: 2 processes gave up after 15 retries",
            "fixed: 1 process gave up when the budget of 8 s was used up"
        ]
    );
    assert!(
        !verdict
            .found
            .iter()
            .any(|line| line.contains("against fixed"))
    );
    assert_eq!(judged.rounds[0].figures.gave_up, 3);
}

#[test]
fn the_verdict_is_as_bad_as_the_worst_round() {
    let three = [
        (SOLD, 0, false),
        (SOLD, 1, true),
        (SOLD, 1, true),
        (SOLD, 1, true),
    ];
    let calm = [(SOLD, 0, false), (SOLD, 0, false)];
    let judged = RetryBuilder::new()
        .round(FIXED, 100, &calm)
        .round(EXPONENTIAL, 100, &three)
        .round(JITTER, 100, &GOOD)
        .judged();
    let outcomes: Vec<Outcome> = judged.rounds.iter().map(|r| r.verdict.outcome).collect();
    assert_eq!(
        outcomes,
        [Outcome::Inconclusive, Outcome::Broken, Outcome::Held]
    );
    let verdict = &judged.verdict;
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert!(
        verdict
            .because
            .starts_with("With plain exponential: 4 orders for a stock of 2"),
        "{}",
        verdict.because
    );
    assert!(!verdict.evidence.is_empty());
    let violated = verdict.checks.iter().find(|c| c.name == "no_oversell");
    assert_eq!(violated.unwrap().finding, crate::verdict::Finding::Violated);

    let untested = RetryBuilder::new()
        .round(FIXED, 100, &GOOD)
        .round(EXPONENTIAL, 100, &calm)
        .judged()
        .verdict;
    assert_eq!(untested.outcome, Outcome::Inconclusive);
    assert_eq!(untested.missing.unwrap().what.name(), "contention");
    assert!(untested.found.is_empty());
}

#[test]
fn a_history_without_rounds_is_no_comparison() {
    let header = header(2, 4, Promise::Exclusion);
    let events = RetryBuilder::new().round(FIXED, 10, &GOOD).events;
    assert!(
        Comparison::of(&History { header, events }).is_none(),
        "it says that it is an oversell"
    );
}

#[test]
fn a_strategy_and_a_store_of_a_later_version_are_judged_as_well() {
    let header = Header {
        scenario: SCENARIO.into(),
        strategy: "of-tomorrow".into(),
        store: "of-tomorrow".into(),
        ..header(2, 4, Promise::Exclusion)
    };
    let events = four_rounds([318, 1_524, 203, 47]).events;
    let known = four([318, 1_524, 203, 47]).verdict;
    let judged = Rejudged::of(Saved {
        history: History { header, events },
        seal: None,
        cut_line: None,
    });
    assert_eq!(judged.verdict.because, known.because);
    assert_eq!(judged.verdict.found, known.found);
    assert_eq!(judged.reproduce(), "");
}

#[test]
fn the_report_looks_as_people_know_it() {
    let judged = four([318, 1_524, 203, 47]);
    let ink = Ink::PLAIN;
    let text = [
        terminal::title(&judged.comparison),
        terminal::table(&judged, ink),
        terminal::bars_and_legend(&judged, ink),
        verdict::text(&judged.verdict, false, ink),
    ]
    .join("\n");
    let expected = "\
retry   4 processes want one lock, stock 2: what does each way of waiting cost?
  lock safe   TTL 2,000 ms   at most 15 retries within 8 s   store sqlite (one machine)   seed 7041

  schedule                         duration  successes  avg retries   fairness σ  lock ops    idle
  fixed 100 ms                     318.0 ms          2          1.5      88.9 ms        14  93.7 %
  exponential 100·2ⁿ, cap 5 s    1,524.0 ms          2          1.5     426.0 ms        14  98.7 %
  exponential + full jitter        203.0 ms          2          1.5      56.7 ms        14  90.1 %
  waiting line                      47.0 ms          2          1.5      13.1 ms        14  57.4 %

  fixed         ██████████                                           318.0 ms
  exponential   ████████████████████████████████████████████████   1,524.0 ms
  jitter        ██████▍                                              203.0 ms
  line          █▌                                                    47.0 ms
  bars         duration until all 4 had an answer
  fairness σ   spread of the finishing times; lower = all wait alike
  lock ops     requests of the lock to the store; the least possible is 8
  idle         time the lock lay free although somebody wanted it; an estimate

HELD   All four sold 2 of 2. In this run the waiting line was first, 4.3 × as fast as the next.
  witness   3 of 4 processes found the lock taken at first try, under every schedule
  found     jitter against fixed: 1.6 × as fast; against plain exponential: 7.5 ×
            plain exponential left the lock free 98.7 % of the time: all its buyers were asleep
  limits    one run each; run it again before you trust a small difference
";
    assert_eq!(text, expected);
}

#[test]
fn a_narrow_screen_shows_less_and_ascii_says_the_same() {
    let judged = four([318, 1_524, 203, 47]);
    for columns in [40, 66, 67, 79, 80, 90, 98, 120] {
        let ink = Ink {
            columns,
            ..Ink::PLAIN
        };
        let text = terminal::table(&judged, ink) + &terminal::bars_and_legend(&judged, ink);
        let heading = text.lines().next().unwrap();
        assert_eq!(heading.contains("idle"), columns >= 98, "{columns}");
        assert_eq!(heading.contains("lock ops"), columns >= 90, "{columns}");
        assert_eq!(heading.contains("fairness"), columns >= 80, "{columns}");
        assert_eq!(text.contains("spread of"), columns >= 80, "{columns}");
        let bars = text.lines().filter(|line| line.contains('█'));
        assert!(
            columns < 40 || bars.into_iter().all(|line| line.chars().count() <= columns),
            "{text}"
        );
    }
    let ink = Ink {
        ascii: true,
        ..Ink::PLAIN
    };
    let text = ink.glyphs(&terminal::table(&judged, ink));
    assert!(text.is_ascii(), "{text}");
    let widths: Vec<usize> = text.lines().map(str::len).collect();
    assert!(widths.iter().all(|width| *width == 98), "{widths:?}");
    assert!(
        ink.glyphs(&terminal::bars_and_legend(&judged, ink))
            .is_ascii()
    );
}

#[test]
fn a_lock_without_a_line_has_no_row_for_it() {
    let mut judged = RetryBuilder::new().round(FIXED, 100, &GOOD).judged();
    let text = terminal::table(&judged, Ink::PLAIN);
    let last_line = "  – waiting line: no such round in this history\n";
    assert!(text.ends_with(last_line), "{text}");
    judged.comparison.strategy = strategy::find("naive").unwrap();
    let text = terminal::table(&judged, Ink::PLAIN);
    assert!(text.ends_with("  – naive has no waiting line\n"), "{text}");
}

#[test]
fn the_document_has_a_run_for_each_way() {
    let document = json::report(&four([318, 1_524, 203, 47]));
    let runs = document["runs"].as_array().unwrap();
    let names: Vec<&str> = runs[0]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        names[..10],
        [
            "scenario",
            "strategy",
            "initial_stock",
            "final_stock",
            "total_attempts",
            "successes",
            "failures",
            "oversold",
            "entries",
            "timestamp"
        ]
    );
    assert_eq!(runs.len(), 4);
    assert_eq!(runs[1]["schedule"]["pauses"], "exponential");
    assert_eq!(runs[1]["schedule"]["cap_ms"], 5_000);
    assert_eq!(runs[1]["duration_ms"], 1_524.0);
    assert_eq!(runs[1]["average_retries"], 1.5);
    assert_eq!(runs[1]["entries"][3]["retries"], 3);
    assert_eq!(document["verdict"]["outcome"], "HELD");
    assert_eq!(
        document["verdict"]["reproduce"],
        "fencepost retry --lock=safe --stock=2 --concurrency=4 --budget 8000 --seed 7041"
    );
}

#[test]
fn only_locks_with_a_line_are_waited_for_in_line() {
    let in_line = |strategy: &'static Strategy| {
        let ways = Comparison::new(strategy, 1).ways();
        ways.contains(&Pauses::Line).then_some(strategy.name)
    };
    let names: Vec<&str> = strategy::ALL.into_iter().filter_map(in_line).collect();
    let with_a_line = [
        "late-watch",
        "safe",
        "watchdog",
        "fenced",
        "row",
        "table",
        "advisory",
    ];
    assert_eq!(names, with_a_line);
}

#[test]
fn a_broken_round_is_kept_though_another_one_showed_nothing() {
    let lonely = [(SOLD, 0, false)];
    let of = |first: &[(PurchaseOutcome, u32, bool)]| {
        let story = RetryBuilder::new().round(FIXED, 100, first);
        Run::Retry(story.round(JITTER, 100, &lonely).judged())
    };
    let outcomes = |run: &Run| -> Vec<Outcome> {
        let lines = run.summaries();
        lines.iter().map(|line| line.outcome).collect()
    };
    let broken = of(&[(SOLD, 0, true); 3]);
    assert_eq!(outcomes(&broken), [Outcome::Broken, Outcome::Inconclusive]);
    assert!(!broken.showed_nothing());
    let held = of(&GOOD);
    assert_eq!(outcomes(&held), [Outcome::Held, Outcome::Inconclusive]);
    assert!(held.showed_nothing());
}

#[test]
fn nothing_is_proven_while_the_machine_is_suspended() {
    let mut story = four_rounds([100, 110, 119, 105]);
    let at_ns = story.now_ns;
    story.add(at_ns, None, What::Slept { for_ms: 60_000.0 });
    let verdict = story.judged().verdict;
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    assert_eq!(verdict.missing.unwrap().what.name(), "awake");
}
