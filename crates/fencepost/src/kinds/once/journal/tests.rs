//! Which runs may begin, what is remembered of them, and what is forgotten.

use super::*;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

fn fence(epoch: u64) -> Fence {
    Fence::new(epoch, 0).unwrap()
}

fn time(s: u64) -> StoreTime {
    StoreTime {
        now: Duration::from_secs(s),
        era: "boot".into(),
    }
}

/// A job with a clock, whose runs have growing fences.
struct Job {
    journal: Journal,
    by: Arc<str>,
    now_ms: u64,
    epoch: u64,
    again_after_crash: bool,
    keep: Duration,
}

impl Job {
    fn new() -> Self {
        Self {
            journal: Journal::default(),
            by: "web-1:7".into(),
            now_ms: 1000 * DAY_MS,
            epoch: 40,
            again_after_crash: false,
            keep: Duration::from_millis(90 * DAY_MS),
        }
    }

    /// Tries to begin the next run. Each is written down and read again.
    fn begin(&mut self, slot: &str) -> Result<Fence, Refusal> {
        self.epoch += 1;
        self.begin_with(slot, fence(self.epoch))
    }

    fn begin_with(&mut self, slot: &str, fence: Fence) -> Result<Fence, Refusal> {
        let begun = self.journal.begin(&Wanted {
            slot: Some(slot),
            fence,
            by: &self.by,
            again_after_crash: self.again_after_crash,
            keep_others_out: None,
            keep: self.keep,
            now_ms: self.now_ms,
            time: None,
        });
        let text = self.journal.write();
        assert_eq!(
            Journal::read(text.as_bytes()),
            Ok(self.journal.clone()),
            "{text}"
        );
        begun.map(|()| fence)
    }

    fn end(&mut self, slot: &str, fence: Fence, state: State) -> bool {
        self.journal.end(Some(slot), fence, state, self.now_ms)
    }
}

#[test]
fn a_slot_that_was_completed_is_not_run_again() {
    let mut job = Job::new();
    for again_after_crash in [false, true] {
        job.again_after_crash = again_after_crash;
        let slot = if again_after_crash { "b" } else { "a" };
        let run = job.begin(slot).unwrap();
        assert!(job.end(slot, run, State::Completed));
        assert!(matches!(job.begin(slot), Err(Refusal::Completed(entry)) if entry.fence == run));
    }
    assert!(job.begin("c").is_ok(), "another slot");
}

#[test]
fn a_slot_whose_run_failed_is_run_again() {
    let mut job = Job::new();
    let run = job.begin("a").unwrap();
    assert!(job.end("a", run, State::Failed));
    assert!(job.begin("a").unwrap() > run);
}

#[test]
fn a_crash_is_run_again_only_if_that_is_wanted() {
    let mut job = Job::new();
    let crashed = job.begin("a").unwrap();
    assert!(matches!(job.begin("a"), Err(Refusal::CrashUnknown(entry)) if entry.fence == crashed));
    job.again_after_crash = true;
    let rerun = job.begin("a").unwrap();
    assert!(!job.end("a", crashed, State::Completed), "it comes late");
    assert!(job.end("a", rerun, State::Completed));
    assert!(!job.end("a", crashed, State::Failed), "it comes even later");
    assert_eq!(job.journal.slots["a"].state, State::Completed);
}

#[test]
fn a_run_of_another_slot_makes_a_completion_late_too() {
    let mut job = Job::new();
    let lost = job.begin("a").unwrap();
    job.begin("b").unwrap();
    assert!(!job.end("a", lost, State::Completed), "the lock was lost");
}

#[test]
fn a_request_whose_answer_was_lost_may_be_repeated() {
    let mut job = Job::new();
    let run = job.begin("a").unwrap();
    assert_eq!(job.begin_with("a", run), Ok(run));
    assert_eq!(job.begin_with("a", fence(1)), Err(Refusal::Overtaken));
    assert_eq!(job.begin_with("b", fence(1)), Err(Refusal::Overtaken));
}

#[test]
fn a_slot_that_was_forgotten_is_refused() {
    let mut job = Job::new();
    for slot in ["2026-08-01", "2026-08-02", "2026-08-03"] {
        let run = job.begin(slot).unwrap();
        assert!(job.end(slot, run, State::Completed));
        job.now_ms += DAY_MS;
    }
    job.now_ms += 88 * DAY_MS;
    job.begin("2026-11-19").unwrap();
    let kept: Vec<_> = job.journal.slots.keys().cloned().collect();
    assert_eq!(kept, ["2026-08-02", "2026-08-03", "2026-11-19"]);
    for slot in ["2026-08-01", "2026-07-31", "", "1999"] {
        assert_eq!(job.begin(slot), Err(Refusal::BelowFloor), "{slot}");
    }
    assert!(matches!(
        job.begin("2026-08-02"),
        Err(Refusal::Completed(_))
    ));
    assert!(job.begin("2026-08-01a").is_ok(), "it is above the floor");
    // The floor never goes back, though a lower slot is forgotten later.
    job.now_ms += 200 * DAY_MS;
    job.begin("3").unwrap();
    assert_eq!(job.journal.floor.as_deref(), Some("2026-11-19"));
    job.begin("2026-12").unwrap();
    job.now_ms += 200 * DAY_MS;
    job.begin("4").unwrap();
    assert_eq!(job.journal.floor.as_deref(), Some("3"));
}

#[test]
fn a_slot_that_begins_is_never_forgotten_in_the_same_step() {
    let mut job = Job::new();
    let crashed = job.begin("a").unwrap();
    job.again_after_crash = true;
    job.now_ms += 100 * DAY_MS;
    assert!(job.begin("a").unwrap() > crashed);
    assert_eq!(job.journal.floor, None);
    // A clock that was set back forgets nothing.
    job.now_ms = 0;
    job.keep = Duration::ZERO;
    job.begin("b").unwrap();
    assert_eq!(job.journal.slots.len(), 2);
}

#[test]
fn others_are_kept_out_in_the_time_of_the_store() {
    let by: Arc<str> = "web-1:7".into();
    let mut journal = Journal::default();
    let mut begin = |epoch, now: &StoreTime| {
        let run = Wanted {
            slot: None,
            fence: fence(epoch),
            by: &by,
            again_after_crash: false,
            keep_others_out: Some(Duration::from_secs(60)),
            keep: Duration::ZERO,
            now_ms: 0,
            time: Some(now),
        };
        let begun = journal.begin(&run);
        let text = journal.write();
        assert_eq!(
            Journal::read(text.as_bytes()),
            Ok(journal.clone()),
            "{text}"
        );
        begun
    };
    assert_eq!(begin(1, &time(100)), Ok(()));
    assert_eq!(begin(1, &time(100)), Ok(()), "its own request, repeated");
    let Err(Refusal::RecentlyRan(entry, left)) = begin(2, &time(130)) else {
        panic!("too early");
    };
    assert_eq!((entry.fence, left), (fence(1), Duration::from_secs(30)));
    assert_eq!(begin(3, &time(160)), Ok(()));
    let rebooted = StoreTime {
        era: "next boot".into(),
        ..time(161)
    };
    assert_eq!(begin(4, &rebooted), Ok(()), "old times mean nothing");
}

#[test]
fn what_is_no_journal_is_not_read() {
    let read = |text: &str| Journal::read(text.as_bytes());
    assert_eq!(
        read("fencepost runs 2\nx"),
        Err(Unreadable::Newer("2".into()))
    );
    for (text, line) in [
        ("", 1),
        ("fencepost runs 1", 1),
        ("something else\n", 1),
        ("fencepost runs 1\nfloor\n", 2),
        (
            "fencepost runs 1\nfloor\tx\nslot\ta\t1.0\tstarted\tb\t1\n",
            3,
        ),
        ("fencepost runs 1\nslot\ta\t1.0\tdone\tb\t1\t-\n", 2),
        ("fencepost runs 1\nlast\t1.0\tstarted\tb\t1\t-\tx\t\n", 2),
    ] {
        assert_eq!(read(text), Err(Unreadable::Line(line)), "{text:?}");
    }
    assert_eq!(Journal::read(b"\xff"), Err(Unreadable::Line(1)));
}
