//! Whether the reference lock was convicted for the same reasons as the lock.

use std::collections::BTreeSet;

use super::charge::{Charge, charges};
use super::{LabelName, charges_of};
use crate::gauntlet::Row;
use crate::matrix::Run;

/// How a reference lock was convicted for each reason for which the lock was.
pub(super) enum Likeness {
    /// This often at least, and half as often as the lock or more.
    Frequent(usize),
    /// This often at least, and one of them less than half as often as the lock.
    Rare(usize),
    /// The checks do not say what one of the reasons is.
    Unknown,
}

impl Likeness {
    /// Returns `None` if one of the reasons never convicted the reference.
    pub(super) fn of(row: &Row<'_>, reference: &[&Run]) -> Option<Self> {
        let [own, theirs]: [Vec<BTreeSet<Charge>>; 2] = [
            row.convictions().map(charges).collect(),
            reference.iter().map(|run| charges(run)).collect(),
        ];
        let times = |all: &[BTreeSet<Charge>], charge: &Charge| {
            all.iter()
                .filter(|charges| charges.contains(charge))
                .count()
        };
        let against = charges_of(row);
        let least = against.iter().map(|charge| times(&theirs, charge)).min()?;
        let is_frequent = |charge: &Charge| {
            2 * times(&theirs, charge) * row.of >= times(&own, charge) * reference.len()
        };
        match least {
            0 => None,
            _ if against.contains(&Charge::Other) => Some(Self::Unknown),
            least if against.iter().all(is_frequent) => Some(Self::Frequent(least)),
            least => Some(Self::Rare(least)),
        }
    }

    pub(super) fn label(&self) -> LabelName {
        match self {
            Self::Frequent(_) => LabelName::LimitOfItsKind,
            Self::Rare(_) | Self::Unknown => LabelName::Unexplained,
        }
    }

    /// Returns words such as "in the same way, 3 of 20".
    pub(super) fn in_words(&self, convicted: usize, runs: usize) -> String {
        match self {
            Self::Frequent(same) => format!("in the same way, {same} of {runs}"),
            Self::Rare(same) => {
                format!("in the same way, but less than half as often: {same} of {runs}")
            }
            Self::Unknown => format!(
                "as well, {convicted} of {runs}, but no check shows that the reason is the same"
            ),
        }
    }
}
