//! Tests of interrupted and killed runs: no process and no temporary file is left.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{Ran, fencepost, finish};

const LONG: Duration = Duration::from_secs(60);

pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < LONG, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the processes whose environment names this folder, or that work in it: the program, and every process it started. (A
/// Redis server overwrites its environment with its title.)
pub(crate) fn processes(folder: &Path) -> Vec<i32> {
    let mark = format!("TMPDIR={}", folder.display());
    let pids = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let marked = environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == mark.as_bytes());
        let place = std::fs::read_link(format!("/proc/{pid}/cwd"));
        marked || place.is_ok_and(|place| place.starts_with(folder))
    })
    .collect()
}

/// Starts a sale with its temporary files in `folder`, and returns once every process was asked to buy.
fn sale(folder: &Path, arguments: &str) -> Child {
    let child = start(folder, arguments, r#""event":"purchase","#, 20);
    // Each buyer has a supervisor.
    assert_eq!(processes(&folder.join("tmp")).len(), 1 + 2 * 20);
    child
}

/// Starts a run with its temporary files in `folder`, and returns once its history contains this event this many times.
pub(crate) fn start(folder: &Path, arguments: &str, event: &str, times: usize) -> Child {
    let mut command: Command = fencepost(arguments);
    let history = folder.join("run.jsonl");
    let temporary = folder.join("tmp");
    std::fs::create_dir_all(&temporary).unwrap();
    command
        .env("TMPDIR", &temporary)
        .arg("--history")
        .arg(&history);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until(event, || {
        let text = std::fs::read_to_string(&history).unwrap_or_default();
        text.matches(event).count() == times
    });
    child
}

pub(crate) fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
}

fn interrupted(signal: Signal) -> (Ran, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("report.json");
    let arguments = format!(
        "oversell --concurrency=20 --delay 10000000 --output {}",
        output.display()
    );
    let child = sale(folder.path(), &arguments);
    send(&child, signal);
    let ran = finish(child.wait_with_output().unwrap());
    assert_eq!(processes(&folder.path().join("tmp")), [] as [i32; 0]);
    assert_eq!(
        std::fs::read_dir(folder.path().join("tmp"))
            .unwrap()
            .count(),
        0,
        "no temporary file stays"
    );
    assert!(!output.exists(), "no report of what was not judged");
    (ran, folder)
}

#[test]
fn ctrl_c_leaves_nothing_behind_but_what_was_recorded() {
    let (ran, folder) = interrupted(Signal::SIGINT);
    assert_eq!(ran.code, 130);
    let history = folder.path().join("run.jsonl");
    assert_eq!(
        ran.stderr,
        format!(
            "interrupted: 0 of 20 attempts were answered. No verdict.\n  \
             stopped   20 processes; nothing is left running, no temporary file stays\n  \
             kept      {path}, 21 events: fencepost check {path}\n",
            path = history.display()
        )
    );
    let text = std::fs::read_to_string(&history).unwrap();
    assert_eq!(text.lines().count(), 22);
    assert!(
        text.lines()
            .all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok())
    );
}

#[test]
fn sigterm_ends_a_run_like_ctrl_c() {
    let (ran, _folder) = interrupted(Signal::SIGTERM);
    assert_eq!(ran.code, 143);
    assert!(ran.stderr.starts_with("interrupted: "));
}

#[test]
fn the_processes_die_with_the_lab_even_when_it_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = sale(folder.path(), "oversell --concurrency=20 --delay 10000000");
    send(&child, Signal::SIGKILL);
    child.wait().unwrap();
    until("all processes are gone", || {
        processes(&folder.path().join("tmp")).is_empty()
    });
}

#[test]
fn what_an_external_lock_starts_dies_with_a_killed_lab_in_whatever_session() {
    let folder = tempfile::tempdir().unwrap();
    let fled = folder.path().join("fled");
    let script = folder.path().join("lock.sh");
    let text = format!(
        "read init; echo '{{\"type\":\"init_ok\"}}'; read order\n\
         case $order in *purchase*) ;; *) exit;; esac\n\
         setsid sh -c 'echo $$ >>{}; exec sleep 1000' </dev/null >/dev/null 2>&1 & sleep 1000\n",
        fled.display()
    );
    std::fs::write(&script, text).unwrap();
    let mut command = fencepost("oversell --concurrency=3");
    let lock = format!("--lock=sh {}", script.display());
    let mut lab = command
        .arg(lock)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let fled = || -> Vec<String> {
        let text = std::fs::read_to_string(&fled).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    };
    until("all have started something", || fled().len() == 3);
    send(&lab, Signal::SIGKILL);
    lab.wait().unwrap();
    until("all of it is gone", || {
        let lives = |pid: &String| Path::new("/proc").join(pid).exists();
        !fled().iter().any(lives)
    });
}

fn left_in(temporary: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(temporary).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn what_a_killed_lab_leaves_is_removed_by_the_next_run_and_nothing_of_a_living_one() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().join("tmp");
    let mut killed = sale(folder.path(), "oversell --concurrency=20 --delay 10000000");
    let orphan = left_in(&temporary);
    assert_eq!(orphan.len(), 1, "{orphan:?}");
    send(&killed, Signal::SIGKILL);
    killed.wait().unwrap();
    until("all processes are gone", || {
        processes(&temporary).is_empty()
    });
    assert_eq!(left_in(&temporary), orphan, "nobody was there to remove it");
    std::fs::remove_file(folder.path().join("run.jsonl")).unwrap();
    let mut living = sale(folder.path(), "oversell --concurrency=20 --delay 10000000");
    let its = left_in(&temporary);
    assert!(its.len() == 1 && its != orphan, "{its:?}, {orphan:?}");
    let mut another = fencepost("oversell --concurrency=2 --quiet");
    let another = finish(another.env("TMPDIR", &temporary).output().unwrap());
    assert!(another.code <= 2, "{}", another.stderr);
    assert_eq!(left_in(&temporary), its, "its owner lives");
    living.kill().unwrap();
    living.wait().unwrap();
}

#[test]
fn whoever_is_started_with_nohup_outlives_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let (temporary, history) = (folder.path().join("tmp"), folder.path().join("run.jsonl"));
    std::fs::create_dir(&temporary).unwrap();
    let ours = fencepost("crash --ttl 1000 --history");
    let mut command = Command::new("nohup");
    fencepost_rig::with_default_signals(&mut command);
    command.arg(ours.get_program()).args(ours.get_args());
    command.arg(&history).env("TMPDIR", &temporary);
    command
        .env_remove("FENCEPOST_STORE")
        .env_remove("FENCEPOST_TRIAL_STORE")
        .env("LC_ALL", "C.UTF-8");
    command.stdin(Stdio::null());
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("it is under way", || {
        let text = std::fs::read_to_string(&history).unwrap_or_default();
        text.contains(r#""event":"acquired""#)
    });
    send(&child, Signal::SIGHUP);
    let ran = finish(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn an_interrupted_first_storm_is_recorded_like_any_trial() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = "trial storm --runs 3 --for 60s --ttl 500";
    let child = start(folder.path(), arguments, r#"{"n":1,"#, 1);
    send(&child, Signal::SIGINT);
    let ran = finish(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    let history = folder.path().join("run.jsonl");
    let events = std::fs::read_to_string(&history).unwrap().lines().count() - 1;
    let kept = format!("  kept      {}, {events} event", history.display());
    assert!(ran.stderr.contains(&kept), "{}", ran.stderr);
}

#[test]
fn the_worst_finished_storm_is_kept_when_the_next_one_is_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("run.jsonl");
    let mut command = fencepost("trial storm --runs 3 --for 2s --ttl 300 --history");
    let mut child = command
        .arg(&history)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut shown = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(shown.any(|line| line.unwrap().contains("run 1 of 3")));
    send(&child, Signal::SIGINT);
    // It must not meet a closed pipe.
    shown.for_each(drop);
    let ran = finish(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    let text = std::fs::read_to_string(&history).unwrap();
    // Between the header and the seal there is one line per event.
    let kept = format!(
        "  kept      {path}, {} events of the finished storm: fencepost check {path}\n",
        text.lines().count() - 2,
        path = history.display()
    );
    assert!(ran.stderr.contains(&kept), "{}", ran.stderr);
    let again = finish(fencepost("check --json").arg(&history).output().unwrap());
    assert!(
        again.stdout.contains(r#""stands":true"#),
        "{}",
        again.stdout
    );
}

#[test]
fn a_lock_trial_is_interrupted_alike_also_while_a_process_is_stopped() {
    for (arguments, event) in [
        ("crash --ttl 60000 --lock=safe", r#""event":"refused""#),
        ("trial stale-release --ttl 60000", r#""fault":"stopped""#),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let child = start(folder.path(), arguments, event, 1);
        send(&child, Signal::SIGINT);
        let ran = finish(child.wait_with_output().unwrap());
        assert_eq!(ran.code, 130, "{}", ran.stderr);
        assert!(
            ran.stderr.contains(" was not finished. No verdict.\n"),
            "{}",
            ran.stderr
        );
        assert!(ran.stderr.contains(": fencepost check "), "{}", ran.stderr);
        let temporary = folder.path().join("tmp");
        assert_eq!(processes(&temporary), [] as [i32; 0]);
        assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
        let history = folder.path().join("run.jsonl");
        let again = finish(fencepost("check").arg(&history).output().unwrap());
        assert_eq!(
            (again.code, again.stderr.as_str()),
            (2, ""),
            "{}",
            again.stdout
        );
    }
}
