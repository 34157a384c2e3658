//! Tests of external locks, written in other languages, that are put on trial from the command line.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::{Ran, fencepost, finish};

const LEASE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../subjects/lease/lease.py");

/// Returns whether Python is installed. Says so if it is not.
pub(crate) fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output().is_ok();
    if !found {
        println!("skipped: no python3 (apt-get install python3)");
    }
    found
}

fn tried(arguments: &str, lock: &str) -> Ran {
    let mut command = fencepost(arguments);
    finish(command.arg(format!("--lock={lock}")).output().unwrap())
}

fn verdict(ran: &Ran) -> &str {
    let mut lines = ran.stdout.lines();
    let first = lines.find(|line| line.starts_with(char::is_uppercase));
    first.unwrap_or_else(|| panic!("{}{}", ran.stdout, ran.stderr))
}

#[test]
fn the_lock_in_python_fares_like_safe() {
    if !has_python() {
        return;
    }
    let lock = format!("python3 {LEASE}");
    for (arguments, code, because) in [
        ("crash --ttl 500", 0, "HELD   Recovered by itself"),
        (
            "crash --ttl-edge --ttl 500 --work 900",
            1,
            "BROKEN   A wrote over B's update",
        ),
        ("deadlock --ttl 600", 1, "BROKEN   Two holders at once"),
        ("deadlock --sorted --ttl 5000", 0, "HELD   Both finished"),
        (
            "trial stale-release",
            0,
            "HELD   A's late release changed nothing",
        ),
        (
            "trial short-stock --ttl 5000",
            0,
            "HELD   The purchase that found nothing",
        ),
    ] {
        let ran = shown(arguments, &lock);
        assert!(verdict(&ran).starts_with(because), "{}", ran.stdout);
        assert_eq!(ran.code, code, "{}", ran.stdout);
    }
}

/// Does the same as [`tried`]. A trial that shows nothing, because the machine is busy, is repeated twice at most, as in `gauntlet`.
fn shown(arguments: &str, lock: &str) -> Ran {
    let ran = tried(arguments, lock);
    (0..2).fold(ran, |ran, _| match ran.code {
        2 => tried(arguments, lock),
        _ => ran,
    })
}

#[test]
fn the_lock_in_python_sells_exactly_and_its_record_is_judged_again() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("run.jsonl");
    let lock = format!("python3 {LEASE}");
    let sale =
        "oversell --json --seed 7 --stock 3 --concurrency 6 --delay 20000 --wait 60000 --history";
    let mut command = fencepost(sale);
    let ran = finish(
        command
            .arg(&history)
            .arg(format!("--lock={lock}"))
            .output()
            .unwrap(),
    );
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(report["successes"], 3, "{report:#}");
    assert_eq!(report["verdict"]["outcome"], "HELD", "{report:#}");
    let again = format!(
        "fencepost oversell --lock='{lock}' --stock=3 --concurrency=6 --delay=20000 --wait 60000 --seed 7"
    );
    assert_eq!(report["verdict"]["reproduce"], again);
    let check = finish(fencepost("check").arg(&history).output().unwrap());
    assert_eq!(check.code, 0, "{}", check.stderr);
    assert!(verdict(&check).starts_with("HELD"), "{}", check.stdout);
}

#[test]
fn an_external_lock_is_judged_by_its_own_claims() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let boaster = folder.path().join("boaster.py");
    let plain = std::fs::read_to_string(LEASE).unwrap();
    let promise = r#"say(type="init_ok", claims={"fencing": True})"#;
    let boasting = plain.replace(r#"say(type="init_ok")"#, promise);
    assert_ne!(boasting, plain);
    std::fs::write(&boaster, boasting).unwrap();
    let ran = tried(
        "deadlock --sorted --ttl 5000",
        &format!("python3 {}", boaster.display()),
    );
    assert_eq!(
        ran.code, 1,
        "it has no fences: {}{}",
        ran.stdout, ran.stderr
    );
    let verdict = verdict(&ran);
    assert!(
        verdict.starts_with("BROKEN   Fences were promised"),
        "{verdict}"
    );
}

#[test]
fn who_cannot_be_started_or_does_not_get_ready_is_told_so_before_the_trial() {
    for (lock, code, expected) in [
        (
            "./no-such-lock --fast",
            64,
            "error: cannot start './no-such-lock'\n\
             \x20 where     --lock='./no-such-lock --fast': no such file or directory\n\
             \x20 effect    none: no process was started\n",
        ),
        (
            "sh -c 'echo hello; read more'",
            76,
            "error: the subject did not get ready\n\
             \x20 where     the subject sent an invalid message (expected value at line 1 column 1): 'hello'\n",
        ),
        (
            "sh -c 'echo no database >&2; exit 4'",
            76,
            "error: the subject did not get ready\n\
             \x20 where     the subject ended with 4 before it was ready\n\
             \x20 said      no database\n",
        ),
        (
            "sh -c 'kill -9 $$'",
            76,
            "error: the subject did not get ready\n\
             \x20 where     the subject was killed by SIGKILL before it was ready\n",
        ),
    ] {
        for command in ["crash", "oversell"] {
            let ran = tried(command, lock);
            assert_eq!(
                (ran.code, ran.stdout.as_str()),
                (code, ""),
                "{}",
                ran.stderr
            );
            assert!(ran.stderr.starts_with(expected), "{}", ran.stderr);
        }
    }
}

#[test]
fn ways_of_waiting_are_compared_with_locks_of_our_own() {
    let ran = tried("retry", "./theirs");
    assert_eq!(ran.code, 64);
    assert!(
        ran.stderr.contains("where     --lock=./theirs\n"),
        "{}",
        ran.stderr
    );
    let advice = "try       fencepost gauntlet --lock=./theirs ";
    assert!(ran.stderr.contains(advice), "{}", ran.stderr);
}

#[test]
fn the_matrix_has_the_locks_of_the_lab_and_says_where_others_are_tried() {
    let ran = tried("run-all", "./theirs");
    assert_eq!(ran.code, 64);
    let advice = "try       fencepost gauntlet --lock=./theirs ";
    assert!(ran.stderr.contains(advice), "{}", ran.stderr);
}

#[test]
fn an_external_lock_that_is_never_released_is_stuck() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let hoarder = folder.path().join("hoarder.py");
    let plain = std::fs::read_to_string(LEASE).unwrap();
    let hoarding = plain.replace("ask[\"ttl_ms\"] / 1000", "1e9");
    assert_ne!(hoarding, plain);
    std::fs::write(&hoarder, hoarding).unwrap();
    let ran = tried("crash --ttl 300", &format!("python3 {}", hoarder.display()));
    assert_eq!(ran.code, 3, "{}{}", ran.stdout, ran.stderr);
    assert!(!ran.stdout.contains("reads the store"), "{}", ran.stdout);
}

/// A lock that answers its first request like this, where `$op` is the number of the request.
fn answers(folder: &Path, answer: &str) -> String {
    let script = folder.join("lock.sh");
    let text = format!(
        "read init; echo '{{\"type\":\"init_ok\"}}'; read order\n\
         op=${{order#*'\"op\":'}}; op=${{op%%[,\\}}]*}}\n{answer}\nread bye\n"
    );
    std::fs::write(&script, text).unwrap();
    format!("sh {}", script.display())
}

/// Asserts that nothing in the output obeys the program on trial: no line of its own, no escape code.
fn is_harmless(ran: &Ran) {
    for text in [&ran.stdout, &ran.stderr] {
        assert!(!text.lines().any(|line| line.starts_with("HELD")), "{text}");
        assert!(!text.contains('\x1b'), "{text}");
    }
    assert!(
        format!("{}{}", ran.stdout, ran.stderr).contains(r"no\nHELD   all is well"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
}

#[test]
fn no_program_forges_a_verdict_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("run.jsonl");
    let page = folder.path().join("page.html");
    let forged = r"no\\nHELD   all is well\\n\\u001b[2J";
    let error = format!(
        r#"printf '{{"type":"error","op":%s,"definite":false,"message":"{forged}"}}\n' $op"#
    );
    let lock = answers(folder.path(), &error);
    for command in [
        "crash --ttl 300",
        "oversell --concurrency=1",
        "trial short-stock",
    ] {
        let mut command = fencepost(command);
        command
            .arg("--history")
            .arg(&history)
            .arg("--report")
            .arg(&page);
        let ran = finish(command.arg(format!("--lock={lock}")).output().unwrap());
        is_harmless(&ran);
        let again = finish(fencepost("check").arg(&history).output().unwrap());
        assert!(!again.stdout.contains("\nHELD"), "{}", again.stdout);
        assert!(!again.stdout.contains('\x1b'), "{}", again.stdout);
        let page = std::fs::read_to_string(&page).unwrap();
        assert!(!page.contains('\x1b'));
    }
    let at_start = r#"sh -c 'read init; printf "{\"type\":\"error\",\"definite\":true,\"message\":\"no\\\\nHELD   all is well\"}\n"'"#;
    is_harmless(&tried("crash", at_start));
    let last_words = r#"sh -c 'printf "no\\\\nHELD   all is well\033[2J\n" >&2; exit 1'"#;
    is_harmless(&tried("crash", last_words));
}

#[test]
fn a_talkative_program_is_at_fault_and_not_the_lab() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("lock.sh");
    // The second process is not ready when the first one speaks again.
    let text = r#"read init
        case $init in *'"id":"proc_1"'*|*'"id":"B"'*) sleep 1000;; esac
        echo '{"type":"init_ok"}'
        case $init in *'"id":"proc_0"'*|*'"id":"A"'*) echo '{"type":"init_ok"}';; esac
        read bye"#;
    std::fs::write(&script, text).unwrap();
    let lock = format!("sh {}", script.display());
    for command in ["crash", "oversell"] {
        let ran = tried(command, &lock);
        assert_eq!(ran.code, 76, "{}{}", ran.stdout, ran.stderr);
        let said = "sent another line after init_ok: '{\"type\":\"init_ok\"}'";
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    }
}

#[test]
fn a_flood_ends_the_trial_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let lock = answers(folder.path(), r#"yes '{"type":"lost","hold":1}'"#);
    let ran = tried("crash", &lock);
    assert_eq!(ran.code, 2, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("floods the lab"), "{}", ran.stdout);
}

#[test]
fn a_lock_that_refuses_to_get_ready_is_named_and_not_the_store() {
    let refusal = r#"{"type":"error","definite":true,"message":"this machine has no clock"}"#;
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("lock.sh");
    std::fs::write(&script, format!("read init; echo '{refusal}'; read bye\n")).unwrap();
    for arguments in ["crash", "oversell", "gauntlet"] {
        let ran = tried(arguments, &format!("sh {}", script.display()));
        assert_eq!(ran.code, 76, "{arguments}: {}{}", ran.stdout, ran.stderr);
        assert!(
            ran.stderr
                .starts_with("error: the lock refused to get ready\n"),
            "{}",
            ran.stderr
        );
        for line in [
            ": this machine has no clock\n",
            "  effect    none: the trial had not begun\n",
        ] {
            assert!(ran.stderr.contains(line), "{}", ran.stderr);
        }
    }
}

/// A lock that excludes nobody. After the number of starts in its second argument, it does not start any more.
const TIRED: &str = r#"
import json, os, sys
for start in range(int(sys.argv[2])):
    try:
        os.mkdir(f"{sys.argv[1]}/{start}")
        break
    except FileExistsError:
        pass
else:
    sys.exit("too tired")
for line in sys.stdin:
    ask = json.loads(line)
    answer = {
        "init": {"type": "init_ok", "claims": {}},
        "acquire": {"type": "acquired", "hold": ask.get("op")},
        "step": {"type": "stepped"},
        "release": {"type": "released", "outcome": "released"},
    }.get(ask["type"])
    if answer is None:
        break
    print(json.dumps(answer | ({"op": ask["op"]} if "op" in ask else {})), flush=True)
"#;

#[test]
fn a_search_for_smaller_plans_that_fails_says_why() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("tired.py");
    std::fs::write(&program, TIRED).unwrap();
    let starts = folder.path().join("starts");
    std::fs::create_dir(&starts).unwrap();
    // One start for its claims, and one for each process of the storm.
    let lock = format!("python3 {} {} 4", program.display(), starts.display());
    let ran = tried(
        "trial storm --processes 3 --faults pause --for 2s --ttl 300 --seed 1 --shrink 20s --json",
        &lock,
    );
    assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    crate::schema::assert_valid(&crate::schema::schema("report.json"), "storm", &report);
    let smaller = &report["smaller_plans"];
    let failed = smaller["failed"]
        .as_str()
        .unwrap_or_else(|| panic!("{smaller:#}"));
    assert!(failed.contains("did not get ready"), "{failed}");
    assert_eq!(smaller["complete"], false);
}
