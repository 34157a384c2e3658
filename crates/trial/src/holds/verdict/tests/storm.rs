//! A storm accuses nobody of what it did not claim, and does not confuse the lives of a process.

use super::*;
use crate::history::{Change, FaultKind};
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
    turns()
        .granted("A", KEY, 200.0, 201.0, 11)
        .tries("B", 210.0)
        .fault("A", 220.0, Fault::Killed)
}

/// Ten rounds without a fault.
fn turns() -> HistoryBuilder {
    let mut storm = storm();
    for round in 0..10_u32 {
        let at = f64::from(round) * 10.0;
        storm = storm
            .granted("A", KEY, at, at + 1.0, u64::from(round) + 1)
            .releases("A", at + 5.0, u64::from(round) + 1, RELEASED);
    }
    storm
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

/// A storm with cuts in which a holder is cut off beyond its lease.
fn cut_off() -> HistoryBuilder {
    busy()
        .faulty(FaultKind::Cut)
        .granted("B", KEY, 5_000.0, 5_001.0, 1)
        .fault("B", 5_010.0, Fault::CutOff)
        .fault("B", 5_800.0, Fault::Reconnected)
        .releases("B", 5_810.0, 1, ReleaseResult::AlreadyLost)
}

#[test]
fn a_storm_shows_nothing_of_a_kind_of_faults_that_never_took_effect() {
    let kinds = [
        (FaultKind::Cut, "no cut took effect"),
        (FaultKind::Delay, "no delay took effect"),
        (FaultKind::Server, "no server fault took effect"),
    ];
    for (kind, because) in kinds {
        let verdict = over(busy().faulty(kind));
        assert_eq!(missing(&verdict), "fault", "{kind:?}");
        assert!(verdict.because.contains(because), "{}", verdict.because);
    }
    let verdict = over(cut_off());
    assert_eq!(verdict.outcome, Outcome::Held, "{verdict:#?}");
    assert_eq!(
        verdict.witness[1],
        "1 cut, 1 beyond the lease, 1 of these of a holder"
    );
}

#[test]
fn a_clock_that_nobody_reads_is_said_not_to_have_been_tried() {
    let jumped = busy()
        .faulty(FaultKind::Clock)
        .fault("B", 300.0, Fault::ClockAhead)
        .fault("B", 900.0, Fault::ClockRight);
    let verdict = over(jumped);
    assert_eq!(verdict.outcome, Outcome::Held, "{verdict:#?}");
    assert!(verdict.limits.unwrap().contains("Clocks were not tried"));
    let read = busy()
        .faulty(FaultKind::Clock)
        .fault("B", 300.0, Fault::ClockAhead)
        .fault("B", 310.0, Fault::ClockRead)
        .fault("B", 900.0, Fault::ClockRight);
    let verdict = over(read);
    assert!(!verdict.limits.unwrap().contains("Clocks were not tried"));
    assert_eq!(
        verdict.witness[1],
        "1 clock jump, 1 seen by its process, 0 of these by a holder"
    );
}

#[test]
fn whoever_is_cut_off_far_away_or_without_a_server_need_not_keep_its_lease_alive() {
    let renewed = || busy().promising(KEPT_ALIVE);
    let twice = |history| overrun(overrun(history, "B", "C", 9_000.0), "D", "E", 9_800.0);
    assert_eq!(twice(renewed()).judged().outcome, Outcome::Broken);
    for fault in [Fault::CutOff, Fault::Distant] {
        // The first of the two holders was out of reach, so only one overlap is left that counts.
        let away = renewed()
            .fault("B", 8_900.0, fault)
            .fault("B", 8_990.0, Fault::Reconnected);
        assert_eq!(twice(away).judged().outcome, Outcome::Held, "{fault:?}");
    }
    let outage = renewed().server("server", 8_000.0, Change::Stopped).server(
        "server",
        8_100.0,
        Change::Continued,
    );
    assert_eq!(twice(outage).judged().outcome, Outcome::Held);
    let long_ago = renewed()
        .fault("B", 1_000.0, Fault::CutOff)
        .fault("B", 1_100.0, Fault::Reconnected)
        .server("server", 1_000.0, Change::Stopped)
        .server("server", 1_100.0, Change::Continued);
    assert_eq!(twice(long_ago).judged().outcome, Outcome::Broken);
}

#[test]
fn no_cut_and_no_server_that_keeps_its_data_excuses_a_second_holder_within_a_lease() {
    let both = |history: HistoryBuilder| {
        history
            .granted("B", KEY, 5_000.0, 5_001.0, 1)
            .granted("C", KEY, 5_100.0, 5_101.0, 1)
            .releases("C", 5_150.0, 1, RELEASED)
            .releases("B", 5_200.0, 1, RELEASED)
            .judged()
            .outcome
    };
    assert_eq!(both(busy()), Outcome::Broken);
    let cut = busy()
        .fault("B", 4_900.0, Fault::CutOff)
        .fault("B", 4_990.0, Fault::Reconnected);
    assert_eq!(both(cut), Outcome::Broken);
    let restarted = || {
        busy().server("server", 4_900.0, Change::Killed).server(
            "server",
            4_990.0,
            Change::Restarted,
        )
    };
    assert_eq!(both(restarted()), Outcome::Broken);
    // The session of a lock that ends with its process may have ended with the server.
    let of_session = Claims {
        untimed: true,
        recovery_ms: Some(100),
        ..Claims::PLAIN
    };
    let session_at = |history: HistoryBuilder, store| history.at_store(store).promising(of_session);
    for store in ["zk", "postgres"] {
        assert_eq!(both(session_at(busy(), store)), Outcome::Broken);
    }
    // A connection that was made when the server was back has nothing to do with that. Another session may have missed something.
    assert_eq!(both(session_at(restarted(), "postgres")), Outcome::Broken);
    assert_ne!(both(session_at(restarted(), "zk")), Outcome::Broken);
    let over_a_restart = session_at(busy(), "postgres")
        .granted("B", KEY, 4_850.0, 4_851.0, 1)
        .server("server", 4_900.0, Change::Killed)
        .server("server", 4_990.0, Change::Restarted)
        .granted("C", KEY, 5_100.0, 5_101.0, 1)
        .releases("C", 5_150.0, 1, RELEASED)
        .releases("B", 5_200.0, 1, RELEASED)
        .judged();
    assert_ne!(over_a_restart.outcome, Outcome::Broken);
    // A server that is dead and does not come back may have taken the lock with it.
    assert_ne!(
        both(busy().server("server", 4_900.0, Change::Killed)),
        Outcome::Broken
    );
}

#[test]
fn a_release_whose_answer_may_have_been_lost_accuses_nobody() {
    let lost = |history: HistoryBuilder| {
        let lost = ReleaseResult::AlreadyLost;
        let history = history
            .granted("B", KEY, 5_000.0, 5_001.0, 1)
            .releases("B", 5_200.0, 1, lost);
        history.judged().outcome
    };
    assert_eq!(lost(busy()), Outcome::Broken);
    let cut = |who| {
        busy()
            .fault(who, 4_900.0, Fault::CutOff)
            .fault(who, 4_990.0, Fault::Reconnected)
    };
    assert_ne!(lost(cut("B")), Outcome::Broken);
    assert_eq!(lost(cut("C")), Outcome::Broken);
    let outage = busy().server("server", 4_900.0, Change::Killed).server(
        "server",
        4_990.0,
        Change::Restarted,
    );
    assert_ne!(lost(outage), Outcome::Broken);
}

#[test]
fn nobody_is_stuck_by_the_word_of_whoever_was_cut_off() {
    let outcome = |history: HistoryBuilder| {
        let history = history.waits_in_vain("B", 3_000.0, 13_000.0);
        history.judged().outcome
    };
    assert_eq!(outcome(busy()), Outcome::Stuck);
    for fault in [Fault::CutOff, Fault::Distant] {
        let away = |who| {
            busy()
                .fault(who, 1_000.0, fault)
                .fault(who, 2_900.0, Fault::Reconnected)
        };
        assert_ne!(outcome(away("B")), Outcome::Stuck, "{fault:?}");
        assert_eq!(outcome(away("C")), Outcome::Stuck, "{fault:?}");
        assert_ne!(outcome(away("B.2")), Outcome::Stuck, "{fault:?}");
    }
    let outage = busy().server("server", 2_800.0, Change::Stopped).server(
        "server",
        2_900.0,
        Change::Continued,
    );
    assert_ne!(outcome(outage), Outcome::Stuck);
}

#[test]
fn a_refusal_to_whoever_was_cut_off_is_no_contention() {
    let meets = |cut_off: &str| {
        let storm = turns()
            .granted("A", KEY, 200.0, 201.0, 11)
            .fault(cut_off, 205.0, Fault::CutOff)
            .tries("B", 210.0)
            .fault(cut_off, 215.0, Fault::Reconnected)
            .fault("A", 220.0, Fault::Killed);
        over(storm)
    };
    assert_eq!(missing(&meets("B")), "contention");
    assert_eq!(meets("C").outcome, Outcome::Held);
}

#[test]
fn a_delay_of_a_holder_is_no_witness_in_a_storm_that_also_kills() {
    let delayed = || {
        turns()
            .granted("A", KEY, 200.0, 201.0, 11)
            .tries("B", 210.0)
            .fault("A", 215.0, Fault::Distant)
            .fault("A", 218.0, Fault::Reconnected)
            .releases("A", 220.0, 11, RELEASED)
    };
    let verdict = over(delayed().faulty(FaultKind::Delay));
    assert_eq!(missing(&verdict), "fault");
    assert_eq!(
        verdict.because,
        "Nothing broke, and nothing was shown: no kill and no pause beyond the lease hit a holder."
    );
    let alone = over(delayed().faulty_only(FaultKind::Delay));
    assert_eq!(alone.outcome, Outcome::Held, "{alone:#?}");
}

#[test]
fn what_happened_to_a_process_long_before_explains_nothing() {
    let claims = Claims {
        fencing: true,
        ..KEPT_ALIVE
    };
    let overtaken = |history: HistoryBuilder| {
        history
            .fenced("B", KEY, 20_000.0, "1")
            .reads("B", 20_001.0, 1)
            .fault("B", 20_002.0, Fault::CutOff)
            .fenced("C", KEY, 20_801.0, "2")
            .reads("C", 20_802.0, 1)
            .writes("C", 20_803.0, 1, 1)
            .writes("B", 20_810.0, 1, 1)
            .judged()
    };
    let stopped_before = storm()
        .promising(claims)
        .fault("B", 5_000.0, Fault::Stopped)
        .fault("B", 5_100.0, Fault::Continued);
    for history in [storm().promising(claims), stopped_before] {
        let verdict = overtaken(history);
        assert_eq!(verdict.outcome, Outcome::Broken);
        let why = verdict.why.unwrap();
        assert!(why.starts_with("A process that cannot reach"), "{why}");
    }
}
