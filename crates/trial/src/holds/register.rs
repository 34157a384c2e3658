//! The register: the number that the locks of a trial protect. The lab keeps it and executes one operation at a time.

use std::collections::HashMap;

use crate::history::What;
use crate::history::fence::compare;
use crate::protocol::{Action, Claims};

/// The numbers of all locks of a trial, with one serial log.
#[derive(Debug)]
pub(super) struct Registers {
    of_key: HashMap<&'static str, Register>,
    serial: u64,
    checks_fences: FenceCheck,
}

/// Which steps the number refuses if their fence is outdated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum FenceCheck {
    /// None.
    #[default]
    Never,
    /// Writes. Reads pass, and leave no trace.
    OnWrites,
    /// Reads and writes.
    Always,
}

impl FenceCheck {
    /// Returns which steps are checked for a lock with these claims.
    pub(super) fn of(claims: Claims) -> Self {
        match claims {
            Claims { fencing: false, .. } => Self::Never,
            Claims {
                fences_writes_only: true,
                ..
            } => Self::OnWrites,
            _ => Self::Always,
        }
    }
}

impl Registers {
    pub(super) fn new(checks_fences: FenceCheck) -> Self {
        Self {
            of_key: HashMap::new(),
            serial: 0,
            checks_fences,
        }
    }

    /// Executes the step on the number of this lock, or refuses it.
    pub(super) fn carry_out(&mut self, key: &'static str, step: &Step) -> What {
        let register = self.of_key.entry(key);
        let register = register.or_insert_with(|| Register::new(self.checks_fences));
        self.serial += 1;
        register.carry_out(step, self.serial)
    }
}

/// A step that a process takes on the number.
#[derive(Debug, Clone)]
pub(super) struct Step {
    /// The number of the process. One that was started again has another number.
    pub(super) actor: usize,
    /// The number of the request.
    pub(super) op: u64,
    /// The hold that the step belongs to.
    pub(super) hold: u64,
    pub(super) action: Action,
    pub(super) fence: Option<String>,
}

/// The number, with the fences it has seen.
#[derive(Debug, Default)]
pub(super) struct Register {
    value: i64,
    read: HashMap<(usize, u64), i64>,
    highest: Option<(String, usize, u64)>,
    checks_fences: FenceCheck,
}

impl Register {
    pub(super) fn new(checks_fences: FenceCheck) -> Self {
        Self {
            checks_fences,
            ..Self::default()
        }
    }

    /// Executes the step, or refuses it. `serial` is its number among the steps on all numbers of the trial.
    pub(super) fn carry_out(&mut self, step: &Step, serial: u64) -> What {
        let holder = (step.actor, step.hold);
        let before = self.highest.clone();
        let is_fenced = match self.checks_fences {
            FenceCheck::Always => true,
            FenceCheck::OnWrites => step.action == Action::Write,
            FenceCheck::Never => false,
        };
        let refused = is_fenced && !self.accepts(step);
        let value = match step.action {
            Action::Read => self.value,
            // A process that writes without having read starts from zero.
            Action::Write => self.read.get(&holder).copied().unwrap_or(0) + 1,
        };
        if !refused {
            match step.action {
                Action::Read => drop(self.read.insert(holder, value)),
                Action::Write => self.value = value,
            }
            let leaves_trace = is_fenced || self.checks_fences == FenceCheck::Never;
            if let Some(fence) = step.fence.as_deref().filter(|_| leaves_trace) {
                self.raise(fence, holder);
            }
        }
        What::Register {
            op: step.op,
            hold: step.hold,
            serial,
            action: step.action,
            value,
            fence: step.fence.clone(),
            highest: before.map(|(fence, ..)| fence),
            refused,
        }
    }

    /// Returns whether the step is accepted. Once the number has seen a fence, it refuses lower fences, the same fence under
    /// another hold, and steps without a fence.
    fn accepts(&self, step: &Step) -> bool {
        let Some((highest, actor, hold)) = &self.highest else {
            return true;
        };
        let Some(fence) = &step.fence else {
            return false;
        };
        match compare(fence, highest) {
            Some(std::cmp::Ordering::Greater) => true,
            Some(std::cmp::Ordering::Equal) => (*actor, *hold) == (step.actor, step.hold),
            _ => false,
        }
    }

    fn raise(&mut self, fence: &str, (actor, hold): (usize, u64)) {
        let higher = self.highest.as_ref().is_none_or(|(highest, ..)| {
            compare(fence, highest) == Some(std::cmp::Ordering::Greater)
        });
        if higher {
            self.highest = Some((fence.to_owned(), actor, hold));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "product_A";

    fn step(actor: usize, action: Action, fence: Option<&str>) -> Step {
        Step {
            actor,
            op: 1,
            hold: 1,
            action,
            fence: fence.map(Into::into),
        }
    }

    fn outcome(what: &What) -> (u64, i64, bool) {
        let What::Register {
            serial,
            value,
            refused,
            ..
        } = what
        else {
            panic!("{what:?}")
        };
        (*serial, *value, *refused)
    }

    #[test]
    fn an_update_from_an_old_reading_is_lost() {
        let mut number = Registers::new(FenceCheck::Never);
        let uses = [
            (0, Action::Read, (1, 0, false)),
            (1, Action::Read, (2, 0, false)),
            (0, Action::Write, (3, 1, false)),
            (1, Action::Write, (4, 1, false)),
            (0, Action::Read, (5, 1, false)),
        ];
        for (actor, action, expected) in uses {
            let what = number.carry_out(KEY, &step(actor, action, None));
            assert_eq!(outcome(&what), expected);
        }
    }

    #[test]
    fn a_lower_fence_is_refused_on_writes_and_on_reads() {
        let mut number = Registers::new(FenceCheck::Always);
        assert!(!outcome(&number.carry_out(KEY, &step(0, Action::Read, Some("9.0")))).2);
        assert!(!outcome(&number.carry_out(KEY, &step(1, Action::Read, Some("10.0")))).2);
        assert!(outcome(&number.carry_out(KEY, &step(0, Action::Write, Some("9.0")))).2);
        assert!(outcome(&number.carry_out(KEY, &step(0, Action::Read, Some("9.7")))).2);
        assert!(outcome(&number.carry_out(KEY, &step(2, Action::Read, Some("10.0")))).2);
        assert!(outcome(&number.carry_out(KEY, &step(2, Action::Read, None))).2);
        assert!(outcome(&number.carry_out(KEY, &step(2, Action::Read, Some("eleven")))).2);
        let written = number.carry_out(KEY, &step(1, Action::Write, Some("10.0")));
        assert_eq!(outcome(&written), (8, 1, false));
    }

    #[test]
    fn a_fence_that_is_checked_on_writes_only_lets_an_update_be_lost() {
        let mut number = Registers::new(FenceCheck::OnWrites);
        let uses = [
            (0, Action::Read, "9.0", (1, 0, false)),
            (1, Action::Read, "10.0", (2, 0, false)),
            (0, Action::Write, "9.0", (3, 1, false)),
            (1, Action::Write, "10.0", (4, 1, false)),
            (0, Action::Read, "9.0", (5, 1, false)),
            (0, Action::Write, "9.0", (6, 2, true)),
        ];
        for (actor, action, fence, expected) in uses {
            let what = number.carry_out(KEY, &step(actor, action, Some(fence)));
            assert_eq!(outcome(&what), expected);
        }
    }
}
