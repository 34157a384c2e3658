//! An update that was overwritten by a write based on an outdated read: how it is found in a history, and the evidence of it.

use std::collections::HashMap;

use super::{did, op_evidence};
use crate::holds::facts::{Facts, Op};
use crate::protocol::Action;
use crate::verdict::Evidence;

/// A write based on an outdated read: the read, the write that came between, and the write that overwrote it.
pub(super) struct LostUpdate<'a> {
    pub(super) read: &'a Op,
    pub(super) between: &'a Op,
    pub(super) write: &'a Op,
}

impl LostUpdate<'_> {
    /// Returns evidence such as "A writes 1: computed from op 1, B's update is gone".
    pub(super) fn evidence(&self) -> Evidence {
        let sentence = format!(
            "{}: computed from op {}, {}'s update is gone",
            did(self.write),
            self.read.serial,
            self.between.who
        );
        op_evidence(self.write, sentence)
    }
}

/// Returns a write that is based on an outdated read: the read, the first write in between, and the write.
pub(in crate::holds) fn lost_update(facts: &Facts) -> Option<[&Op; 3]> {
    let mut of_key: HashMap<&str, Vec<&Op>> = HashMap::new();
    for op in facts.ops.iter().filter(|op| !op.refused) {
        of_key.entry(&op.key).or_default().push(op);
    }
    let lost = of_key.into_values().filter_map(|ops| lost_among(&ops));
    // The operations were made one after the other, whatever lock they belong to.
    lost.min_by_key(|[.., write]| write.mark.event)
}

/// Does the same for the operations on one number.
fn lost_among<'a>(accepted: &[&'a Op]) -> Option<[&'a Op; 3]> {
    let writes = NextWrites::of(accepted);
    let mut reads: HashMap<(&str, u64), usize> = HashMap::new();
    accepted.iter().enumerate().find_map(|(index, write)| {
        if write.action == Action::Read {
            reads.insert(own(write), index);
            return None;
        }
        let read = *reads.get(&own(write))?;
        let between = writes.by_others_after(read, own(write))?;
        (between < index).then(|| [accepted[read], accepted[between], *write])
    })
}

/// Returns the hold that an operation names.
fn own(op: &Op) -> (&str, u64) {
    (&op.who, op.hold)
}

/// Finds the next write after an operation.
struct NextWrites<'a> {
    /// For each operation, the next write after it, and the next one after that by another hold.
    after: Vec<(Option<usize>, Option<usize>)>,
    ops: &'a [&'a Op],
}

impl<'a> NextWrites<'a> {
    fn of(ops: &'a [&'a Op]) -> Self {
        let mut after = vec![(None, None); ops.len()];
        for index in (1..ops.len()).rev() {
            let (next, other) = after[index];
            after[index - 1] = match (ops[index].action, next) {
                (Action::Read, _) => (next, other),
                (Action::Write, Some(next)) if own(ops[next]) != own(ops[index]) => {
                    (Some(index), Some(next))
                }
                (Action::Write, _) => (Some(index), other),
            };
        }
        Self { after, ops }
    }

    /// Returns the first write after this operation that does not belong to this hold.
    fn by_others_after(&self, index: usize, hold: (&str, u64)) -> Option<usize> {
        let (next, other) = self.after[index];
        next.filter(|next| own(self.ops[*next]) != hold).or(other)
    }
}
