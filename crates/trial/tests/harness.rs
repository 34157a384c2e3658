//! Tests of sale trials with misbehaving subjects: shell scripts that act as buyers.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Read;
use std::process::Command;
use std::time::Duration;

use fencepost_rig::Interrupt;
use fencepost_trial::history::{Event, History, What};
use fencepost_trial::processes::NoVerdict;
use fencepost_trial::protocol::PurchaseOutcome;
use fencepost_trial::sale::facts::{Answer, Attempt, Facts};
use fencepost_trial::sale::verdict::judge;
use fencepost_trial::sale::{Sale, SaleWatch, run};
use fencepost_trial::strategy;
use fencepost_trial::verdict::Outcome;

const READY: &str = r#"read init; echo '{"type":"init_ok"}'; read order;"#;

fn sale(concurrency: usize) -> Sale {
    let safe = strategy::find("safe").unwrap();
    Sale {
        concurrency,
        ..Sale::new(safe, 7)
    }
}

fn trial(sale: &Sale, script: &str) -> Result<History, NoVerdict> {
    let shell = || {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    };
    run(sale, &shell, None, &mut (), Interrupt::never())
}

fn only_answer(script: &str) -> Answer {
    let history = trial(&sale(1), &format!("{READY} {script}")).unwrap();
    let facts = Facts::of(&history.events);
    assert_eq!(facts.attempts.len(), 1);
    facts.attempts[0].answer.clone()
}

fn unknown(script: &str) -> String {
    match only_answer(script) {
        Answer::Unknown(message) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_subject_that_claims_a_sale_it_did_not_make_is_convicted() {
    let script = format!(
        r#"{READY} echo '{{"type":"purchased","op":1,"outcome":"sold","before":1,"after":0}}'"#
    );
    let history = trial(&sale(1), &script).unwrap();
    let facts = Facts::of(&history.events);
    let verdict = judge(&history.header, &facts);
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "1 order for a stock of 1. The store says 1 are left, the orders say 0."
    );
}

#[test]
fn a_subject_that_dies_leaves_an_unknown_answer() {
    assert_eq!(
        unknown("echo out of coffee >&2; kill -9 $$"),
        "was killed by SIGKILL: 'out of coffee'"
    );
    assert_eq!(unknown("exit 3"), "ended with 3");
}

#[test]
fn a_line_that_is_no_message_is_quoted_and_made_harmless() {
    let said = unknown(r"printf 'Segmentation\033[2Jfault\n'; read bye");
    assert!(said.starts_with("sent an invalid message ("), "{said}");
    assert!(said.ends_with(r"'Segmentation\u{1b}[2Jfault'"), "{said}");
}

#[test]
fn an_answer_to_something_else_is_no_answer() {
    let said = unknown(r#"echo '{"type":"purchased","op":99,"outcome":"sold"}'; read bye"#);
    assert!(said.starts_with("answered another request: "), "{said}");
}

#[test]
fn errors_count_as_the_subject_says() {
    let definite =
        only_answer(r#"echo '{"type":"error","op":1,"definite":true,"message":"no"}'; read bye"#);
    assert_eq!(definite, Answer::Failed("no".into()));
    let said =
        unknown(r#"echo '{"type":"error","op":1,"definite":false,"message":"perhaps"}'; read bye"#);
    assert_eq!(said, "perhaps");
}

#[test]
fn nobody_is_asked_to_buy_unless_all_are_ready() {
    for (script, expected) in [
        (
            "read init; echo no database >&2; exit 4",
            "ended with 4 before it was ready",
        ),
        (
            "read init; echo hello; read more",
            "sent an invalid message (expected value at line 1 column 1): 'hello'",
        ),
    ] {
        match trial(&sale(2), script).unwrap_err() {
            NoVerdict::NotReady {
                who,
                what,
                last_words,
            } => {
                assert!(who.starts_with("proc_"), "{who}");
                assert_eq!(what, expected);
                assert_eq!(last_words.is_empty(), !script.contains("no database"));
            }
            other => panic!("{other}"),
        }
    }
    let refused = r#"read init; echo '{"type":"error","definite":true,"message":"cannot open it"}'; read more"#;
    assert!(
        matches!(trial(&sale(1), refused), Err(NoVerdict::Store(message)) if message == "cannot open it")
    );
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let missing = || Command::new("/no/such/program");
    let error = run(&sale(1), &missing, None, &mut (), Interrupt::never()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot start '/no/such/program': No such file or directory (os error 2)"
    );
}

/// Answers `busy` to any attempt.
const BUSY: &str = r#"op=${order#*'"op":'}; op=${op%%,*}; echo '{"type":"purchased","op":'$op',"outcome":"busy","contended":true}'"#;

#[test]
fn events_are_in_the_order_of_their_stamps_and_the_seed_repeats_who_is_asked_first() {
    let asked = |seed| {
        let history = trial(&Sale { seed, ..sale(12) }, &format!("{READY} {BUSY}")).unwrap();
        assert_eq!(history.events.len(), 1 + 12 + 12 + 1);
        assert!(history.events.is_sorted_by_key(|event| event.n));
        assert!(history.events.is_sorted_by_key(|event| event.at_ns));
        let asked = |event: &&Event| matches!(event.what, What::Purchase { .. });
        history
            .events
            .iter()
            .filter(asked)
            .map(|event| event.who.clone().unwrap())
            .collect::<Vec<_>>()
    };
    let first = asked(7);
    assert_eq!(first.len(), 12);
    assert_eq!(first, asked(7));
    assert_ne!(first, asked(8));
}

#[test]
fn chatter_does_not_keep_the_lab_waiting_for_somebody_else() {
    struct Impatient;
    impl SaleWatch for Impatient {
        fn answer_timeout(&self) -> Duration {
            Duration::from_millis(500)
        }
    }
    // One process answers and then keeps talking; the other never answers.
    let script = format!(
        r#"{READY} case $order in
        *'"op":1,'*) {BUSY}; while :; do echo hm; sleep 0.05; done;;
        *) sleep 1000;; esac"#
    );
    let shell = || {
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        command
    };
    let history = run(&sale(2), &shell, None, &mut Impatient, Interrupt::never()).unwrap();
    let facts = Facts::of(&history.events);
    assert_eq!(facts.count(PurchaseOutcome::Busy), 1);
    assert_eq!(facts.count(PurchaseOutcome::Unknown), 1);
}

#[test]
fn whoever_takes_its_turn_late_is_waited_for_as_long_as_answers_come() {
    struct Patient;
    impl SaleWatch for Patient {
        fn answer_timeout(&self) -> Duration {
            Duration::from_millis(2_500)
        }
    }
    // Longer than the timeout in total, but never that long without an answer.
    let script =
        format!(r#"{READY} case $order in *'"op":1,'*) sleep 1.5;; *) sleep 3;; esac; {BUSY}"#);
    let shell = || {
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        command
    };
    let history = run(&sale(2), &shell, None, &mut Patient, Interrupt::never()).unwrap();
    assert_eq!(Facts::of(&history.events).count(PurchaseOutcome::Busy), 2);
}

#[test]
fn the_one_who_looks_on_sees_every_answer_and_the_file_holds_every_event() {
    #[derive(Default)]
    struct Seen(Vec<String>, usize);
    impl SaleWatch for Seen {
        fn starting(&mut self, ready: usize, _of: usize) {
            self.1 = ready;
        }
        fn answered(&mut self, attempt: &Attempt, sold: i64) {
            assert_eq!(sold, 0);
            self.0.push(attempt.who.clone());
        }
    }
    let mut file = tempfile::tempfile().unwrap();
    let mut seen = Seen::default();
    let script = format!("{READY} {BUSY}");
    let shell = || {
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        command
    };
    let written = file.try_clone().unwrap();
    let history = run(
        &sale(5),
        &shell,
        Some(written),
        &mut seen,
        Interrupt::never(),
    )
    .unwrap();
    seen.0.sort();
    assert_eq!(seen.0, ["proc_0", "proc_1", "proc_2", "proc_3", "proc_4"]);
    assert_eq!(seen.1, 5);
    let mut text = String::new();
    std::io::Seek::rewind(&mut file).unwrap();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text.lines().count(), 1 + history.events.len());
}

/// A machine that stalls may end a lease, so the history says so.
#[test]
fn a_lab_that_stands_still_during_a_sale_records_it_in_the_order_of_time() {
    struct Sleepy;
    impl SaleWatch for Sleepy {
        fn answered(&mut self, _: &Attempt, _: i64) {
            std::thread::sleep(Duration::from_millis(400));
        }
    }
    let script = format!("{READY} {BUSY}");
    let shell = || {
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        command
    };
    let history = run(&sale(2), &shell, None, &mut Sleepy, Interrupt::never()).unwrap();
    let stall = |event: &Event| match event.what {
        What::Stalled { for_ms } => Some(for_ms),
        _ => None,
    };
    let stalls: Vec<f64> = history.events.iter().filter_map(stall).collect();
    assert!(!stalls.is_empty(), "{:#?}", history.events);
    assert!(stalls.iter().all(|for_ms| *for_ms >= 400.0), "{stalls:?}");
    assert!(history.events.is_sorted_by_key(|event| event.at_ns));
    let stalled_ns = Facts::of(&history.events).stalled_within_ns(u64::MAX);
    assert!(stalled_ns >= 400_000_000, "{stalled_ns}");
}
