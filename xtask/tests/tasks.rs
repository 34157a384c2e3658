//! Drives the program itself, with a cargo that only says what the real one would say.

// Helpers of tests may fail as tests may.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// A search path with a cargo made of shell and installers that install nothing, and a folder for tools that is not the project's.
struct Stage {
    folder: TempDir,
}

impl Stage {
    fn new(cargo: &str) -> Self {
        let stage = Self {
            folder: TempDir::new().unwrap(),
        };
        for installer in ["python3", "npm", "apt-get", "sudo"] {
            stage.add_program(installer, r#"echo "$0" >> "$(dirname "$0")/called""#);
        }
        stage.add_program("cargo", cargo);
        stage
    }

    fn add_program(&self, name: &str, script: &str) {
        // Written by another process: were the file open for writing in this one while a parallel test forks,
        // starting it would fail with "text file busy".
        let write = r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 755 "$0""#;
        let mut shell = Command::new("sh");
        shell
            .args(["-c", write])
            .arg(self.folder.path().join(name))
            .arg(script);
        assert!(shell.status().unwrap().success());
    }

    fn xtask(&self, arguments: &[&str]) -> Command {
        let mut path = vec![self.folder.path().to_owned()];
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command
            .args(arguments)
            .env("CARGO", self.folder.path().join("cargo"))
            .env("PATH", std::env::join_paths(path).unwrap())
            .env("FENCEPOST_TOOLS", self.folder.path().join("tools"))
            .env("FENCEPOST_PREPARED", "1");
        command
    }

    /// The tests alone: no check on the tree has this name.
    fn test(&self) -> Output {
        self.xtask(&["test", "--filter", "no-check-has-this-name"])
            .output()
            .unwrap()
    }
}

fn last_line(output: &Output) -> String {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(text.ends_with('\n'), "{text}");
    text.lines().last().unwrap().to_owned()
}

const WITH_NEXTEST: &str = r#"
case "$*" in
"nextest --version") exit 0 ;;
"nextest run "*" --no-run") exit 0 ;;
"nextest run "*) echo "     Summary [   0.1s] 9 tests run: 8 passed (1 slow), 1 failed, 1 timed out, 2 skipped" >&2; exit 100 ;;
*) echo "test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s" ;;
esac"#;

const WITHOUT_NEXTEST: &str = r#"
case "$*" in
nextest*) exit 101 ;;
*) echo "test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s"
   echo "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s" ;;
esac"#;

#[test]
fn the_last_line_sums_what_all_runners_counted() {
    let output = Stage::new(WITH_NEXTEST).test();
    let line = last_line(&output);
    // One more passed in each of: the documentation, the two snippets.
    assert!(line.starts_with("11 passed, 2 failed, "), "{line}");
    let skipped = line
        .strip_prefix("11 passed, 2 failed, ")
        .unwrap()
        .strip_suffix(" skipped")
        .unwrap();
    assert!(skipped.parse::<u64>().unwrap() > 5, "{line}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_test_of_the_tasks_installs_nothing() {
    let stage = Stage::new(WITHOUT_NEXTEST);
    assert!(stage.test().status.success());
    let called = fs::read_to_string(stage.folder.path().join("called"));
    assert!(called.is_err(), "{called:?}");
    assert!(!stage.folder.path().join("tools").exists());
}

#[test]
fn offline_nothing_is_downloaded() {
    // If this machine lacks what no test can do without, the tests do not begin, but nothing is installed either.
    let called = |flags: &[&str]| {
        let stage = Stage::new(WITHOUT_NEXTEST);
        let arguments = [&["test", "--filter", "no-check-has-this-name"], flags].concat();
        let mut command = stage.xtask(&arguments);
        let output = command.env_remove("FENCEPOST_PREPARED").output().unwrap();
        let tools = stage.folder.path().join("tools");
        let called = fs::read_to_string(stage.folder.path().join("called"));
        (called.unwrap_or_default(), tools.exists(), output)
    };
    let (installers, _, output) = called(&[]);
    assert!(!installers.is_empty(), "{output:?}");
    let (installers, has_tools, output) = called(&["--offline"]);
    assert_eq!((&*installers, has_tools), ("", false), "{output:?}");
}

#[test]
fn without_nextest_cargo_runs_the_tests() {
    let output = Stage::new(WITHOUT_NEXTEST).test();
    assert!(
        last_line(&output).starts_with("28 passed, 0 failed, "),
        "{output:?}"
    );
    assert!(output.status.success());
}

/// The tests end only when something runs beside them.
const TESTS_THAT_WAIT: &str = r#"
beside="$(dirname "$0")/beside"
case "$*" in
"nextest --version" | "nextest run "*" --no-run") exit 0 ;;
"nextest run "*)
   for look in $(seq 600); do [ -e "$beside" ] && break; sleep 0.05; done
   [ -e "$beside" ] || exit 100
   echo "     Summary [   0.1s] 1 test run: 1 passed, 0 skipped" >&2 ;;
*" --doc "*) touch "$beside"
   echo "said by the examples"
   echo "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s" ;;
*) echo "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s" ;;
esac"#;

#[test]
fn what_only_compiles_runs_beside_the_tests_and_is_shown_after_them() {
    let output = Stage::new(TESTS_THAT_WAIT).test();
    assert!(output.status.success(), "{output:?}");
    assert!(last_line(&output).starts_with("4 passed, 0 failed, "));
    let text = String::from_utf8(output.stdout).unwrap();
    let tests = text.find("== tests of the workspace").unwrap();
    let said = text.find("said by the examples").unwrap();
    assert!(tests < said, "{text}");
}

#[test]
fn nothing_run_and_a_failed_build_are_failures() {
    let silent = Stage::new("exit 0").test();
    assert!(
        last_line(&silent).starts_with("0 passed, 0 failed, "),
        "{silent:?}"
    );
    assert_eq!(silent.status.code(), Some(1));
    let broken = Stage::new("echo 'error: could not compile' >&2; exit 101").test();
    assert!(
        last_line(&broken).starts_with("0 passed, 4 failed, "),
        "{broken:?}"
    );
    assert_eq!(broken.status.code(), Some(1));
}

#[test]
fn a_warning_fails_the_documentation() {
    assert!(
        Stage::new("exit 0")
            .xtask(&["doc"])
            .status()
            .unwrap()
            .success()
    );
    let warns = Stage::new("echo 'warning: output filename collision' >&2");
    assert_eq!(warns.xtask(&["doc"]).status().unwrap().code(), Some(1));
}

#[test]
fn an_interruption_ends_the_children_too() {
    // The child below cargo prints its id, and would stay for a minute.
    let stage = Stage::new("sleep 60 & echo \"id $!\"; wait");
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut command = stage.xtask(&["bench", "--filter", "sqlite"]);
        let mut xtask = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(xtask.stdout.take().unwrap()).lines();
        let line = lines
            .find(|line| line.as_ref().unwrap().starts_with("id "))
            .unwrap()
            .unwrap();
        let grandchild = Pid::from_raw(line.strip_prefix("id ").unwrap().parse().unwrap());

        kill(Pid::from_raw(xtask.id() as i32), signal).unwrap();
        assert_eq!(xtask.wait().unwrap().code(), Some(130));
        wait_until(|| !is_running(grandchild));
    }
}

#[test]
fn an_interruption_ends_what_prepares_the_load_too() {
    let sleeps = r#"sleep 60 & echo "$!" > "$(dirname "$0")/new"; mv "$(dirname "$0")/new" "$(dirname "$0")/id"; wait"#;
    // Both the installation of k6 and the build are quiet.
    for program in ["python3", "cargo"] {
        let stage = Stage::new("exit 0");
        stage.add_program(program, sleeps);
        let mut command = stage.xtask(&["load"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut xtask = command.spawn().unwrap();
        let id = stage.folder.path().join("id");
        wait_until(|| id.exists());
        let grandchild = fs::read_to_string(id).unwrap();
        let grandchild = Pid::from_raw(grandchild.trim().parse().unwrap());

        kill(Pid::from_raw(xtask.id() as i32), Signal::SIGTERM).unwrap();
        assert_eq!(xtask.wait().unwrap().code(), Some(130), "{program}");
        wait_until(|| !is_running(grandchild));
    }
}

#[test]
fn an_interruption_starts_no_further_loop_and_shows_those_that_ended() {
    // Of the loops with this name, the one in Redis comes first, and ends at once.
    let stage = Stage::new(
        r#"echo "$*" >> "$(dirname "$0")/started"
case "$*" in
*"--test redis "*) echo "test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s" ;;
*) sleep 60 ;;
esac"#,
    );
    let mut command = stage.xtask(&["soak", "--jobs", "2", "--filter", "attacks"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let xtask = command.spawn().unwrap();
    let started = || {
        let list = fs::read_to_string(stage.folder.path().join("started"));
        list.unwrap_or_default().lines().count()
    };
    wait_until(|| started() == 3);

    kill(Pid::from_raw(xtask.id() as i32), Signal::SIGTERM).unwrap();
    let output = xtask.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(started(), 3, "there are five of them");
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, results) = text.split_once("== results").expect("the table");
    let rows: Vec<Vec<&str>> = results
        .lines()
        .map(|line| line.split_whitespace().collect())
        .filter(|row: &Vec<&str>| !row.is_empty())
        .collect();
    assert_eq!(rows.len(), 3, "{results}");
    assert_eq!(rows[0][..2], ["redis_attacks", "ok"]);
    assert_eq!(rows[1][1], "interrupted");
    assert_eq!(rows[2][1], "interrupted");
}

/// A killed process whose parent is gone may remain as a zombie where nobody reaps it.
fn is_running(process: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    !status.is_empty() && !status.contains("State:\tZ")
}

fn wait_until(condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "waited in vain"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_is_there_is_listed_and_what_is_not_is_an_error() {
    let stage = Stage::new("exit 0");
    let listed = stage.xtask(&["soak", "--list"]).output().unwrap();
    let text = String::from_utf8(listed.stdout).unwrap();
    for name in ["exclusion", "kill", "pause"] {
        assert!(text.contains(name), "{text}");
    }
    assert!(
        !stage
            .xtask(&["soak", "--filter", "nobody"])
            .status()
            .unwrap()
            .success()
    );
    // The loop itself reports no test: it must not pass.
    assert!(
        !stage
            .xtask(&["soak", "--filter", "kill"])
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn no_loop_at_a_time_is_refused() {
    let stage = Stage::new("exit 0");
    let refused = stage.xtask(&["soak", "--list", "--jobs", "0"]).output();
    let refused = refused.unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}

#[test]
fn every_table_of_names_is_filtered_in_the_same_way() {
    let stage = Stage::new("exit 0");
    let listed = |task: &str, filters: &[&str]| {
        let filters = filters.iter().flat_map(|filter| ["--filter", filter]);
        let arguments: Vec<&str> = [task, "--list"].into_iter().chain(filters).collect();
        let output = stage.xtask(&arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let names = text.lines().filter_map(|line| line.split(' ').next());
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    // A whole name selects one, a part of a name several, and the order is that of the table.
    let loops = listed("soak", &["redlock_", "redis_line"]);
    let expected = [
        "redis_line",
        "redlock_attacks",
        "redlock_fences",
        "redlock_interop",
    ];
    assert_eq!(loops, expected);
    assert_eq!(
        listed("load", &["check", "oversell"]),
        ["oversell", "checkout"]
    );
    assert_eq!(
        listed("bench", &["sqlite", "orders"])[..2],
        ["orders", "sqlite"]
    );
    let stores = ["bench", "--stores", "--filter", "mysql"];
    let unknown = stage.xtask(&stores).output().unwrap();
    let error = String::from_utf8(unknown.stderr).unwrap();
    assert!(error.contains("no name contains 'mysql'"), "{error}");
    assert!(error.contains("zookeeper, versus"), "{error}");
}

#[test]
fn tidy_prints_the_layers_when_asked_and_checks_nothing() {
    let tidy = Stage::new("exit 0").xtask(&["tidy", "--layers"]).output();
    let layers = String::from_utf8(tidy.unwrap().stdout).unwrap();
    let first = layers.lines().next();
    assert_eq!(first, Some("crates/checkout"), "{layers}");
    assert!(!layers.contains(" ... "), "{layers}");
}
