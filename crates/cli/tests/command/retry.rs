//! Tests of `retry`, which compares ways of waiting.

use std::time::{Duration, Instant};

use fencepost_trial::report::json::retry as json;
use fencepost_trial::retry::{Comparison, Judged};
use fencepost_trial::saved::Saved;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::{Ran, fencepost, finish, run, shape};

/// A small comparison with enough work that every process finds the lock taken.
const SMALL: &str = "retry --concurrency=6 --stock=3 --delay=30000 --seed 7041";

fn small(more: &str) -> Ran {
    let ran = run(&format!("{SMALL} {more}"));
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    ran
}

#[test]
fn four_ways_of_waiting_are_compared() {
    let ran = small("");
    let mut lines = ran.stdout.lines();
    assert_eq!(
        lines.next().unwrap(),
        "retry   6 processes want one lock, stock 3: what does each way of waiting cost?"
    );
    assert_eq!(
        lines.next().unwrap(),
        "  lock safe   TTL 2,000 ms   at most 15 retries within 10 s   delay 30,000 µs   store sqlite (one machine)   seed 7041"
    );
    let shape = shape(&ran.stdout);
    let table = "
schedule duration successes avg retries fairness σ lock ops idle
fixed N ms N ms N N N ms N N %
exponential N·Nⁿ, cap N s N ms N N N ms N N %
exponential + full jitter N ms N N N ms N N %
waiting line N ms N N N ms N N %

fixed ";
    assert!(shape.contains(table), "{shape}");
    assert!(shape.contains("\nbars duration until all N had an answer\n"));
    assert!(
        ran.stdout
            .contains("\nHELD   All four sold 3 of 3. In this run "),
        "{}",
        ran.stdout
    );
    assert!(
        shape.contains("of N processes found the lock taken at first try, under every schedule\n"),
        "{shape}"
    );
    assert!(shape.contains("\nlimits one run each; "), "{shape}");
}

#[test]
fn quiet_leaves_the_results_and_verbose_tells_every_attempt() {
    let ran = small("--quiet --max-retries 100");
    for removed in ["█", "bars  ", "lower = all wait alike"] {
        assert!(!ran.stdout.contains(removed), "{removed}");
    }
    assert!(ran.stdout.contains("  waiting line  ") && ran.stdout.contains("\nHELD  "));
    let attempts = |text: &str| text.lines().filter(|line| line.contains("  proc_")).count();
    assert_eq!(attempts(&ran.stdout), 0);
    assert_eq!(attempts(&small("-v").stdout), 4 * 6);
}

#[test]
fn the_document_says_the_same_and_the_history_can_be_judged_again() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("run.jsonl");
    let output = folder.path().join("report.json");
    let ran = small(&format!(
        "--json --history {} --output {}",
        history.display(),
        output.display()
    ));
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    let written: Value = serde_json::from_str(&std::fs::read_to_string(output).unwrap()).unwrap();
    assert_eq!(document, written);

    let runs = document["runs"].as_array().unwrap();
    let names: Vec<&str> = runs
        .iter()
        .map(|run| run["schedule"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "fixed 100 ms",
            "exponential 100·2ⁿ, cap 5 s",
            "exponential + full jitter",
            "waiting line"
        ]
    );
    for run in runs {
        let sold = run["entries"].as_array().unwrap().iter();
        assert_eq!(sold.filter(|entry| entry["success"] == true).count(), 3);
        assert_eq!(
            (&run["successes"], &run["final_stock"]),
            (&3.into(), &0.into())
        );
        let idle = run["idle"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&idle), "{idle}");
        // Six processes have acquired and released the lock; those that tried more often made more requests.
        assert!(run["lock_ops"].as_u64().unwrap() >= 12);
    }
    assert_eq!(runs[3]["average_retries"], 0.0);
    assert_eq!(document["verdict"]["outcome"], "HELD");

    let text = std::fs::read(&history).unwrap();
    let saved = Saved::read(text.as_slice()).unwrap();
    assert!(saved.history.events.is_sorted_by_key(|event| event.at_ns));
    let comparison = Comparison::of(&saved.history).unwrap();
    let judged = Judged::of(&comparison, saved.history);
    assert_eq!(json::report(&judged), document);

    let checked = run(&format!("check {}", history.display()));
    assert_eq!(checked.code, 0, "{}", checked.stderr);
    assert!(
        checked.stdout.contains(
            "All four sold 3 of 3. Judged again from the file alone: the recorded verdict stands."
        ),
        "{}",
        checked.stdout
    );
    assert!(checked.stdout.contains("no oversell"), "{}", checked.stdout);
}

#[test]
fn who_may_not_retry_gives_up_and_the_report_says_so() {
    let ran = run("retry --concurrency=6 --stock=6 --delay=30000 --max-retries=0");
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let shape = shape(&ran.stdout);
    assert!(
        shape.contains("\nHELD Orders and stock agree every time. Sold too few: fixed N of N, "),
        "{shape}"
    );
    assert!(
        shape.contains("fixed: N processes gave up after N retries\n"),
        "{shape}"
    );
    assert!(!shape.contains("the waiting line N of N"), "{shape}");
}

/// The defaults end soon, and say what they leave out.
#[test]
fn whoever_is_cut_short_is_named_with_the_command_that_lets_it_finish() {
    // Everybody returns in step, and one is served each time.
    let ran = run("retry --concurrency=8 --stock=8 --delay=100000 --budget 1s --seed 7");
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let shape = shape(&ran.stdout);
    assert!(
        shape.contains(
            "plain exponential takes longer than that: N of N had not had the lock after N s\n"
        ),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains("  next      fencepost retry --lock=safe --stock=8 --concurrency=8 --delay 100000 --budget 60000 --seed 7\n"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_budget_ends_the_waiting() {
    let started = Instant::now();
    let ran = run("retry --concurrency=8 --stock=8 --delay=200000 --budget 300 --quiet");
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stdout.contains("fixed: ")
            && ran
                .stdout
                .contains(" gave up when the budget of 300 ms was used up"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("at most 15 retries within 300 ms"));
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_lock_that_does_not_exclude_is_convicted() {
    let ran = run("retry --lock=mutex --concurrency=6 --stock=3 --delay=30000");
    assert_eq!(ran.code, 1, "{}", ran.stdout);
    assert!(
        ran.stdout
            .contains("\nBROKEN   With fixed: 6 orders for a stock of 3."),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("  – mutex has no waiting line\n"));
    assert!(ran.stdout.contains("\n  proof     #"), "{}", ran.stdout);
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (arguments, what) in [
        ("--lock=none", "none has no lock to wait for"),
        ("--lock=atomic", "atomic has no lock to wait for"),
        ("--max-retries -1", "−1 retries are too few"),
        ("--ttl 5", "a TTL of 5 ms is too short"),
        ("--budget 0", "a budget of 0 ms is too short"),
        (
            "--output x --history x",
            "--output and --history name the same file",
        ),
    ] {
        let ran = run(&format!("retry {arguments}"));
        assert_eq!(ran.code, 64, "{arguments}");
        assert!(
            ran.stderr.starts_with(&format!("error: {what}\n")),
            "{arguments}: {}",
            ran.stderr
        );
    }
}

#[test]
fn ctrl_c_says_in_which_round_it_came() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("run.jsonl");
    let child = fencepost("retry --concurrency=4 --stock=4 --delay=10000000 --ttl 60000 --history")
        .arg(&history)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while !std::fs::read_to_string(&history)
        .unwrap_or_default()
        .contains(r#""event":"purchase","#)
    {
        assert!(started.elapsed() < Duration::from_secs(60), "in vain");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let ran = finish(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 130);
    assert!(
        ran.stderr
            .starts_with("interrupted: fixed: 0 of 4 attempts were answered. No verdict.\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn on_redis_the_store_counts_as_many_lock_operations_as_the_table_says() {
    use fencepost_rig::{Redis, ServerError};
    let server = match Redis::start() {
        Ok(server) => server,
        Err(ServerError::NotInstalled { .. }) => {
            println!("skipped: no redis-server ({})", Redis::INSTALL);
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let timeout = std::time::Duration::from_secs(20);
    let mut connection = fencepost_rig::resp::Connection::open(server.address(), timeout).unwrap();
    connection.ask(&["CONFIG", "RESETSTAT"]).unwrap();
    let ran = run(&format!(
        "retry --lock=watchdog --stock=3 --concurrency=6 --json --store {}",
        server.url()
    ));
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let rows = report["runs"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    let shown: u64 = rows
        .iter()
        .map(|row| row["lock_ops"].as_u64().unwrap())
        .sum();
    let stats = connection.ask(&["INFO", "commandstats"]).unwrap();
    let fencepost_rig::resp::Value::Text(stats) = stats else {
        panic!("{stats:?}")
    };
    let calls = |command: &str| {
        let line = stats.lines().find(|line| line.starts_with(command));
        let calls = line.and_then(|line| line.split("calls=").nth(1)?.split(',').next());
        calls.map_or(0, |calls| calls.parse::<u64>().unwrap())
    };
    // One call was made before the trial, to check whether scripts are supported.
    let counted = calls("cmdstat_evalsha:") + calls("cmdstat_eval:") - 1;
    assert_eq!(shown, counted, "{stats}");
}

/// A lease that ends during the work lets the next buyer in, which would accuse a lock that does what it promises.
#[test]
fn work_that_may_outlast_the_lease_is_refused() {
    let ran = run("retry --ttl 100 --delay 300000");
    assert_eq!((ran.code, ran.stdout.as_str()), (64, ""), "{}", ran.stderr);
    assert_eq!(
        ran.stderr,
        "error: the work takes longer than half the lease\n  where     --delay 300000 --ttl 100\n  \
         effect    none: the trial had not begun\n  try       --ttl 601\n"
    );
    let usual = run("retry --delay 1000000");
    assert_eq!(usual.code, 64, "{}", usual.stdout);
    let place = "  where     --delay 1000000 --ttl 2000\n";
    assert!(usual.stderr.contains(place), "{}", usual.stderr);
}
