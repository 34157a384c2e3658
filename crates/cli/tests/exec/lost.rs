//! Tests of lost locks: `exec` stops the command before another process can get the lock. If that is not possible, the fenced
//! file refuses the command's writes.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::fenced_file::{fences, writer};
use crate::stage::{Play, Ran, Stage, is_running, shape, state, until};

/// Prevents every other program from writing to the lock file, like a store that does not answer.
struct CutOff(rusqlite::Connection);

impl CutOff {
    fn begin(stage: &Stage) -> Self {
        let connection = rusqlite::Connection::open(stage.path("locks.db")).unwrap();
        connection.busy_timeout(Duration::from_secs(60)).unwrap();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        Self(connection)
    }

    fn end(self) {
        self.0.execute_batch("COMMIT").unwrap();
    }
}

fn lines(stage: &Stage, ran: &Ran) -> Vec<String> {
    shape(&ran.stderr, &stage.path(""))
        .lines()
        .map(str::to_owned)
        .collect()
}

/// How many runs may be needed until a command is stopped in time: a very busy machine needs longer than the lease has left, and then
/// exec says so.
const RUNS: usize = 4;

/// Runs a test until the command was stopped in time.
pub(crate) fn in_time(test: fn() -> bool) {
    assert!(
        (0..RUNS).any(|_| test()),
        "the command was never stopped in time"
    );
}

/// Returns whether exec says that the command was gone before the lease ended. Otherwise exec must warn.
pub(crate) fn is_in_time(line: &str) -> bool {
    let is_late = line.ends_with(": another may have run");
    assert!(
        is_late || line.ends_with(" before the lease ends"),
        "{line}"
    );
    !is_late
}

fn next_writer(stage: &Stage) -> Play {
    let next = writer(stage, "--wait 60s --ttl 60s");
    until("it stands in line", || stage.waiting("shared") == 1);
    next
}

#[test]
fn a_command_cut_off_from_the_store_is_gone_before_the_next_begins() {
    in_time(|| {
        let stage = Stage::new();
        // Time enough to exit by itself, even on a busy machine.
        let first = writer(&stage, "--ttl 5s --grace 2s");
        stage.until_lines("file", 5);
        let next = next_writer(&stage);
        let cut = CutOff::begin(&stage);
        let ran = first.end();
        let written = stage.read("file").lines().count();
        cut.end();
        assert_eq!(ran.code(), 125, "{}", ran.stderr);
        let said = lines(&stage, &ran);
        let lost = "fencepost: LOST shared at N:N:N UTC: no";
        assert!(
            said[0].starts_with(lost) && said[0].contains("renewal"),
            "{}",
            ran.stderr
        );
        if !is_in_time(&said[1]) {
            return false;
        }
        assert!(
            said[1].contains(": SIGTERM, gone after N s, N s"),
            "{}",
            ran.stderr
        );
        assert!(
            said[2].starts_with(
                "fencepost: what the command did before is not undone (fence N). Next: "
            ),
            "{}",
            ran.stderr
        );
        stage.until_lines("file", written + 5);
        assert_eq!(fences(&stage).len(), 2);
        assert!(!stage.path("file.refused").exists(), "nobody came too late");
        drop(next);
        stage.until_empty();
        true
    });
}

#[test]
fn a_command_is_gone_in_time_though_exec_stands_still() {
    let stage = Stage::new();
    let first = writer(&stage, "--ttl 5s --grace 200ms");
    stage.until_lines("file", 5);
    let next = next_writer(&stage);
    first.stop();
    until("the next writes", || fences(&stage).len() == 2);
    let written = stage.read("file").lines().count();
    stage.until_lines("file", written + 20);
    assert!(
        !stage.path("file.refused").exists(),
        "the first was gone before"
    );
    assert_eq!(state(first.pid()), Some('T'), "and nobody woke it");
    first.send(Signal::SIGCONT);
    let ran = first.end();
    assert_eq!(ran.code(), 125, "{}", ran.stderr);
    let said = lines(&stage, &ran);
    assert!(
        said[0].ends_with(" UTC: fencepost itself was paused for N s"),
        "{}",
        ran.stderr
    );
    assert!(is_in_time(&said[1]), "{}", ran.stderr);
    drop(next);
    stage.until_empty();
}

#[test]
fn when_its_warden_stands_still_too_the_file_refuses_its_lines() {
    let stage = Stage::new();
    let first = writer(&stage, "--ttl 1s");
    stage.until_lines("file", 5);
    let warden = first.warden();
    let next = next_writer(&stage);
    first.stop();
    crate::stage::signal(warden, Signal::SIGSTOP);
    until("the next writes", || fences(&stage).len() == 2);
    stage.until_lines("file.refused", 3);
    crate::stage::signal(warden, Signal::SIGCONT);
    first.send(Signal::SIGCONT);
    let ran = first.end();
    assert_eq!(ran.code(), 125, "{}", ran.stderr);
    let said = lines(&stage, &ran);
    assert!(
        said[0].ends_with(" UTC: fencepost itself was paused for N s"),
        "{}",
        ran.stderr
    );
    let late =
        ": SIGKILL, gone after N s; the lease ended N s before the stop: another may have run";
    assert!(said[1].ends_with(late), "{}", ran.stderr);
    assert_eq!(fences(&stage).len(), 2);
    drop(next);
    stage.until_empty();
}

#[test]
fn who_ignores_sigterm_is_killed_in_time() {
    in_time(|| {
        let stage = Stage::new();
        let play = stage.shell(
            "--name deploy --ttl 5s --grace 300ms",
            "trap '' TERM; echo > held; while :; do sleep 0.1; done",
        );
        stage.until_lines("held", 1);
        let cut = CutOff::begin(&stage);
        let ran = play.end();
        cut.end();
        assert_eq!(ran.code(), 125, "{}", ran.stderr);
        let said = lines(&stage, &ran);
        assert!(
            said[1].contains(": SIGTERM, SIGKILL after N s, gone after N s, "),
            "{}",
            ran.stderr
        );
        if !is_in_time(&said[1]) {
            return false;
        }
        stage.until_empty();
        true
    });
}

/// Starts a child, a process that left the session, and an orphan in its own group, and records their ids.
pub(crate) const FAMILY: &str = "
    sleep 1000 & echo $! >> family
    setsid sleep 1000 & echo $! >> family
    setsid sh -c '(sleep 1000 & echo $! >> family) &' 
    trap '' TERM HUP
    echo $$ >> family
    while :; do sleep 0.1; done";

/// Returns the processes of [`FAMILY`], once all of them run.
pub(crate) fn family(stage: &Stage) -> Vec<i32> {
    stage.until_lines("family", 4);
    let all: Vec<i32> = stage
        .read("family")
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    assert!(all.iter().all(|pid| is_running(*pid)));
    all
}

#[test]
fn all_it_started_is_stopped_wherever_it_went() {
    in_time(|| {
        let stage = Stage::new();
        let play = stage.shell("--name deploy --ttl 5s --grace 200ms", FAMILY);
        let all = family(&stage);
        let cut = CutOff::begin(&stage);
        let ran = play.end();
        assert_eq!(ran.code(), 125, "{}", ran.stderr);
        assert!(
            !all.iter().any(|pid| is_running(*pid)),
            "all of them are gone when exec says so"
        );
        if !is_in_time(ran.stderr.lines().nth(1).unwrap()) {
            return false;
        }
        cut.end();
        stage.until_empty();
        true
    });
}

#[test]
fn a_release_by_force_stops_the_holder_at_its_next_renewal() {
    let stage = Stage::new();
    let first = writer(&stage, "--ttl 1s");
    stage.until_lines("file", 5);
    let next = next_writer(&stage);
    let released = stage.run(&["locks", "release", "shared", "--yes"]);
    assert_eq!(released.code(), 0, "{}", released.stderr);
    let ran = first.end();
    assert_eq!(ran.code(), 125, "{}", ran.stderr);
    let said = lines(&stage, &ran);
    assert!(
        said[0].ends_with("we no longer hold it: released by force, or forgotten"),
        "{}",
        ran.stderr
    );
    assert!(
        said[1].ends_with(": SIGKILL, gone after N s; another may have run meanwhile"),
        "{}",
        ran.stderr
    );
    until("the next writes", || fences(&stage).len() == 2);
    drop(next);
    stage.until_empty();
}

#[test]
fn a_command_that_ends_after_its_lock_was_taken_away_has_lost_it() {
    let stage = Stage::new();
    let play = stage.shell(
        "--name deploy --ttl 60s",
        "echo > held; while [ ! -e go ]; do sleep 0.02; done",
    );
    stage.until_lines("held", 1);
    assert_eq!(
        stage.run(&["locks", "release", "deploy", "--yes"]).code(),
        0
    );
    std::fs::write(stage.path("go"), "").unwrap();
    let ran = play.end();
    let said = "fencepost: LOST deploy before sh ended: another may have run meanwhile. Next: fencepost locks show deploy\n";
    assert_eq!((ran.code(), ran.stderr.as_str()), (125, said));
}

#[test]
fn a_lock_is_kept_alive_for_as_long_as_the_command_takes() {
    let stage = Stage::new();
    let play = stage.shell(
        "--name deploy --ttl 2s",
        "echo > held; while [ ! -e go ]; do sleep 0.02; done",
    );
    stage.until_lines("held", 1);
    for _ in 0..6 {
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(
            stage
                .run(&["exec", "--name", "deploy", "--", "true"])
                .code(),
            75
        );
    }
    std::fs::write(stage.path("go"), "").unwrap();
    let ran = play.end();
    assert_eq!((ran.code(), ran.stderr.as_str()), (0, ""));
}
