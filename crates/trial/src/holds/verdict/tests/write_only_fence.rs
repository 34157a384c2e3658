//! Verdicts on a fence that only writes are checked for, in `write-only-fence`.

use super::*;
use crate::protocol::Action;

const FENCED: &str = "fenced";
const WRITES_ONLY: &str = "fenced-writes";

fn uses(who: &str, serial: u64, action: Action, value: i64, refused: bool) -> What {
    let fence = if who == "A" { "1.0" } else { "2.0" };
    What::Register {
        op: 100 + serial,
        hold: 1,
        serial,
        action,
        value,
        fence: Some(fence.into()),
        highest: refused.then(|| "2.0".into()),
        refused,
    }
}

/// A is paused between its read and its write, and B reads; then both write.
fn read_first(strategy: &'static str, refused: bool) -> HistoryBuilder {
    HistoryBuilder::of(Scenario::WriteOnlyFence)
        .with(strategy)
        .fenced("A", KEY, 1.0, "1.0")
        .add(2.0, "A", uses("A", 1, Action::Read, 0, false))
        .fault("A", 3.0, Fault::Stopped)
        .lease_over("A", 1_001.0, 1)
        .fenced("B", KEY, 1_005.0, "2.0")
        .add(1_006.0, "B", uses("B", 2, Action::Read, 0, false))
        .fault("A", 1_100.0, Fault::Continued)
        .add(1_101.0, "A", uses("A", 3, Action::Write, 1, refused))
        .add(1_102.0, "B", uses("B", 4, Action::Write, 1, false))
}

#[test]
fn an_update_is_lost_although_every_write_carried_a_fence() {
    let verdict = read_first(WRITES_ONLY, false).judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert!(verdict.because.contains("every write carried a fence"));
    assert_eq!(
        shown(&verdict),
        [
            "#7 B is granted product_A, with a higher fence",
            "#8 B reads 0, fence 2.0",
            "#10 A writes 1, fence 1.0",
            "#11 B writes 1, fence 2.0"
        ]
    );
    assert!(verdict.why.unwrap().contains("checked on reads, too"));
}

#[test]
fn a_fence_that_reads_are_checked_for_prevents_it() {
    held(&read_first(FENCED, true).judged());
    let let_in = read_first(FENCED, false).judged();
    assert_eq!(let_in.outcome, Outcome::Broken);
}

#[test]
fn whoever_claims_fences_on_writes_only_is_not_accused_of_its_reads() {
    let history = HistoryBuilder::of(Scenario::WriteOnlyFence)
        .fenced("A", KEY, 1.0, "1.0")
        .fenced("B", KEY, 1_005.0, "2.0")
        .add(1_006.0, "B", uses("B", 1, Action::Read, 0, false))
        .add(1_007.0, "A", uses("A", 2, Action::Read, 0, false));
    let accused = history.clone().with(FENCED).judged();
    assert_eq!(accused.outcome, Outcome::Broken);
    let spared = history.with(WRITES_ONLY).judged();
    assert_ne!(spared.outcome, Outcome::Broken, "{spared:?}");
}

#[test]
fn a_lock_without_fences_is_judged_as_in_a_pause() {
    let verdict = HistoryBuilder::of(Scenario::WriteOnlyFence)
        .granted("A", KEY, 0.5, 1.0, 1)
        .reads("A", 2.0, 1)
        .fault("A", 3.0, Fault::Stopped)
        .lease_over("A", 1_001.0, 1)
        .granted("B", KEY, 1_003.0, 1_005.0, 1)
        .reads("B", 1_006.0, 1)
        .fault("A", 1_100.0, Fault::Continued)
        .writes("A", 1_101.0, 1, 1)
        .writes("B", 1_102.0, 1, 1)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert!(!verdict.because.contains("fence"), "{}", verdict.because);
}
