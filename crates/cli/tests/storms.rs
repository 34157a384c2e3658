//! Tests that storms accuse no right lock, on every store, and convict wrong ones.
//!
//! `FENCEPOST_SOAK=1` makes each storm last ten minutes, and adds the stores on which a short storm would be too long for every day.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use fencepost_rig::{ClockShim, Redis};
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;

/// A lock that must be acquitted, and its store.
const RIGHT: [(&str, &str); 6] = [
    ("sqlite", "watchdog"),
    ("sqlite", "fenced"),
    ("sqlite", "safe"),
    ("redis", "fenced"),
    ("redis", "watchdog"),
    (
        "sqlite",
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../subjects/lease"),
    ),
];
/// The stores that only the soak tries. Their leases last for seconds, or their servers take long to start.
const SOAKED: [(&str, &str); 6] = [
    ("redis", "safe"),
    ("postgres", "fenced"),
    ("postgres", "watchdog"),
    ("redlock", "fenced"),
    ("etcd", "fenced"),
    ("zk", "fenced"),
];
/// A storm that shows nothing, because the machine was too busy, is repeated up to this many times.
const REPEATS: u64 = 4;

fn main() {
    let has_redis = Redis::is_installed();
    let mut arguments = Arguments::from_args();
    // Ten minutes each: the long storms run side by side.
    let at_once = if fencepost_rig::is_soak() { 5 } else { 1 };
    arguments.test_threads = arguments.test_threads.or(Some(at_once));
    let soaked = SOAKED.into_iter().filter(|_| fencepost_rig::is_soak());
    let right = RIGHT.into_iter().chain(soaked).map(|(store, lock)| {
        let name = lock.rsplit('/').next().unwrap();
        let name = format!("storms::{store}::{name}::is_acquitted");
        let is_there = store != "redis" || has_redis;
        Trial::test(name, move || acquit(store, lock)).with_ignored_flag(!is_there)
    });
    let mut trials: Vec<Trial> = right.collect();
    trials.push(Trial::test(
        "storms::a_conviction_has_a_shortest_beginning",
        || convict("blind-delete", 1),
    ));
    trials.push(Trial::test(
        "storms::a_killed_holder_without_a_lease",
        || convict("late-expiry", 3),
    ));
    trials.push(
        Trial::test("storms::each_fault_has_a_witness", each_fault_has_a_witness)
            .with_ignored_flag(!has_redis),
    );
    trials.push(Trial::test(
        "storms::smaller_plans_are_run_after_a_conviction",
        smaller_plans,
    ));
    trials.push(Trial::test(
        "storms::a_beginning_that_cannot_be_saved_does_not_cost_the_verdict",
        cannot_save_the_beginning,
    ));
    libtest_mimic::run(&arguments, trials).exit();
}

fn storm(arguments: &str) -> (i32, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_fencepost"))
        .args(arguments.split_whitespace())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let report = serde_json::from_str(&text);
    let report = report.unwrap_or_else(|_| panic!("{arguments}: {stderr}{text}"));
    (output.status.code().unwrap(), report)
}

fn acquit(store: &str, lock: &str) -> Result<(), Failed> {
    let lasting = if fencepost_rig::is_soak() {
        "600s"
    } else {
        "6s"
    };
    let mut last = String::new();
    for seed in 0..REPEATS {
        let arguments = format!(
            "trial storm --lock={lock} --store {store} --for {lasting} --seed {seed} --json"
        );
        let (code, report) = storm(&arguments);
        let verdict = &report["verdict"];
        last = format!("{arguments}: {verdict:#}");
        match code {
            0 => {
                println!("{store}, {lock}: {}", verdict["witness"]);
                return Ok(());
            }
            2 => {}
            _ => return Err(format!("a false alarm: {last}").into()),
        }
    }
    Err(format!("no storm shows anything: {last}").into())
}

fn convict(lock: &str, code: i32) -> Result<(), Failed> {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("run.jsonl");
    let arguments = format!(
        "trial storm --lock={lock} --for 5s --ttl 300 --runs 3 --json --history {}",
        history.display()
    );
    let (ended, report) = storm(&arguments);
    assert_eq!(ended, code, "{arguments}: {:#}", report["verdict"]);
    assert_eq!(report["runs"]["of"], 3);
    assert!(report["runs"]["convicted"].as_u64().unwrap() > 0);
    let shortest = &report["shortest_conviction"];
    let beginning = history.with_extension("prefix.jsonl");
    let text = std::fs::read_to_string(&beginning).unwrap();
    // Between the header and the seal there is one line per event.
    assert_eq!(shortest["events"], text.lines().count() - 2);
    let whole = std::fs::read_to_string(&history).unwrap();
    assert_eq!(shortest["of"], whole.lines().count() - 2);
    for file in [&history, &beginning] {
        let (again, judged) = storm(&format!("check --json {}", file.display()));
        assert_eq!((again, &judged["stands"]), (code, &Value::Bool(true)));
    }
    Ok(())
}

/// Runs storms with one kind of faults each, and looks for what the lab saw of them.
fn each_fault_has_a_witness() -> Result<(), Failed> {
    let seen = |report: &Value, list: &str, field: &str| -> BTreeSet<String> {
        let all = report[list].as_array().into_iter().flatten();
        let names = all.filter_map(|entry| entry[field].as_str());
        names.map(str::to_owned).collect()
    };
    let clock: &[&str] = if ClockShim::is_available() {
        &["clock_read", "clock_right"]
    } else {
        &[]
    };
    let kinds: [(&str, &[&str]); 5] = [
        ("kill", &["killed"]),
        ("pause", &["stopped", "continued"]),
        ("cut", &["cut_off", "reconnected"]),
        ("delay", &["distant", "reconnected"]),
        ("clock", clock),
    ];
    // On a busy machine, a storm may lack one. Repeats it with the next seed until `check` has seen all.
    let repeat = |flags: &str, check: &dyn Fn(&str, &Value) -> Result<(), String>| {
        let folder = tempfile::tempdir().unwrap();
        let history = folder.path().join("run.jsonl");
        let mut last = Ok(());
        for seed in 0..REPEATS {
            let arguments = format!(
                "trial storm --store redis --lock=fenced --ttl 300 {flags} --seed {seed} --json --history {}",
                history.display()
            );
            let (_, mut report) = storm(&arguments);
            // The report does not mention it.
            let text = std::fs::read_to_string(&history).unwrap();
            report["has_stalled"] = text.contains("\"event\":\"stalled\"").into();
            last = check(&arguments, &report);
            if last.is_ok() {
                break;
            }
        }
        last
    };
    for (kind, witnesses) in kinds.into_iter().filter(|(_, seen)| !seen.is_empty()) {
        repeat(
            &format!("--for 4s --faults {kind}"),
            &|arguments, report| {
                let faults = seen(report, "faults", "fault");
                assert_eq!(seen(report, "servers", "change"), BTreeSet::new());
                // A request that fails because of a cut costs its process its life. So does one that a busy machine delays.
                let is_alone = kind != "cut" && kind != "delay" && kind != "kill";
                let has_stalled = report["has_stalled"] == true;
                assert!(
                    !is_alone || has_stalled || !faults.contains("killed"),
                    "{arguments}: {faults:?}"
                );
                let has = |witness: &&str| faults.contains(*witness);
                if witnesses.iter().all(has) {
                    return Ok(());
                }
                Err(format!("{arguments}: {faults:?}"))
            },
        )?;
    }
    repeat("--for 6s --faults server", &|arguments, report| {
        let changes = seen(report, "servers", "change");
        let expected = ["continued", "killed", "restarted", "silent", "stopped"];
        if changes.iter().eq(expected.iter()) {
            return Ok(());
        }
        Err(format!("{arguments}: {changes:?}"))
    })?;
    Ok(())
}

/// Looks for smaller plans of faults for a lock that is convicted without any fault, or with few.
fn smaller_plans() -> Result<(), Failed> {
    let arguments = "trial storm --lock=blind-delete --for 4s --ttl 300 --shrink 40s --json";
    for _ in 0..REPEATS {
        let (_, report) = storm(arguments);
        let smaller = &report["smaller_plans"];
        let Some(tried) = smaller["tried"].as_array() else {
            continue;
        };
        let first = &tried[0];
        assert!(first["label"].as_str().unwrap().starts_with("all faults"));
        let Some(smallest) = smaller["smallest"].as_u64() else {
            continue;
        };
        let smallest = &tried[smallest as usize];
        let count = |plan: &Value| plan["faults"].as_array().unwrap().len();
        assert!(count(smallest) <= count(first), "{smaller:#}");
        assert!(smallest["convicted"].as_u64().unwrap() > 0);
        assert!(tried.iter().all(|plan| plan["runs"].as_u64().unwrap() <= 5));
        return Ok(());
    }
    Err("no storm convicts the lock, or not again".into())
}

fn cannot_save_the_beginning() -> Result<(), Failed> {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("run.jsonl");
    std::fs::create_dir(history.with_extension("prefix.jsonl")).unwrap();
    let arguments = "trial storm --lock=blind-delete --for 5s --ttl 300 --runs 3 --history";
    let output = Command::new(env!("CARGO_BIN_EXE_fencepost"))
        .args(arguments.split_whitespace())
        .arg(&history)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(74), "{stdout}{stderr}");
    assert!(stdout.contains("\nBROKEN   "), "{stdout}");
    let left = format!("the whole history is in {}", history.display());
    assert!(stderr.contains(&left), "{stderr}");
    Ok(())
}
