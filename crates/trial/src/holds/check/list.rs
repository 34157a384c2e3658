//! The table of all properties of a lock, each with its finding and the grounds for it.

use super::Checks;
use crate::history::Fault;
use crate::holds::facts::FaultSeen;
use crate::text::numbers::{count, ms};
use crate::verdict::{Checked, Finding};

impl Checks<'_> {
    /// Returns every property with its finding.
    pub fn list(&self) -> Vec<Checked> {
        vec![
            self.exclusion_at_resource(),
            self.exclusion_of_belief(),
            self.no_lost_update(),
            self.fence_issued(),
            self.fence_enforced(),
            self.recovers(),
            self.not_stuck(),
            self.no_cycle(),
        ]
    }

    fn exclusion_at_resource(&self) -> Checked {
        let (name, title) = ("exclusion_at_resource", "exclusion at the resource");
        if self.facts.ops.is_empty() {
            return Checked::of(name, title, Finding::NotApplicable)
                .because("nobody used the number");
        }
        match self.interleaved() {
            None => Checked::of(name, title, Finding::Held),
            Some((between, op)) => Checked::of(name, title, Finding::Violated)
                .because(format!(
                    "op {} of {} lies between two of {}",
                    between.serial, between.who, op.who
                ))
                .at([between.mark.event, op.mark.event]),
        }
    }

    fn exclusion_of_belief(&self) -> Checked {
        let (name, title) = ("exclusion_of_belief", "exclusion of belief");
        if self.facts.holds.is_empty() {
            return Checked::of(name, title, Finding::NotApplicable).because("nobody held a lock");
        }
        let overlaps = self.overlaps();
        match overlaps.iter().max_by_key(|overlap| overlap.lasted_ns()) {
            None => Checked::of(name, title, Finding::Held),
            Some(overlap) => Checked::of(name, title, Finding::Violated)
                .because(format!(
                    "{} and {} for {} ms",
                    overlap.first.who,
                    overlap.second.who,
                    ms(overlap.lasted_ns())
                ))
                .at([overlap.first.granted.event, overlap.second.granted.event]),
        }
    }

    fn no_lost_update(&self) -> Checked {
        let (name, title) = ("no_lost_update", "no lost update");
        let additions = self.facts.additions();
        if additions == 0 {
            return Checked::of(name, title, Finding::NotApplicable).because("nobody wrote");
        }
        let finding = match self.lost_updates() {
            0 => Finding::Held,
            _ => Finding::Violated,
        };
        let last = self.facts.ops.last().map(|op| op.mark.event);
        let number = count(self.facts.number());
        Checked::of(name, title, finding)
            .because(format!(
                "{} additions, the number is {number}",
                count(additions)
            ))
            .at(last)
    }

    fn fence_issued(&self) -> Checked {
        let (name, title) = ("fence_issued", "fences grow");
        let fenced = self.facts.holds.iter().filter(|hold| hold.fence.is_some());
        let fenced = fenced.count();
        match (fenced, self.fence_regression()) {
            (0, _) if self.claims.fencing && !self.facts.holds.is_empty() => {
                Checked::of(name, title, Finding::Violated).because("promised, and none was issued")
            }
            (some, _) if self.claims.fencing && some < self.facts.holds.len() => {
                Checked::of(name, title, Finding::Violated).because("promised, and one is missing")
            }
            (0, _) => Checked::of(name, title, Finding::NotApplicable).because("no fence"),
            _ if self.claims.fencing && self.fence_without_order().is_some() => {
                Checked::of(name, title, Finding::Violated)
                    .because("promised, and one is not a number")
            }
            (_, Some((earlier, later))) => Checked::of(name, title, Finding::Violated)
                .because(format!(
                    "{} after {}",
                    later.fence.as_deref().unwrap_or_default(),
                    earlier.fence.as_deref().unwrap_or_default()
                ))
                .at([earlier.granted.event, later.granted.event]),
            (1, None) => Checked::of(name, title, Finding::Undecided).because("one grant only"),
            (_, None) => Checked::of(name, title, Finding::Held),
        }
    }

    fn fence_enforced(&self) -> Checked {
        let (name, title) = ("fence_enforced", "fence enforced");
        if !self.claims.fencing {
            return Checked::of(name, title, Finding::NotApplicable)
                .because("the lock does not promise it");
        }
        match self.unfenced() {
            None => Checked::of(name, title, Finding::Held),
            Some(op) => Checked::of(name, title, Finding::Violated)
                .because(format!("op {} came under a lower fence", op.serial))
                .at([op.mark.event]),
        }
    }

    fn recovers(&self) -> Checked {
        let (name, title) = ("recovery", "recovery");
        let killed = |seen: &FaultSeen| seen.fault == Fault::Killed;
        if !self.facts.faults.iter().any(killed) {
            return Checked::of(name, title, Finding::NotApplicable).because("nobody was killed");
        }
        if !self.measures_recovery() {
            return Checked::of(name, title, Finding::NotApplicable)
                .because("measured one kill at a time, in crash");
        }
        let Some((died, next)) = self.recovery() else {
            let finding = match self.stuck() {
                Some(_) => Finding::Violated,
                None => Finding::Undecided,
            };
            return Checked::of(name, title, finding).because("nobody got the lock");
        };
        let took_ns = next.granted.at_ns - died.at_ns;
        let after = format!("{} ms after the kill", ms(took_ns));
        let is_in_time = |bound_ns| took_ns <= bound_ns;
        let (finding, detail) = if self.recovered_in_doubt(took_ns) {
            let detail = format!("{after}, which is later than promised, but not by much");
            (Finding::Undecided, detail)
        } else if self.recovery_bound_ns().is_none_or(is_in_time) {
            (Finding::Held, after)
        } else if self.has_stalled(died, next.granted) {
            let detail = format!("{after}, but the lab stalled meanwhile");
            (Finding::Undecided, detail)
        } else {
            (Finding::Violated, after)
        };
        Checked::of(name, title, finding)
            .because(detail)
            .at([died.event, next.granted.event])
    }

    fn not_stuck(&self) -> Checked {
        let (name, title) = ("not_stuck", "not stuck");
        match self.stuck() {
            None if self.stuck_in_doubt().is_some() => {
                Checked::of(name, title, Finding::Undecided).because("the lab stalled")
            }
            None => Checked::of(name, title, Finding::Held),
            Some(stuck) => Checked::of(name, title, Finding::Violated)
                .because(format!("nobody for {} ms", ms(stuck.lasted_ns)))
                .at(stuck.refused.iter().map(|(_, mark)| mark.event)),
        }
    }

    fn no_cycle(&self) -> Checked {
        let (name, title) = ("no_wait_cycle", "no wait cycle");
        match self.facts.cycles().first() {
            None => Checked::of(name, title, Finding::Held),
            Some(cycle) => Checked::of(name, title, Finding::Violated)
                .because(format!(
                    "{} for {} ms",
                    cycle.who.join(", "),
                    ms(cycle.lasted_ns)
                ))
                .at([cycle.since.event]),
        }
    }
}
