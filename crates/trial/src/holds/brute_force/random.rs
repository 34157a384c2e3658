//! Random histories, on which both ways of judging must agree.

use std::collections::HashSet;

use super::*;

/// Makes events with so few names, numbers and times that most of them meet.
struct Chance(SeededRandom);

impl Chance {
    fn below(&self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }

    fn of<'t>(&self, all: &[&'t str]) -> &'t str {
        all[self.below(all.len() as u64) as usize]
    }

    fn history(&self) -> Vec<Event> {
        let (length, mut at_ns) = (self.below(40) + 1, 0_u64);
        let event = |n| {
            // Most events come in order; some have the same time, and some an earlier one.
            at_ns = match self.below(8) {
                0 => at_ns.saturating_sub(self.below(400_000_000)),
                1 => at_ns,
                2 => at_ns + 2_000_000_000,
                _ => at_ns + self.below(300_000_000),
            };
            let who = self.of(&["A", "B", "C"]).to_owned();
            Event {
                n,
                at_ns,
                who: Some(who),
                what: self.what(n),
            }
        };
        (1..=length).map(event).collect()
    }

    fn what(&self, n: u64) -> What {
        let (op, hold) = (n.saturating_sub(self.below(6)), self.below(2));
        // A number is used twice now and then.
        let new = n - u64::from(self.below(6) == 0);
        let key = self.of(&["k", "l"]).to_owned();
        let fence = self.of(&["1", "2.0", "2", "3.1", "many", "few", ""]);
        let fence = (!fence.is_empty()).then(|| fence.to_owned());
        let is_true = self.below(2) == 0;
        let action = if is_true { Action::Read } else { Action::Write };
        match self.below(20) {
            0 | 1 => What::Acquire {
                op: new,
                key,
                wait_ms: 3_000 * self.below(4),
            },
            2..=4 => What::Acquired {
                op,
                key,
                hold,
                fence,
                valid_ms: is_true.then_some(200.0),
                contended: false,
            },
            5 => What::Refused { op, key },
            6 => What::Step {
                op: new,
                hold,
                action,
            },
            7..=9 | 17.. => What::Register {
                op,
                hold,
                serial: n,
                action,
                value: 1,
                fence,
                highest: None,
                refused: self.below(5) == 0,
            },
            10 => What::Release { op: new, key, hold },
            11 => What::Released {
                op,
                key,
                hold,
                outcome: if is_true {
                    ReleaseResult::Released
                } else {
                    ReleaseResult::Unknown
                },
            },
            12 => What::Lost { hold },
            13 => What::Failed {
                op,
                definite: is_true,
                message: String::new(),
            },
            14 if is_true && self.below(4) == 0 => What::Server {
                server: self.of(&["first", "second"]).to_owned(),
                change: Change::ALL[self.below(Change::ALL.len() as u64) as usize],
            },
            14 if self.below(6) == 0 => What::Stalled { for_ms: 400.0 },
            14 => What::Fault {
                fault: Fault::ALL[self.below(Fault::ALL.len() as u64) as usize],
            },
            15 => What::Purchase {
                op: new,
                quantity: 1,
            },
            16 => What::Purchased {
                op,
                purchase: Purchase {
                    outcome: PurchaseOutcome::Sold,
                    before: None,
                    after: None,
                    contended: false,
                    waited_ms: n as f64,
                    fence: None,
                    effort: None,
                },
            },
        }
    }
}

#[test]
fn the_quick_answers_are_those_of_a_search_of_everything() {
    let chance = Chance(SeededRandom::new(7041));
    let (mut found, mut made) = ([0_usize; 10], HashSet::new());
    for case in 0..20_000 {
        let events = chance.history();
        let mut trial = Trial::new(Scenario::DeadlockSorted, strategy::find("safe").unwrap(), 7);
        trial.ttl_ms = [10, 300, 1_000][chance.below(3) as usize];
        let mut header = trial.header();
        let mut claims = Claims::PLAIN;
        claims.untimed = chance.below(2) == 0;
        header.holds.as_mut().unwrap().claims = claims;
        let brute_force = BruteForce::of(&events, claims, trial.ttl_ms);
        let facts = Facts::of(&events);
        let checks = Checks::of(&header, &facts);
        assert_eq!(facts.holds, brute_force.holds, "{case}: {events:#?}");
        assert_eq!(facts.waits, brute_force.waits, "{case}: {events:#?}");
        assert_eq!(facts.ops, brute_force.ops, "{case}: {events:#?}");
        assert_eq!(facts.buys, brute_force.buys, "{case}: {events:#?}");
        assert_eq!(facts.faults, brute_force.faults, "{case}: {events:#?}");
        assert_eq!(facts.servers, brute_force.servers, "{case}: {events:#?}");
        assert_eq!(facts.stalls, brute_force.stalls, "{case}: {events:#?}");
        for op in &facts.ops {
            assert_eq!(
                facts.hold_of(op),
                brute_force.hold_of(op),
                "{case}: {events:#?}"
            );
        }
        assert_eq!(facts.cycles(), brute_force.cycles(), "{case}: {events:#?}");
        let overlaps = checks.overlaps().into_iter();
        let overlaps: Vec<_> = overlaps
            .map(|one| (one.first, one.second, one.from_ns, one.until_ns))
            .collect();
        assert_eq!(overlaps, brute_force.overlaps(), "{case}: {events:#?}");
        let regression = checks.fence_regression();
        assert_eq!(
            regression,
            brute_force.fence_regression(|hold| checks.cannot_be_first_before_ns(hold)),
            "{case}: {events:#?}"
        );
        let late = checks.granted_late();
        assert_eq!(late, brute_force.granted_late(), "{case}: {events:#?}");
        let free = checks.stuck_free();
        assert_eq!(free, brute_force.stuck_free(), "{case}: {events:#?}");
        let met = checks.met_taken();
        assert_eq!(met, brute_force.met_taken(), "{case}: {events:#?}");
        let lost = crate::holds::verdict::lost_update(&facts);
        assert_eq!(lost, brute_force.lost(), "{case}: {events:#?}");
        let seen = [
            !facts.holds.is_empty(),
            !facts.cycles().is_empty(),
            !checks.overlaps().is_empty(),
            regression.is_some(),
            late.is_some(),
            free.is_some(),
            met.is_some(),
            lost.is_some(),
            !facts.servers.is_empty(),
            !facts.stalls.is_empty(),
        ];
        made.extend(facts.faults.iter().map(|seen| seen.fault));
        for (count, seen) in found.iter_mut().zip(seen) {
            *count += usize::from(seen);
        }
    }
    // A comparison of nothing with nothing would prove nothing.
    assert!(found.iter().all(|count| *count > 20), "{found:?}");
    assert_eq!(made.len(), Fault::ALL.len(), "{made:?}");
}
