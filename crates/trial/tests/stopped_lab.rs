//! Tests that a right lock is not accused if the lab itself is stopped (SIGSTOP) while it waits for an answer.
//!
//! The test starts this program again as the lab, because it cannot stop itself.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use fencepost_rig::Interrupt;
use fencepost_trial::holds::{Scenario, Trial, run};
use fencepost_trial::saved::{Rejudged, Saved};
use fencepost_trial::strategy;
use fencepost_trial::verdict::{Outcome, Verdict};
use serde_json::Value;

const TTL_MS: u64 = 1_500;
/// Names the folder of the lab's files, and says that this program is to be the lab.
const FOLDER: &str = "FENCEPOST_TEST_STOPPED_LAB";
/// Longer than anything here takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How often the test is repeated if the lab was stopped too late.
const ATTEMPTS: usize = 5;

/// A right lock: a lease in a file, for processes that ask one after the other.
const LEASE: &str = r#"
answer() { echo "{\"type\":\"$1\",\"op\":$op$2}"; }
now_ms() { date +%s%3N; }
acquire() {
  wait_ms=${line#*'"wait_ms":'}; wait_ms=${wait_ms%%[,\}]*}
  give_up=$(($(now_ms) + wait_ms))
  while [ "$(now_ms)" -lt "$(cat "$LEASE" 2>/dev/null || echo 0)" ]; do
    if [ "$(now_ms)" -ge "$give_up" ]; then answer refused; return; fi
    sleep 0.02
  done
  echo $(($(now_ms) + TTL)) > "$LEASE.new" && mv "$LEASE.new" "$LEASE"
  answer acquired ',"hold":'$op
}
while read -r line; do
  op=${line#*'"op":'}; op=${op%%[,\}]*}
  case $line in
    *'"type":"init"'*) echo '{"type":"init_ok"}';;
    *'"type":"acquire"'*) acquire;;
    *'"type":"step"'*) answer stepped;;
    *'"type":"release"'*) rm -f "$LEASE"; answer released ',"outcome":"released"';;
    *) exit 0;;
  esac
done"#;

/// Plays the lab if the test below asks for it; otherwise there is nothing to do.
#[test]
fn as_the_lab() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let folder = Path::new(&folder);
    let mut trial = Trial::new(Scenario::Crash, strategy::find("safe").unwrap(), 7);
    trial.ttl_ms = TTL_MS;
    let subject = || {
        let mut command = Command::new("sh");
        command.args(["-c", LEASE]).env("TTL", TTL_MS.to_string());
        command.env("LEASE", folder.join("lease"));
        command
    };
    let file = File::create(folder.join("history.jsonl")).unwrap();
    run(&trial, &subject, Some(file), &mut (), Interrupt::never()).unwrap();
}

/// The lab as a process, which is killed if the test fails.
struct Lab(Child);

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Lab {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "as_the_lab"]).env(FOLDER, folder);
        Self(command.stdout(Stdio::null()).spawn().unwrap())
    }

    fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.unwrap().success(), "{name}");
    }

    /// Returns whether the process is stopped.
    fn is_stopped(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        // The name of the program is in parentheses, and may contain anything.
        let (_, rest) = stat.rsplit_once(") ").unwrap();
        rest.starts_with('T')
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        sleep(Duration::from_millis(5));
    }
}

/// Returns whether somebody waits for the lock of a dead process, according to the history so far.
fn waits_for_the_dead(history: &Path) -> bool {
    let text = fs::read_to_string(history).unwrap_or_default();
    let events = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let after = events.skip_while(|event: &Value| event["fault"] != "killed");
    let waits = |event: &Value| event["event"] == "acquire" && event["wait_ms"] != 0;
    after.into_iter().any(|event| waits(&event))
}

/// Returns the history of a run in which the lab was stopped for two TTLs while somebody waited for the lock of a dead process.
fn history_of_a_stopped_lab() -> String {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("history.jsonl");
    let mut lab = Lab::start(folder.path());
    wait_until("somebody waits", || waits_for_the_dead(&history));
    lab.signal("STOP");
    wait_until("the lab is stopped", || lab.is_stopped());
    // The length of the stop is the fault itself.
    sleep(Duration::from_millis(TTL_MS * 2 + 100));
    lab.signal("CONT");
    let mut ended = None;
    wait_until("the lab ends", || {
        ended = lab.0.try_wait().unwrap();
        ended.is_some()
    });
    assert!(ended.unwrap().success());
    fs::read_to_string(&history).unwrap()
}

fn judged(history: &str) -> Verdict {
    Rejudged::of(Saved::read(history.as_bytes()).unwrap()).verdict
}

#[test]
fn a_right_lock_is_not_accused_if_the_lab_is_stopped_for_two_ttls() {
    for _ in 0..ATTEMPTS {
        let history = history_of_a_stopped_lab();
        let verdict = judged(&history);
        let is_accused = matches!(verdict.outcome, Outcome::Broken | Outcome::Stuck);
        assert!(!is_accused, "{}\n{history}", verdict.because);
        // On a busy machine the grant may come before the stop, and then nothing is tried.
        if judged(&without_stalls(&history)).outcome == Outcome::Broken {
            let reason = "the lab itself stalled meanwhile.";
            assert!(verdict.because.ends_with(reason), "{}", verdict.because);
            return;
        }
    }
    panic!("the lab was never stopped in time");
}

/// Returns the history as a lab would have recorded it that does not notice that it was stopped.
fn without_stalls(history: &str) -> String {
    let lines = history.lines();
    let lines = lines.filter(|line| !line.contains("\"stalled\""));
    let lines = lines.enumerate();
    lines.map(|(n, line)| renumbered(n, line)).collect()
}

/// Returns a line of a history, as the event with this number.
fn renumbered(n: usize, line: &str) -> String {
    let mut event: Value = serde_json::from_str(line).unwrap();
    if n > 0 {
        event["n"] = n.into();
    }
    format!("{event}\n")
}
