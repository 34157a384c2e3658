//! A storm accuses nobody of what it did not claim, and does not confuse the lives of a process.

use super::*;
use crate::protocol::Claims;

const RELEASED: ReleaseResult = ReleaseResult::Released;
const KEPT_ALIVE: Claims = Claims {
    keep_alive: true,
    ..Claims::PLAIN
};

fn storm() -> HistoryBuilder {
    HistoryBuilder::of(Scenario::Storm).ttl(500)
}

/// A storm in which enough happens for an acquittal: ten rounds, a refusal, and a holder that is killed.
fn busy() -> HistoryBuilder {
    let mut storm = storm();
    for round in 0..10_u32 {
        let at = f64::from(round) * 10.0;
        storm = storm
            .granted("A", KEY, at, at + 1.0, u64::from(round) + 1)
            .releases("A", at + 5.0, u64::from(round) + 1, RELEASED);
    }
    storm
        .granted("A", KEY, 200.0, 201.0, 11)
        .tries("B", 210.0)
        .fault("A", 220.0, Fault::Killed)
}

/// When the storm is over, everybody gets the lock once more.
fn over(storm: HistoryBuilder) -> Verdict {
    storm
        .granted("D", KEY, 20_000.0, 20_001.0, 1)
        .releases("D", 20_002.0, 1, RELEASED)
        .judged()
}

#[test]
fn a_storm_needs_a_lock_that_can_be_taken_afterwards() {
    let verdict = busy().judged();
    assert_eq!(missing(&verdict), "aftermath");
    assert_eq!(
        verdict.because,
        "Nothing broke, and nothing was shown: nobody took product_A when the storm was over."
    );
}

#[test]
fn a_storm_needs_rounds_and_a_holder_that_was_hit() {
    let verdict = storm().granted("A", KEY, 0.0, 1.0, 1).judged();
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    assert_eq!(
        verdict.because,
        "Nothing broke, and nothing was shown: no round was finished."
    );
    let verdict = over(busy());
    assert_eq!(verdict.outcome, Outcome::Held, "{verdict:#?}");
    assert_eq!(
        verdict.witness,
        ["11 rounds; 1 kill, 1 of a holder; 0 pauses, 0 beyond the lease, 0 of these of a holder"]
    );
}

#[test]
fn a_plain_lease_may_be_overrun_in_a_storm() {
    let verdict = busy()
        .granted("B", KEY, 800.0, 801.0, 1)
        .reads("B", 802.0, 1)
        .fault("B", 810.0, Fault::Stopped)
        .granted("C", KEY, 1_310.0, 1_311.0, 1)
        .reads("C", 1_312.0, 1)
        .writes("C", 1_313.0, 1, 1)
        .fault("B", 1_400.0, Fault::Continued)
        .writes("B", 1_401.0, 1, 1)
        .releases("B", 1_402.0, 1, ReleaseResult::AlreadyLost)
        .releases("C", 1_403.0, 1, RELEASED);
    let verdict = over(verdict);
    assert_eq!(verdict.outcome, Outcome::Held, "{verdict:#?}");
    assert_eq!(
        verdict.damage.code,
        [Damage::LostUpdate, Damage::Interleaved]
    );
}

#[test]
fn a_lock_that_claims_fences_may_not_lose_an_update() {
    let claims = Claims {
        fencing: true,
        ..Claims::PLAIN
    };
    let verdict = storm()
        .promising(claims)
        .fenced("B", KEY, 801.0, "1")
        .reads("B", 802.0, 1)
        .fenced("C", KEY, 1_311.0, "2")
        .reads("C", 1_312.0, 1)
        .writes("C", 1_313.0, 1, 1)
        .writes("B", 1_401.0, 1, 1)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
}

/// Two lives of one process count their holds from 1.
#[test]
fn the_lives_of_a_process_are_not_confused() {
    let verdict = busy()
        .granted("A.2", KEY, 750.0, 751.0, 1)
        .reads("A.2", 752.0, 1)
        .granted("A.2", OTHER, 753.0, 754.0, 2)
        .reads("A.2", 755.0, 2)
        .releases("A.2", 760.0, 1, RELEASED)
        .granted("B", KEY, 761.0, 762.0, 1)
        .reads("B", 763.0, 1)
        .releases("B", 764.0, 1, RELEASED)
        .releases_of("A.2", OTHER, 770.0, 2, RELEASED)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Held, "{verdict:#?}");
    assert_eq!(verdict.belief.code, Belief::NoOverlap);
    assert_eq!(verdict.damage.code, []);
}

fn overrun(history: HistoryBuilder, first: &str, second: &str, at: f64) -> HistoryBuilder {
    history
        .granted(first, KEY, at, at + 1.0, 1)
        .granted(second, KEY, at + 600.0, at + 601.0, 1)
        .releases(second, at + 650.0, 1, RELEASED)
        .releases(first, at + 700.0, 1, RELEASED)
}

#[test]
fn a_lease_that_is_not_kept_alive_convicts_if_it_happens_twice_to_somebody_who_runs() {
    let once = overrun(busy().promising(KEPT_ALIVE), "B", "C", 1_000.0);
    assert_eq!(once.judged().outcome, Outcome::Held);
    let twice = overrun(once, "D", "E", 2_000.0);
    let verdict = twice.judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "Two holders at once: B's lease was not kept alive."
    );
    let plain = overrun(busy(), "B", "C", 1_000.0);
    let plain = overrun(plain, "D", "E", 2_000.0);
    assert_eq!(plain.judged().outcome, Outcome::Held);
}

#[test]
fn whoever_was_stopped_or_not_seen_by_the_lab_need_not_keep_its_lease_alive() {
    let stopped = busy()
        .promising(KEPT_ALIVE)
        .fault("B", 900.0, Fault::Stopped);
    let stopped = overrun(stopped, "B", "C", 1_000.0).fault("B", 1_800.0, Fault::Continued);
    let stopped = overrun(stopped, "D", "E", 2_000.0);
    assert_eq!(stopped.judged().outcome, Outcome::Held);
    let stalled = overrun(busy().promising(KEPT_ALIVE), "B", "C", 1_000.0);
    let stalled = overrun(stalled, "D", "E", 2_000.0).stalls(2_300.0, 2_400.0);
    assert_eq!(stalled.judged().outcome, Outcome::Held);
}

#[test]
fn a_lock_that_nobody_can_take_afterwards_is_stuck() {
    let verdict = busy().waits_in_vain("B", 230.0, 10_230.0).judged();
    assert_eq!(verdict.outcome, Outcome::Stuck);
    assert_eq!(
        shown(&verdict),
        [
            "#45 A is killed (signal 9) while holding",
            "#47 B is still refused"
        ]
    );
    let asked = storm()
        .asks("A", KEY, 0.0, 300)
        .fault("A", 5.0, Fault::Killed)
        .waits_in_vain("B", 230.0, 10_230.0);
    assert_eq!(
        shown(&asked.judged())[0],
        "#2 A is killed (signal 9) before it was told whether it has the lock"
    );
}

#[test]
fn a_lock_that_somebody_may_have_is_not_stuck() {
    // Nobody knows what C got.
    let unknown = storm()
        .asks("C", KEY, 0.0, 300)
        .waits_in_vain("B", 230.0, 10_230.0);
    assert_eq!(unknown.judged().outcome, Outcome::Inconclusive);
    let held = busy()
        .granted("C", KEY, 800.0, 801.0, 1)
        .waits_in_vain("B", 830.0, 10_830.0);
    // C took it after the last fault, and keeps it.
    assert_eq!(held.judged().outcome, Outcome::Held);
    let store_says = busy()
        .waits_in_vain("B", 230.0, 10_230.0)
        .looks(10_240.0, true, Some(90.0));
    assert_eq!(missing(&store_says.judged()), "aftermath");
}
