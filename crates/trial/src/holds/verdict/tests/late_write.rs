//! Verdicts on a write that arrives when its holder's lock is over, in `late-write`.

use super::*;
use crate::protocol::Claims;

/// A sends its write at 3 ms, and releases its lock after its lease.
fn sent(claims: Claims) -> HistoryBuilder {
    HistoryBuilder::of(Scenario::LateWrite)
        .promising(claims)
        .granted("A", KEY, 0.5, 1.0, 1)
        .reads("A", 2.0, 1)
        .fault("A", 3.0, Fault::WriteHeld)
        .lease_over("A", 1_001.0, 1)
}

fn b_writes(history: HistoryBuilder) -> HistoryBuilder {
    history
        .granted("B", KEY, 1_003.0, 1_005.0, 1)
        .reads("B", 1_006.0, 1)
        .writes("B", 1_007.0, 1, 1)
}

fn a_releases(history: HistoryBuilder) -> HistoryBuilder {
    history.releases("A", 1_002.0, 1, LOST)
}

#[test]
fn a_late_write_that_is_accepted_loses_an_update_whatever_the_lock() {
    let kept = Claims {
        keep_alive: true,
        ..Claims::OWNED
    };
    for claims in [Claims::PLAIN, kept, Claims::OF_SESSION] {
        let history = b_writes(a_releases(sent(claims))).writes("A", 1_110.0, 1, 1);
        let verdict = history.judged();
        assert_eq!(verdict.outcome, Outcome::Broken, "{claims:?}");
        assert_eq!(
            verdict.because,
            "A's write arrived 1,107.0 ms after it was sent, when A's hold was over, and overwrote B's update. One is lost."
        );
        assert_eq!(
            shown(&verdict),
            [
                "#5 A sends its write, under its lock",
                "#14 B writes 1, under the lock that A had",
                "#16 A's write arrives: A writes 1"
            ]
        );
        assert!(verdict.why.unwrap().contains("No lock can call back"));
        assert!(verdict.next[0].command.contains("--lock=fenced"));
    }
}

#[test]
fn a_late_write_that_is_refused_does_no_damage() {
    let fenced = Claims {
        fencing: true,
        ..Claims::OWNED
    };
    let history = HistoryBuilder::of(Scenario::LateWrite)
        .promising(fenced)
        .fenced("A", KEY, 1.0, "1.0")
        .fault("A", 3.0, Fault::WriteHeld)
        .fenced("B", KEY, 1_005.0, "2.0")
        .writes("B", 1_007.0, 1, 1)
        .releases("A", 1_100.0, 1, LOST)
        .write_refused("A", 1_110.0, 1, 1);
    held(&history.judged());
}

#[test]
fn a_write_that_nobody_overtook_shows_nothing() {
    let alone = a_releases(sent(Claims::PLAIN)).writes("A", 1_110.0, 1, 1);
    assert_eq!(missing(&alone.judged()), "delay");
    // It arrived before A's hold was over, and that convicts nobody.
    let early = b_writes(sent(Claims::PLAIN)).writes("A", 1_050.0, 1, 1);
    assert_eq!(missing(&early.judged()), "calm");
    let not_held = HistoryBuilder::of(Scenario::LateWrite)
        .granted("A", KEY, 0.5, 1.0, 1)
        .reads("A", 2.0, 1)
        .writes("A", 3.0, 1, 1);
    assert_eq!(missing(&not_held.judged()), "delay");
}

#[test]
fn two_holders_within_a_lease_are_named_first() {
    let both = sent(Claims::PLAIN)
        .granted("B", KEY, 4.0, 1_005.0, 1)
        .without(4);
    assert_ne!(both.judged().outcome, Outcome::Broken);
    let within = HistoryBuilder::of(Scenario::LateWrite)
        .granted("A", KEY, 0.5, 1.0, 1)
        .reads("A", 2.0, 1)
        .fault("A", 3.0, Fault::WriteHeld)
        .granted("B", KEY, 4.0, 5.0, 1)
        .reads("B", 6.0, 1)
        .writes("B", 7.0, 1, 1)
        .releases("A", 1_100.0, 1, LOST)
        .writes("A", 1_110.0, 1, 1);
    let verdict = within.judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert!(verdict.why.unwrap().contains("within A's lease"));
}
