//! Tests of lock trials with external locks: shell scripts that act as locks, most of them bad.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;
use std::time::Duration;

use fencepost_rig::Interrupt;
use fencepost_trial::history::{Event, Fault, What};
use fencepost_trial::holds::Judged;
use fencepost_trial::holds::{LockWatch, Scenario, Trial, run};
use fencepost_trial::processes::NoVerdict;
use fencepost_trial::strategy;
use fencepost_trial::verdict::Outcome;

/// Answers line by line. `acquire`, `step` and `release` define the answers.
const LOOP: &str = r#"
answer() { echo "{\"type\":\"$1\",\"op\":$op$2}"; }
while read -r line; do
  op=${line#*'"op":'}; op=${op%%[,\}]*}
  case $line in
    *'"type":"init"'*) echo "{\"type\":\"init_ok\"$claims}";;
    *'"type":"acquire"'*) acquire;;
    *'"type":"step"'*) step;;
    *'"type":"release"'*) release;;
    *) exit 0;;
  esac
done"#;
const STEP: &str = "step() { answer stepped; };";
const RELEASE: &str = r#"release() { answer released ',"outcome":"released"'; };"#;
/// Claims `{"fencing":true}` in `init_ok`.
const FENCING: &str = r#"claims=',"claims":{"fencing":true}';"#;
/// Claims that its release takes two steps.
const TWO_STEPS: &str = r#"claims=',"claims":{"looks_before_release":true}';"#;
const GRANT: &str = r#"acquire() { answer acquired ',"hold":'$op; };"#;

fn trial(scenario: Scenario, strategy: &str) -> Trial {
    let mut trial = Trial::new(scenario, strategy::find(strategy).unwrap(), 7);
    // Long enough for a busy machine.
    (trial.ttl_ms, trial.work_ms) = (1_500, 1_800);
    trial
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

fn tried(trial: &Trial, script: &str) -> Result<Judged, NoVerdict> {
    let history = run(trial, &|| shell(script), None, &mut (), Interrupt::never())?;
    assert!(history.events.is_sorted_by_key(|event| event.n));
    Ok(Judged::of(trial, history))
}

fn judged(scenario: Scenario, strategy: &str, script: &str) -> Judged {
    tried(&trial(scenario, strategy), &format!("{script}{LOOP}")).unwrap()
}

fn count(tried: &Judged, what: impl Fn(&Event) -> bool) -> usize {
    tried.events.iter().filter(|event| what(event)).count()
}

#[test]
fn a_lock_that_lets_everybody_in_is_convicted_wherever_two_meet() {
    let script = format!("{GRANT}{STEP}{RELEASE}");
    for scenario in [
        Scenario::TtlEdge,
        Scenario::Deadlock,
        Scenario::DeadlockSorted,
        Scenario::StaleRelease,
        Scenario::Pause,
    ] {
        let verdict = judged(scenario, "safe", &script).verdict;
        assert_eq!(
            verdict.outcome,
            Outcome::Broken,
            "{scenario:?}: {}",
            verdict.because
        );
        // In some of them, it is a matter of chance whether they also meet at the number.
        assert!(!verdict.evidence.is_empty(), "{scenario:?}");
    }
    let crash = judged(Scenario::Crash, "safe", &script).verdict;
    assert_eq!(
        crash.missing.unwrap().what.name(),
        "contention",
        "nobody was ever kept out"
    );
}

#[test]
fn a_promised_fence_that_never_grows_does_not_let_the_second_one_in() {
    let grant = r#"acquire() { answer acquired ',"hold":1,"fence":"7.0"'; };"#;
    let step = r#"step() { answer stepped ',"fence":"7.0"'; };"#;
    let tried = judged(
        Scenario::TtlEdge,
        "fenced",
        &format!("{FENCING}{grant}{step}{RELEASE}"),
    );
    assert_eq!(
        tried.verdict.outcome,
        Outcome::Broken,
        "{}",
        tried.verdict.because
    );
    let refused = |event: &Event| matches!(event.what, What::Register { refused: true, .. });
    assert_eq!(count(&tried, refused), 2, "B's reading and writing");
    let fences = |check: &&fencepost_trial::verdict::Checked| check.name == "fence_issued";
    let check = tried.verdict.checks.iter().find(fences).unwrap();
    assert_eq!(check.finding, fencepost_trial::verdict::Finding::Violated);
}

#[test]
fn a_lock_is_judged_by_what_its_processes_promise() {
    let grant = r#"acquire() { answer acquired ',"hold":1,"fence":"7.0"'; };"#;
    let script = format!("{FENCING}{grant}{STEP}{RELEASE}");
    let tried = judged(Scenario::Crash, "safe", &script);
    assert!(tried.header.holds.unwrap().claims.fencing);
    assert_eq!(tried.verdict.outcome, Outcome::Broken);
    assert!(tried.verdict.because.contains("Fences do not grow"));
}

#[test]
fn who_claims_what_does_not_exist_is_not_tried() {
    let claims = r#"claims=',"claims":{"keepalive":true}';"#;
    let script = format!("{claims}{GRANT}{STEP}{RELEASE}{LOOP}");
    let no_verdict = tried(&trial(Scenario::Crash, "safe"), &script).unwrap_err();
    match no_verdict {
        NoVerdict::NotReady { what, .. } => {
            assert!(what.contains("there is no claim 'keepalive'"), "{what}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_request_names_the_version_of_the_protocol() {
    let script = r#"
read -r line
case $line in *'"protocol":1,'*) echo '{"type":"init_ok"}';; *) exit 4;; esac
read -r line"#;
    // It gets ready, and answers nothing else.
    tried(&trial(Scenario::Crash, "safe"), script).unwrap();
}

#[test]
fn processes_that_promise_different_things_are_not_tried() {
    let script = format!(
        r#"{GRANT}{STEP}{RELEASE}
        claims=; read -r line; case $line in *'"id":"A"'*) {FENCING} esac
        echo "{{\"type\":\"init_ok\"$claims}}";{LOOP}"#
    );
    match tried(&trial(Scenario::Crash, "safe"), &script).unwrap_err() {
        NoVerdict::NotReady { what, .. } => assert!(
            what.starts_with("promises ") && what.contains("fencing: true"),
            "{what}"
        ),
        other => panic!("{other}"),
    }
}

#[test]
fn who_is_ready_twice_does_not_stand_in_for_another() {
    let script = r#"read -r line; case $line in
        *'"id":"A"'*) printf '{"type":"init_ok"}\n{"type":"init_ok"}\n';; esac; read -r more"#;
    match tried(&trial(Scenario::Crash, "safe"), script).unwrap_err() {
        NoVerdict::NotReady { who, what, .. } => {
            assert_eq!(who, "A");
            assert_eq!(
                what,
                r#"sent another line after init_ok: '{"type":"init_ok"}'"#
            );
        }
        other => panic!("{other}"),
    }
}

#[test]
fn the_dead_the_mute_and_the_confused_leave_nothing_to_judge() {
    for (script, said) in [
        (
            "acquire() { echo out of coffee >&2; kill -9 $$; };",
            "was killed by SIGKILL: 'out of coffee'",
        ),
        ("acquire() { exit 3; };", "ended with 3"),
        (
            "acquire() { echo Segmentation fault; };",
            "sent an invalid message (expected value at line 1 column 1): 'Segmentation fault'",
        ),
        (
            "acquire() { op=99; answer refused; };",
            "answered another request: ",
        ),
        (
            r#"acquire() { answer error ',"definite":true,"message":"no database"'; };"#,
            "no database",
        ),
    ] {
        let tried = judged(
            Scenario::TtlEdge,
            "safe",
            &format!("{script}{STEP}{RELEASE}"),
        );
        assert_eq!(tried.verdict.outcome, Outcome::Inconclusive, "{script}");
        let notes = tried.verdict.notes.join("\n");
        assert!(notes.contains(said), "{script}: {notes}");
    }
}

#[test]
fn who_does_not_get_ready_stops_the_run() {
    let not_ready = tried(
        &trial(Scenario::Crash, "safe"),
        "read init; echo no database >&2; exit 4",
    );
    match not_ready.unwrap_err() {
        NoVerdict::NotReady {
            who,
            what,
            last_words,
        } => {
            assert!(["A", "B"].contains(&who.as_str()), "{who}");
            assert_eq!(what, "ended with 4 before it was ready");
            assert_eq!(last_words, ["no database"]);
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_kill_is_written_down_only_after_the_death_was_seen() {
    let tried = judged(Scenario::Crash, "safe", &format!("{GRANT}{STEP}{RELEASE}"));
    let killed = |event: &Event| {
        let fault = Fault::Killed;
        event.what == What::Fault { fault } && event.who.as_deref() == Some("A")
    };
    assert_eq!(count(&tried, killed), 1);
    // A process that exits by itself first was not killed by the lab.
    let suicide = format!("{GRANT}step() {{ exit 0; }};{RELEASE}");
    let tried = judged(Scenario::Crash, "safe", &suicide);
    assert_eq!(count(&tried, killed), 0);
    assert_eq!(tried.verdict.missing.unwrap().what.name(), "kill");
}

/// Exits at this step. A process that it started answers in its place once it is gone, and keeps its output open.
fn vanishing_at(step: &str) -> String {
    let heir = "(until grep -q ') Z' /proc/$$/stat; do :; done; answer stepped; exec sleep 1000)";
    let step = format!(
        "step() {{ case $line in *{step}*) {heir} & exit 0;; *) answer stepped;; esac; }};"
    );
    format!("{GRANT}{step}{RELEASE}{LOOP}")
}

#[test]
fn who_was_gone_before_is_taken_neither_for_killed_nor_for_stopped() {
    struct Impatient;
    impl LockWatch for Impatient {
        fn answer_timeout(&self) -> Duration {
            Duration::from_secs(1)
        }
    }
    for (scenario, last_step) in [(Scenario::Crash, "read"), (Scenario::StaleRelease, "write")] {
        let trial = Trial {
            ttl_ms: 300,
            ..trial(scenario, "safe")
        };
        let script = vanishing_at(last_step);
        let history = run(
            &trial,
            &|| shell(&script),
            None,
            &mut Impatient,
            Interrupt::never(),
        )
        .unwrap();
        let fault = |event: &&Event| matches!(event.what, What::Fault { .. });
        assert_eq!(history.events.iter().find(fault), None, "{scenario:?}");
    }
}

/// The lab does not look long enough to see that the process has stopped.
#[test]
fn who_was_not_seen_to_stop_goes_on_all_the_same() {
    struct Hasty;
    impl LockWatch for Hasty {
        fn answer_timeout(&self) -> Duration {
            Duration::from_secs(5)
        }

        fn witness_timeout(&self) -> Duration {
            Duration::ZERO
        }
    }
    let trial = Trial {
        ttl_ms: 300,
        ..trial(Scenario::Pause, "safe")
    };
    let script = format!("{GRANT}{STEP}{RELEASE}{LOOP}");
    let subject = || shell(&script);
    let history = run(&trial, &subject, None, &mut Hasty, Interrupt::never()).unwrap();
    let failed = |event: &&Event| matches!(event.what, What::Failed { .. });
    assert_eq!(history.events.iter().find(failed), None);
}

#[test]
fn an_external_lock_that_never_stops_where_it_is_told_to_is_not_taken_for_paused() {
    let script = format!("{TWO_STEPS}{GRANT}{STEP}{RELEASE}");
    let tried = judged(Scenario::StaleRelease, "get-then-delete", &script);
    let stopped = |event: &Event| matches!(event.what, What::Fault { .. });
    assert_eq!(count(&tried, stopped), 0);
}

#[test]
fn who_declines_to_work_still_gives_its_lock_back() {
    let step = r#"step() { case $line in *write*) answer declined;; *) answer stepped;; esac; };"#;
    let tried = judged(
        Scenario::TtlEdge,
        "safe",
        &format!("{GRANT}{step}{RELEASE}"),
    );
    assert_eq!(
        count(&tried, |event| matches!(event.what, What::Declined { .. })),
        2
    );
    assert_eq!(
        count(&tried, |event| matches!(event.what, What::Released { .. })),
        2
    );
    let written = |event: &Event| {
        let action = fencepost_trial::protocol::Action::Write;
        matches!(event.what, What::Register { action: done, .. } if done == action)
    };
    assert_eq!(count(&tried, written), 0);
}

#[test]
fn who_stops_where_nobody_told_it_to_has_not_answered() {
    let reached = r#"acquire() { answer reached ',"step":1,"of":2,"what":"hm"'; };"#;
    let started = std::time::Instant::now();
    let tried = judged(
        Scenario::TtlEdge,
        "safe",
        &format!("{reached}{STEP}{RELEASE}"),
    );
    let notes = tried.verdict.notes.join("\n");
    assert!(notes.contains("answered another request: "), "{notes}");
    assert!(
        started.elapsed().as_secs() < 8,
        "nobody waits for it to stop"
    );
}

#[test]
fn a_step_that_names_no_fence_comes_with_the_one_that_was_granted() {
    // Grants are sequential, so their time is an increasing fence.
    let grant = r#"acquire() { answer acquired ",\"hold\":1,\"fence\":\"$(date +%s%N)\""; };"#;
    let script = format!("{FENCING}{grant}{STEP}{RELEASE}");
    let tried = judged(Scenario::TtlEdge, "fenced", &script);
    let with_fence = |event: &Event| matches!(event.what, What::Register { fence: Some(_), .. });
    assert_eq!(count(&tried, with_fence), 4);
    let refused = |event: &Event| matches!(event.what, What::Register { refused: true, .. });
    assert_eq!(count(&tried, refused), 1, "A's late write");
}
