//! Right locks, tried by a lab that is itself stopped (SIGSTOP) again and again, for up to two TTLs: nobody is accused.
//!
//! This program starts itself as the lab, because it cannot stop itself.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use fencepost_trial::holds::Scenario::{
    Crash, Deadline, DeadlockSorted, Names, Pause, RestartEmpty, StaleRelease, TtlEdge, Turns,
    Waiters,
};
use fencepost_trial::saved::{Rejudged, Saved};
use fencepost_trial::verdict::Verdict;
use libtest_mimic::{Failed, Trial};
use serde_json::Value;

use crate::judging::is_harmless;
use crate::on_servers::{BARE_SESSION, KEY, NODE, SESSION};
use crate::part::{
    HONEST, HONEST_FENCED, HONEST_LINE, HONEST_RENEWED, HONEST_RENEWED_FENCED, Part,
};
use crate::rates;
use crate::servers::Place::{Etcd, Redis, Zookeeper};
use crate::session::Ordeal::{self, Holds, Lasting, Through};

/// Says that this program is to be the lab: the number of the case, the seed, and the file for the history.
const LAB: &str = "FENCEPOST_COURTROOM_LAB";
/// Longer than any trial here takes on a busy machine, the stops included.
const TIMEOUT: Duration = Duration::from_secs(240);
/// How a history records that the lab stalled.
const STALLED: &str = "\"stalled\"";

pub(crate) const CASES: &[(Part, Ordeal)] = &[
    (Part::External(HONEST), Holds(Crash)),
    (Part::External(HONEST), Holds(DeadlockSorted)),
    (Part::External(HONEST), Holds(StaleRelease)),
    (Part::External(HONEST), Holds(Names)),
    (Part::External(HONEST), Lasting(Deadline, 2_000)),
    (Part::External(HONEST_LINE), Holds(Waiters)),
    (Part::External(HONEST_RENEWED), Holds(TtlEdge)),
    (Part::External(HONEST_RENEWED), Holds(Names)),
    (Part::External(HONEST_FENCED), Holds(Pause)),
    (Part::External(HONEST_RENEWED_FENCED), Holds(Turns)),
    (Part::Library("safe"), Holds(Crash)),
    (Part::Library("watchdog"), Holds(TtlEdge)),
    (Part::Library("fenced"), Holds(Pause)),
    // Here the way to the store stops with the lab.
    (Part::External(HONEST), Through(Redis, DeadlockSorted)),
    (Part::External(HONEST_RENEWED), Through(Redis, TtlEdge)),
    (Part::External(KEY), Through(Etcd, StaleRelease)),
    (Part::External(NODE), Through(Zookeeper, TtlEdge)),
    (Part::External(SESSION), Through(Zookeeper, TtlEdge)),
    (Part::External(BARE_SESSION), Through(Zookeeper, TtlEdge)),
    (Part::Library("fenced"), Lasting(RestartEmpty, 2_000)),
    (Part::Library("watchdog"), Lasting(RestartEmpty, 2_000)),
];

/// Returns how often each case is tried.
fn runs() -> u64 {
    if fencepost_rig::is_soak() { 100 } else { 1 }
}

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |(number, (part, ordeal)): (usize, &(Part, Ordeal))| {
        let name = format!("stopped::{}::{}", part.name(), ordeal.name());
        Trial::test(name, move || judge(number))
    };
    let cases = CASES.iter().enumerate();
    let possible = cases.filter(|(_, (_, ordeal))| ordeal.is_possible());
    possible.map(trial).collect()
}

/// Plays the lab if the environment says so. Returns whether it did.
pub(crate) fn played_the_lab() -> bool {
    let Ok(role) = std::env::var(LAB) else {
        return false;
    };
    let mut role = role.splitn(3, ' ');
    let [number, seed] = [(); 2].map(|()| role.next().unwrap().parse().unwrap());
    let file = File::create(role.next().unwrap()).unwrap();
    let (part, ordeal) = CASES[usize::try_from(number).unwrap()];
    ordeal.record(part, seed, file).unwrap();
    true
}

fn judge(number: usize) -> Result<(), Failed> {
    let mut noticed = 0;
    for seed in 0..runs() {
        let history = history_of_a_stopped_lab(number, seed);
        noticed += usize::from(history.contains(STALLED));
        let verdict = judged(&history);
        let is_alarm = !is_harmless(&verdict);
        rates::STOPPED.count(is_alarm);
        rates::STOPPED_UNAWARE.count(!is_harmless(&judged(&without_stalls(&history))));
        if is_alarm {
            return Err(format!("a false alarm in run {seed}: {verdict:#?}\n{history}").into());
        }
    }
    match noticed {
        0 => Err("the lab never noticed that it was stopped".into()),
        _ => Ok(()),
    }
}

fn judged(history: &str) -> Verdict {
    Rejudged::of(Saved::read(history.as_bytes()).unwrap()).verdict
}

/// Returns the history as a lab would have recorded it that does not notice that it was stopped.
fn without_stalls(history: &str) -> String {
    let lines = history.lines().filter(|line| !line.contains(STALLED));
    let renumbered = |(n, line): (usize, &str)| {
        let mut event: Value = serde_json::from_str(line).unwrap();
        if n > 0 {
            event["n"] = n.into();
        }
        format!("{event}\n")
    };
    lines.enumerate().map(renumbered).collect()
}

/// Returns the history of a trial whose lab was stopped at random instants, for random times.
fn history_of_a_stopped_lab(number: usize, seed: u64) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.jsonl");
    let mut lab = Lab::start(number, seed, &path);
    let mut chance = Chance(seed * 1_000 + number as u64 + 1);
    let ttl = Duration::from_millis(CASES[number].1.ttl_ms());
    wait_until("the trial begins", || path_has_events(&path));
    while !lab.has_ended() {
        // The instant and the length are the fault itself.
        sleep(chance.up_to(ttl));
        lab.signal("STOP");
        sleep(chance.up_to(2 * ttl));
        lab.signal("CONT");
    }
    fs::read_to_string(&path).unwrap()
}

/// Returns whether the history has more than its header.
fn path_has_events(path: &PathBuf) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.lines().count() > 1)
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        sleep(Duration::from_millis(2));
    }
}

/// The lab as a process, which is killed if the test fails.
struct Lab {
    process: Child,
    deadline: Instant,
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Lab {
    fn start(number: usize, seed: u64, path: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(LAB, format!("{number} {seed} {}", path.display()));
        Self {
            process: command.stdout(Stdio::null()).spawn().unwrap(),
            deadline: Instant::now() + TIMEOUT,
        }
    }

    fn has_ended(&mut self) -> bool {
        assert!(Instant::now() < self.deadline, "the lab never ends");
        let ended = self.process.try_wait().unwrap();
        ended.is_some_and(|status| {
            assert!(status.success(), "{status}");
            true
        })
    }

    /// Signals the lab. Whoever has just ended is still known until it is waited for.
    fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.unwrap().success(), "{name}");
    }
}

/// Random times (xorshift), the same for the same seed.
struct Chance(u64);

impl Chance {
    fn up_to(&mut self, most: Duration) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        most.mul_f64((self.0 >> 11) as f64 / (1_u64 << 53) as f64)
    }
}
