//! Processes whose wall clock is set back or forward while they hold or wait.
//!
//! libfaketime, preloaded into a child, changes the wall time of that child alone, whenever the file with its offset changes.
//! The child reports its clocks, so each test knows that the wall clock really was changed and the boot clock was not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::exclusion;
use crate::script::{Instruction, Role, boot_ns, ns, wall_s};
use crate::stage::{Performer, Stage, wait_for};

const GRACE: Duration = Duration::from_secs(5);
const TWO_HOURS_S: i64 = 2 * 60 * 60;
/// How far apart two readings of the same wall clock may be.
const NEAR_S: i64 = 60;

/// The wall clock of one child.
struct WallClock {
    offset: PathBuf,
}

impl WallClock {
    fn new(stage: &Stage, name: &str) -> Self {
        let clock = Self {
            offset: stage.path(&format!("{name}.faketime")),
        };
        clock.set("+0");
        clock
    }

    /// Sets its offset from the true time, such as `-2h`.
    fn set(&self, offset: &str) {
        let new = self.offset.with_extension("new");
        fs::write(&new, offset).unwrap();
        fs::rename(&new, &self.offset).unwrap();
    }

    fn environment(&self, library: &str) -> Vec<(&'static str, String)> {
        let one = || "1".to_owned();
        vec![
            ("LD_PRELOAD", library.to_owned()),
            ("FAKETIME_TIMESTAMP_FILE", path(&self.offset)),
            ("FAKETIME_NO_CACHE", one()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", one()),
        ]
    }
}

/// Starts a child with its own wall clock.
fn start(role: Role, clock: &WallClock, library: &str) -> Performer {
    let mut child = Performer::start(role, &clock.environment(library));
    // libfaketime removes these files itself, but not for a child that is killed because a test fails.
    let pid = child.pid();
    let files = ["sem.faketime_sem", "faketime_shm"].map(|file| format!("/dev/shm/{file}_{pid}"));
    child.cleans_up(files.map(PathBuf::from).to_vec());
    child
}

fn path(path: &Path) -> String {
    path.to_str()
        .expect("a temporary folder with a plain name")
        .to_owned()
}

/// Returns the version of libfaketime for multi-threaded programs, as its own launcher names it.
fn library() -> String {
    let mut launcher = Command::new("faketime");
    launcher.args(["-m", "-f", "+0", "printenv", "LD_PRELOAD"]);
    let output = launcher.output().unwrap_or_else(|error| {
        panic!("cannot start faketime ({error}). Install it with: sudo apt-get install -y faketime")
    });
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Checks that the child's wall clock has this offset and that its boot clock is unchanged.
fn witness(child: &mut Performer, offset_s: i64) -> bool {
    let (before_ns, wall_s) = (boot_ns(), wall_s());
    let looked = child.look();
    let off_s = looked.wall_s - wall_s - offset_s;
    assert!(
        off_s.abs() < NEAR_S,
        "wall time was not set: it is off by {off_s} s"
    );
    let boot = before_ns..=boot_ns();
    assert!(
        boot.contains(&looked.boot_ns),
        "boot time was set, which no lock survives"
    );
    looked.is_lost
}

pub(crate) fn leases_keep_their_length() {
    const TTL: Duration = Duration::from_secs(2);
    let library = library();
    let stage = Stage::new();
    let clocks = ["first", "second", "third"].map(|name| WallClock::new(&stage, name));
    let actor = |label: &str, clock: &WallClock| {
        let mut part = stage.part(label, TTL);
        part.keep_alive = false;
        start(Role::Actor(part), clock, &library)
    };
    let mut first = actor("first", &clocks[0]);
    let mut second = actor("second", &clocks[1]);
    let mut third = actor("third", &clocks[2]);

    let held = first.acquire();
    second.instruct(Instruction::Acquire);
    stage.wait_for_line(&["second"]);
    third.instruct(Instruction::Acquire);
    stage.wait_for_line(&["second", "third"]);

    clocks[0].set("-2h");
    clocks[1].set("+2h");
    witness(&mut first, -TWO_HOURS_S);
    let next = second.granted(TTL + GRACE);
    assert!(witness(&mut first, -TWO_HOURS_S), "its lease is over");
    witness(&mut second, TWO_HOURS_S);
    clocks[1].set("-2h");
    witness(&mut second, -TWO_HOURS_S);
    let last = third.granted(TTL + GRACE);
    assert!(witness(&mut second, -TWO_HOURS_S), "its lease is over");

    let mut not_before_ns = held.asked_ns;
    for (earlier, later) in [(held, next), (next, last)] {
        not_before_ns += ns(TTL);
        assert!(later.fence > earlier.fence);
        assert!(
            later.granted_ns >= not_before_ns,
            "granted during another's lease"
        );
        let length_ns = later.granted_ns - earlier.granted_ns;
        assert!(length_ns <= ns(TTL + GRACE), "{length_ns} ns");
        println!(
            "clock, lease length: TTL {TTL:?}, from grant to grant {:.3} s",
            length_ns as f64 / 1e9
        );
    }
    [first, second, third].into_iter().for_each(Performer::end);
}

pub(crate) fn a_lease_is_kept_alive() {
    const TTL: Duration = Duration::from_secs(3);
    let stage = Stage::new();
    let clock = WallClock::new(&stage, "holder");
    let part = Role::Actor(stage.part("holder", TTL));
    let mut holder = start(part, &clock, &library());
    let mut waiter = stage.actor("waiter", TTL);

    let held = holder.acquire();
    waiter.instruct(Instruction::Acquire);
    stage.wait_for_line(&["waiter"]);
    // Back and forth, for longer than a lease would last without renewal.
    for (offset, offset_s) in [
        ("-2h", -TWO_HOURS_S),
        ("+2h", TWO_HOURS_S),
        ("-2h", -TWO_HOURS_S),
    ] {
        clock.set(offset);
        let until_ns = boot_ns() + ns(TTL / 2);
        wait_for("half a TTL to pass", || boot_ns() > until_ns);
        assert!(
            !witness(&mut holder, offset_s),
            "lost while it was kept alive"
        );
    }
    assert!(boot_ns() > held.granted_ns + ns(TTL));
    assert!(waiter.is_silent(), "granted to two");
    assert_eq!(holder.release(), "Released");
    assert!(waiter.granted(GRACE).fence > held.fence);
    holder.end();
    waiter.end();
}

pub(crate) fn no_update_is_lost() {
    const ADDITIONS: usize = 100;
    let library = library();
    let stage = Stage::new();
    let part = exclusion::CounterPart::new(&stage, 1, ADDITIONS);
    let role = || Role::Counter(part.clone());
    let clocks = ["back", "ahead", "restless"].map(|name| WallClock::new(&stage, name));
    clocks[0].set("-2h");
    clocks[1].set("+2h");
    let mut counters: Vec<_> = clocks
        .iter()
        .map(|clock| start(role(), clock, &library))
        .collect();
    counters.push(Performer::start(role(), &[]));
    let holds = counters.len() * ADDITIONS;

    let (counting, is_over) = channel::<()>();
    std::thread::scope(|scope| {
        let clock = &clocks[2];
        scope.spawn(move || {
            let mut offsets = ["-2h", "+2h"].into_iter().cycle();
            while is_over.recv_timeout(Duration::from_millis(20)) == Err(RecvTimeoutError::Timeout)
            {
                offsets
                    .next()
                    .into_iter()
                    .for_each(|offset| clock.set(offset));
            }
        });
        // Dropped even if this panics.
        let _counting = counting;
        exclusion::count_together(counters);
    });
    part.check(holds);
}
