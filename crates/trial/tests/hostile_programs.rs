//! Tests that a hostile program is reported within bounds of time and memory, that what it says cannot pose as words of the lab, and
//! that nothing of it is left.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fencepost_rig::Interrupt;
use fencepost_trial::history::{Event, History, What};
use fencepost_trial::holds::{self, LockWatch, Scenario, Trial};
use fencepost_trial::processes::NoVerdict;
use fencepost_trial::sale::{self, Sale, SaleWatch};
use fencepost_trial::strategy;

/// Far more than a trial of these subjects needs on a busy machine, and far less than it took before output was bounded.
const SOON: Duration = Duration::from_secs(30);
/// What the lab may need at most. A flood that is kept fills gigabytes.
const MEMORY_KB_MAX: u64 = 256 * 1024;

const READY: &str = r#"read init; echo '{"type":"init_ok"}'; read order;"#;
/// Sets `op` to the number of the request in `order`.
const OP: &str = r#"op=${order#*'"op":'}; op=${op%%[,\}]*};"#;

struct Brief;

const ANSWER_TIMEOUT: Duration = Duration::from_millis(700);

impl SaleWatch for Brief {
    fn answer_timeout(&self) -> Duration {
        ANSWER_TIMEOUT
    }
}

impl LockWatch for Brief {
    fn answer_timeout(&self) -> Duration {
        ANSWER_TIMEOUT
    }
}

fn shell(script: &str) -> impl Fn() -> Command {
    move || {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }
}

/// Runs a sale with one buyer. With the default timeout, waiting for a lost answer alone would take longer than [`SOON`].
fn sale(script: &str) -> Result<History, NoVerdict> {
    in_bounds(|| {
        let sale = Sale {
            concurrency: 1,
            ..Sale::new(strategy::find("safe").unwrap(), 7)
        };
        sale::run(&sale, &shell(script), None, &mut (), Interrupt::never())
    })
}

fn lock_trial(script: &str, watch: &mut dyn LockWatch) -> Result<History, NoVerdict> {
    in_bounds(|| {
        let mut trial = Trial::new(Scenario::TtlEdge, strategy::find("safe").unwrap(), 7);
        (trial.ttl_ms, trial.work_ms) = (200, 300);
        holds::run(&trial, &shell(script), None, watch, Interrupt::never())
    })
}

fn in_bounds<T>(run: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = run();
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak: u64 = peak.unwrap().trim_end_matches("kB").trim().parse().unwrap();
    assert!(peak < MEMORY_KB_MAX, "{peak} kB");
    result
}

fn failures<'a>(history: &'a History) -> Vec<&'a str> {
    let failed = |event: &'a Event| match &event.what {
        What::Failed { message, .. } => Some(message.as_str()),
        _ => None,
    };
    history.events.iter().filter_map(failed).collect()
}

/// Returns what the lab says about the only buyer of a sale.
fn said_of_buyer(script: &str) -> String {
    let history = sale(&format!("{READY} {script}")).unwrap();
    let failures = failures(&history);
    assert_eq!(failures.len(), 1, "{failures:?}");
    failures[0].to_owned()
}

/// Returns what the lab says about A, which behaves like this when it is asked for the lock.
fn said_of_holder(script: &str) -> String {
    let history = lock_trial(&format!("{READY} {OP} {script}"), &mut Brief).unwrap();
    let failures = failures(&history);
    assert!(!failures.is_empty());
    failures[0].to_owned()
}

fn is_gone(pid: &str) -> bool {
    let deadline = Instant::now() + SOON;
    let stat = Path::new("/proc").join(pid.trim()).join("stat");
    let lives = || fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
    while lives() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

#[test]
fn a_flood_of_valid_lines_is_cut_off() {
    let flood = r#"yes '{"type":"lost","hold":1}'"#;
    let floods = "floods the lab with lines that nobody asked for, and was cut off; the last one: \
                  '{\"type\":\"lost\",\"hold\":1}'";
    assert_eq!(said_of_holder(flood), floods);
    let said = said_of_buyer(flood);
    assert!(said.starts_with("answered another request: "), "{said}");
}

#[test]
fn a_flood_while_holding_is_cut_off() {
    let script = format!(
        r#"{READY} {OP} echo '{{"type":"acquired","op":'$op',"hold":1}}'; read step;
        yes '{{"type":"lost","hold":1}}'"#
    );
    let history = lock_trial(&script, &mut ()).unwrap();
    assert!(failures(&history)[0].starts_with("floods the lab "));
    assert!(history.events.len() < 1_000, "{}", history.events.len());
}

#[test]
fn a_flood_before_the_trial_is_the_fault_of_the_program() {
    // B is not ready when A speaks again.
    let flood =
        r#"read init; case $init in *'"id":"A"'*) yes '{"type":"init_ok"}';; esac; sleep 1000"#;
    match lock_trial(flood, &mut ()).unwrap_err() {
        NoVerdict::NotReady { what, .. } => {
            assert_eq!(
                what,
                r#"sent another line after init_ok: '{"type":"init_ok"}'"#
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_line_without_an_end_is_an_invalid_message() {
    let endless = r"tr '\0' x </dev/zero";
    let expected = format!(
        "sent an invalid message (longer than 16 KiB): '{}…'",
        "x".repeat(120)
    );
    assert_eq!(said_of_buyer(endless), expected);
    assert_eq!(said_of_holder(endless), expected);
    match sale(&format!("read init; {endless}")).unwrap_err() {
        NoVerdict::NotReady { what, .. } => assert_eq!(what, expected),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_child_of_the_program_ends_with_the_trial_even_in_a_session_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let flees = format!(
        r#"setsid sh -c 'echo $$ >{0}.new; mv {0}.new {0}; exec sleep 1000' >/dev/null 2>&1 </dev/null &
        while ! test -e {0}; do sleep 0.01; done;
        echo '{{"type":"purchased","op":1,"outcome":"no_stock"}}'; read bye"#,
        file.display()
    );
    sale(&format!("{READY} {flees}")).unwrap();
    assert!(is_gone(&fs::read_to_string(&file).unwrap()));
}

#[test]
fn the_end_of_a_program_is_seen_although_its_child_keeps_the_output_open() {
    for script in [
        "sleep 1000 & echo tired >&2; exit 3",
        "setsid sleep 1000 & echo tired >&2; exit 3",
    ] {
        assert_eq!(said_of_buyer(script), "ended with 3: 'tired'", "{script}");
        assert_eq!(said_of_holder(script), "ended with 3: 'tired'", "{script}");
    }
}

#[test]
fn what_a_program_says_cannot_pose_as_words_of_the_lab() {
    let forged = r#"printf '{"type":"error","op":%s,"definite":false,"message":"no\\nHELD   all is well\\u001b[2J\\u2028\\u202e"}\n' $op"#;
    let harmless = r"no\nHELD   all is well\u{1b}[2J\u{2028}\u{202e}";
    assert_eq!(said_of_holder(&format!("{forged}; read bye")), harmless);
    assert_eq!(said_of_buyer(&format!("{OP} {forged}; read bye")), harmless);
    let unknown = r#"printf '{"type":"x\\nHELD   all is well"}\n'; read bye"#;
    let said = said_of_buyer(unknown);
    assert!(!said.contains('\n'), "{said}");
    assert!(said.contains(r"`x\nHELD"), "{said}");
    let init = r#"read init; printf '{"type":"error","definite":true,"message":"a\\nb"}\n'; read"#;
    match sale(init).unwrap_err() {
        NoVerdict::Store(message) => assert_eq!(message, r"a\nb"),
        other => panic!("{other:?}"),
    }
    match sale(r"read init; printf 'a\033[2Jb\n' >&2; exit 1").unwrap_err() {
        NoVerdict::NotReady { last_words, .. } => assert_eq!(last_words, [r"a\u{1b}[2Jb"]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn whoever_says_half_a_line_or_nothing_or_something_else_is_given_up() {
    let silent = "no answer for 0 s";
    assert_eq!(said_of_holder("read bye; sleep 1000"), silent);
    assert_eq!(
        said_of_holder(r#"printf '{"type":"acq'; sleep 1000"#),
        silent
    );
    let half = said_of_holder(r#"printf '{"type":"acq'"#);
    assert!(half.starts_with("sent an invalid message (EOF "), "{half}");
    let other = said_of_holder(r#"echo '{"type":"refused","op":99}'; read bye"#);
    assert!(other.starts_with("answered another request: "), "{other}");
}

#[test]
fn whoever_ignores_signals_is_gone_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let deaf = format!(
        "trap '' TERM INT HUP QUIT; echo $$ >{}; while :; do sleep 1000; done",
        file.display()
    );
    assert_eq!(said_of_holder(&deaf), "no answer for 0 s");
    assert!(is_gone(&fs::read_to_string(&file).unwrap()));
}
