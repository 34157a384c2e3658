//! Each name is a lock of its own: what convicts a lock of the contrary, and what does not.

use super::*;
use crate::holds::names::{PAIRS, TOGETHER};
use crate::protocol::Claims;

const RELEASED: ReleaseResult = ReleaseResult::Released;
const KEPT_ALIVE: Claims = Claims {
    keep_alive: true,
    ..Claims::PLAIN
};
/// How long a process waits for a name.
const WAIT_MS: u64 = 300;

/// A history of the trial, with its own clock. Each request takes a millisecond.
struct NamesHistory {
    history: HistoryBuilder,
    now: f64,
    last_hold: u64,
}

impl NamesHistory {
    fn begin(claims: Claims) -> Self {
        Self {
            history: HistoryBuilder::of(Scenario::Names).promising(claims),
            now: 0.0,
            last_hold: 0,
        }
    }

    fn later(mut self, ms: f64) -> Self {
        self.now += ms;
        self
    }

    fn take(mut self, who: &str, key: &str) -> Self {
        self.last_hold += 1;
        let op = self.history.events().len() as u64 + 1;
        self.history = self.history.asks(who, key, self.now, WAIT_MS).grants(
            who,
            key,
            op,
            self.now + 1.0,
            self.last_hold,
            None,
        );
        self.later(2.0)
    }

    /// Waits this long, and is refused.
    fn refuse_after(mut self, who: &str, key: &str, wait_ms: u64, ms: f64) -> Self {
        let op = self.history.events().len() as u64 + 1;
        let refused = What::Refused {
            op,
            key: key.into(),
        };
        self.history =
            self.history
                .asks(who, key, self.now, wait_ms)
                .add(self.now + ms, who, refused);
        self.later(ms + 1.0)
    }

    fn refuse(self, who: &str, key: &str) -> Self {
        self.refuse_after(who, key, 0, 1.0)
    }

    fn release(mut self, who: &str, key: &str) -> Self {
        let facts = self.history.facts();
        let mut holds = facts.holds.iter().rev();
        let hold = holds.find(|hold| hold.who == who && hold.key == key);
        let id = hold.unwrap().id;
        self.history = self.history.releases_of(who, key, self.now, id, RELEASED);
        self.later(2.0)
    }

    fn apart(self, one: &str, other: &str) -> Self {
        self.take("A", one)
            .take("B", other)
            .refuse("A", other)
            .release("A", one)
            .refuse("A", other)
            .release("B", other)
            .take("B", other)
            .release("B", other)
    }

    fn pairs(self) -> Self {
        PAIRS.into_iter().fold(self, |play, [one, other]| {
            play.apart(one, other).apart(other, one)
        })
    }

    /// A has three names for this long, and the two that it does not release for as long again.
    fn several(self, ms: f64) -> Self {
        let [first, second, third] = TOGETHER;
        self.take("A", first)
            .take("A", second)
            .take("A", third)
            .later(ms)
            .refuse("B", second)
            .release("A", second)
            .take("B", second)
            .release("B", second)
            .later(ms)
            .refuse("B", first)
            .refuse("B", third)
            .release("A", first)
            .release("A", third)
    }

    /// A has three names for longer than a lease, and says that the first is lost.
    fn loses_the_first(self) -> Self {
        self.declines_the_first(ReleaseResult::AlreadyLost)
    }

    /// A declines to use its first name, whose release then says this.
    fn declines_the_first(mut self, outcome: ReleaseResult) -> Self {
        let [first, second, third] = TOGETHER;
        self = self.take("A", first).take("A", second).take("A", third);
        let hold = self.last_hold - 2;
        self = self.later(1_200.0);
        let declined = What::Declined { op: 99, hold };
        self.history = self.history.add(self.now, "A", declined);
        self = self.later(2.0);
        self.history = self
            .history
            .releases_of("A", first, self.now, hold, outcome);
        self.later(2.0).release("A", second).release("A", third)
    }

    fn judged(&self) -> Verdict {
        self.history.judged()
    }
}

#[test]
fn a_lock_that_keeps_every_name_apart_is_acquitted() {
    let verdict = NamesHistory::begin(Claims::PLAIN)
        .pairs()
        .several(5.0)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Held, "{verdict:#?}");
    assert!(verdict.witness[0].starts_with("8 pairs of similar names"));
    let kept = NamesHistory::begin(KEPT_ALIVE)
        .pairs()
        .several(1_200.0)
        .judged();
    assert_eq!(kept.outcome, Outcome::Held, "{kept:#?}");
    assert!(
        kept.witness[1].ends_with("on leases of 1,000.0 ms"),
        "{:?}",
        kept.witness
    );
}

#[test]
fn a_holder_that_says_so_shows_that_its_lease_was_not_renewed() {
    let play = || NamesHistory::begin(KEPT_ALIVE).pairs();
    let verdict = play().loses_the_first().loses_the_first().judged();
    assert_eq!(verdict.outcome, Outcome::Broken, "{verdict:#?}");
    assert_eq!(
        verdict.because,
        "A had 3 names, and one of them was not kept: A says that product_A is lost."
    );
    assert_eq!(
        verdict.why.unwrap(),
        "A said so 1,205.0 ms after its grant, on a lease of 1,000.0 ms, and again later. Nothing had failed: the lease was not kept alive, \
         as the lock claims."
    );
    assert_eq!(verdict.evidence.len(), 4);
    // Once may be the machine, a stall of the lab is one, a failure is a reason, and a plain lease may end.
    let once = play().loses_the_first().several(1_200.0);
    assert_ne!(once.judged().outcome, Outcome::Broken);
    let mut stalled = play().loses_the_first().loses_the_first();
    stalled.history = stalled
        .history
        .stalls(stalled.now - 900.0, stalled.now - 700.0);
    assert_ne!(stalled.judged().outcome, Outcome::Broken);
    let mut failed = play();
    let failure = What::Failed {
        op: 900,
        definite: false,
        message: "no answer".into(),
    };
    failed.history = failed.history.add(failed.now, "A", failure);
    let failed = failed.loses_the_first().loses_the_first();
    assert_ne!(failed.judged().outcome, Outcome::Broken);
    // It could not tell, and had kept it.
    let careful = play()
        .declines_the_first(RELEASED)
        .declines_the_first(RELEASED);
    assert_ne!(careful.judged().outcome, Outcome::Broken);
    let plain = NamesHistory::begin(Claims::PLAIN).pairs();
    let plain = plain.loses_the_first().loses_the_first();
    assert_ne!(plain.judged().outcome, Outcome::Broken);
}

#[test]
fn nothing_is_shown_without_each_pair_and_without_several_names_at_once() {
    let because = |play: NamesHistory| {
        let verdict = play.judged();
        assert_eq!(verdict.outcome, Outcome::Inconclusive, "{verdict:#?}");
        verdict.because
    };
    assert_eq!(
        because(NamesHistory::begin(Claims::PLAIN).several(5.0)),
        "Nothing broke, and nothing was shown: no two processes held order_A and order_a at once."
    );
    assert_eq!(
        because(NamesHistory::begin(Claims::PLAIN).pairs()),
        "Nothing broke, and nothing was shown: A was not seen to keep product_A and product_C after its release of product_B."
    );
    // A lock that claims to renew its leases must be seen beyond them.
    let brief = NamesHistory::begin(KEPT_ALIVE).pairs().several(5.0);
    assert!(because(brief).contains("A was not seen to keep"));
}

#[test]
fn a_pair_that_the_lock_refuses_with_an_error_is_named_and_not_judged() {
    let mut play = NamesHistory::begin(Claims::PLAIN);
    for [one, other] in PAIRS.into_iter().take(PAIRS.len() - 1) {
        play = play.apart(one, other).apart(other, one);
    }
    let op = play.history.events().len() as u64 + 1;
    let failed = What::Failed {
        op,
        definite: true,
        message: "too long".into(),
    };
    play.history =
        play.history
            .asks("A", PAIRS[7][0], play.now, WAIT_MS)
            .add(play.now + 1.0, "A", failed);
    let verdict = play.later(5.0).several(5.0).judged();
    assert_eq!(verdict.outcome, Outcome::Held, "{verdict:#?}");
    assert_eq!(
        verdict.limits.unwrap(),
        "these names; others may collide. Not tried, because a request failed: warehouse/…se/A (281 bytes) and \
         warehouse/…se/B (281 bytes)"
    );
}

/// B is refused a free name while A has the other, and gets it when A has released that one.
fn collide(play: NamesHistory, one: &str, other: &str) -> NamesHistory {
    play.take("A", one)
        .refuse_after("B", other, WAIT_MS, 300.0)
        .release("A", one)
        .take("A", other)
        .release("A", other)
}

#[test]
fn two_names_that_are_one_lock_convict_if_it_happens_twice() {
    let once = collide(NamesHistory::begin(Claims::PLAIN), "order_A", "order_a");
    assert_eq!(once.judged().outcome, Outcome::Inconclusive);
    let verdict = collide(once, "order_a", "order_A").judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "order_A and order_a are one lock: while A had one, nobody could have the other."
    );
    assert_eq!(
        shown(&verdict),
        [
            "#2 A is granted order_A",
            "#4 B is refused order_a, which nobody has",
            "#6 A's release of order_A is done",
            "#8 A is granted order_a",
            "#14 B is refused order_A, which nobody has"
        ]
    );
    assert_eq!(
        verdict.why.unwrap(),
        "B waited 300 ms for order_a, which nobody held, and did not get it. It was granted at the next request, when A had released order_A. \
         That happened twice: the lock does not tell these names apart, which differ in case only."
    );
    let other_names = collide(NamesHistory::begin(Claims::PLAIN), "order_A", "order_a");
    let other_names = collide(other_names, "order_1", "order_10");
    assert_eq!(other_names.judged().outcome, Outcome::Inconclusive);
}

#[test]
fn a_refusal_that_has_another_reason_convicts_nobody() {
    let twice = |play: NamesHistory| {
        let play = collide(play, "order_A", "order_a");
        let verdict = collide(play, "order_a", "order_A").judged();
        assert_eq!(verdict.outcome, Outcome::Inconclusive, "{verdict:#?}");
    };
    // A free name was refused although nobody had any: something else is the matter.
    let alone = NamesHistory::begin(Claims::PLAIN).refuse_after("B", "order_7", WAIT_MS, 300.0);
    twice(alone);
    // The machine is slow: a grant took as long.
    let mut slow = NamesHistory::begin(Claims::PLAIN);
    slow.history = slow
        .history
        .asks("B", "order_7", 0.0, WAIT_MS)
        .grants("B", "order_7", 1, 290.0, 99, None)
        .releases_of("B", "order_7", 291.0, 99, RELEASED);
    twice(slow.later(300.0));
    // The lab itself stalled.
    let mut stalled = NamesHistory::begin(Claims::PLAIN);
    stalled.history = stalled.history.stalls(10.0, 900.0);
    twice(stalled);
}

#[test]
fn a_release_that_frees_another_name_convicts() {
    let freed = NamesHistory::begin(Claims::PLAIN)
        .take("A", "order_1")
        .take("A", "order_10")
        .refuse("B", "order_10")
        .release("A", "order_1")
        .take("B", "order_10")
        .release("B", "order_10")
        .release("A", "order_10");
    let verdict = freed.judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "A's release of order_1 freed order_10, which A had: two holders at once."
    );
    assert_eq!(
        verdict.why.unwrap(),
        "order_10 was refused before the release of order_1, and granted after it, and A had not released it."
    );
    // Without the refusal, nothing shows that the release did it.
    let verdict = NamesHistory::begin(Claims::PLAIN)
        .take("A", "order_1")
        .take("A", "order_10")
        .release("A", "order_1")
        .take("B", "order_10")
        .release("A", "order_10")
        .judged();
    assert_eq!(verdict.because, "Two holders at once, within A's lease.");
}

/// A has three names beyond its leases, and B gets the first.
fn lose(play: NamesHistory) -> NamesHistory {
    let [first, second, third] = TOGETHER;
    play.take("A", first)
        .take("A", second)
        .take("A", third)
        .later(1_300.0)
        .take("B", first)
        .release("B", first)
        .release("A", first)
        .release("A", second)
        .release("A", third)
}

#[test]
fn a_name_that_is_not_kept_alive_convicts_if_it_happens_in_two_rounds() {
    let once = lose(NamesHistory::begin(KEPT_ALIVE));
    assert_eq!(once.judged().outcome, Outcome::Inconclusive);
    let verdict = lose(once).judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "A had 3 names, and one of them was not kept: B was granted product_A."
    );
    assert!(verdict.why.unwrap().contains("not kept alive"));
    let plain = lose(lose(NamesHistory::begin(Claims::PLAIN)));
    assert_eq!(plain.judged().outcome, Outcome::Inconclusive);
}

/// The lock claims to have no lease, and its record expired all the same.
#[test]
fn a_name_that_ended_by_itself_is_not_blamed_on_the_release_of_another() {
    let untimed = Claims {
        untimed: true,
        ..Claims::OWNED
    };
    let verdict = NamesHistory::begin(untimed)
        .take("A", "order_1")
        .take("B", "order_10")
        .refuse("B", "order_1")
        .later(1_300.0)
        .release("B", "order_10")
        .take("B", "order_1")
        .release("B", "order_1")
        .release("A", "order_1")
        .judged();
    assert_eq!(
        verdict.because,
        "Two holders at once: A had not released the lock."
    );
}
