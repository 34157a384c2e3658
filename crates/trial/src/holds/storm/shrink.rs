//! Smaller plans of faults that still convict a lock, found by running them again.
//!
//! A storm is not repeatable to the millisecond, so each plan runs several times, and the result is how often it convicted. First whole
//! kinds of faults are left out, then single faults by halves.

use super::Plan;
use crate::history::{FaultKind, FaultKinds};

/// How often each plan runs.
pub const RUNS: usize = 5;

/// A plan that was run again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// What is left of the faults, in a few words: "kills alone".
    pub label: String,
    /// The plan.
    pub plan: Plan,
    /// In how many runs it convicted the lock.
    pub convicted: usize,
    /// How often it ran. Less than [`RUNS`] if the time was over.
    pub runs: usize,
}

impl Tried {
    /// Returns words such as "kills alone: 4 of 5".
    pub fn words(&self) -> String {
        format!("{}: {} of {}", self.label, self.convicted, self.runs)
    }
}

/// What became of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shrunk {
    /// Every plan that was run again, in that order.
    pub tried: Vec<Tried>,
    /// The place of the smallest one that still convicts; `None` if not even the first did.
    pub smallest: Option<usize>,
    /// Whether the search came to its end before its time was over.
    pub is_complete: bool,
}

impl Shrunk {
    /// Returns the smallest plan that still convicts, if there is one.
    pub fn smallest(&self) -> Option<&Tried> {
        self.tried.get(self.smallest?)
    }
}

/// What runs a plan.
pub trait Runner {
    /// Runs the plan once more, and returns whether it convicted the lock. `None` if there is no time left.
    fn run(&mut self, plan: &Plan, run: usize) -> Option<bool>;

    /// Called when a plan has run as often as it does.
    fn told(&mut self, tried: &Tried);
}

/// Looks for smaller plans than this one, which has convicted a lock. `rest_ms` is how long a plan goes on after its last fault.
pub fn shrink(whole: &Plan, rest_ms: u64, runner: &mut dyn Runner) -> Shrunk {
    let mut search = Search {
        runner,
        rest_ms,
        shrunk: Shrunk::default(),
    };
    search.shrunk.is_complete = search.run(whole).is_some();
    search.shrunk
}

struct Search<'a> {
    runner: &'a mut dyn Runner,
    rest_ms: u64,
    shrunk: Shrunk,
}

impl Search<'_> {
    /// Returns `None` if the time is over.
    fn run(&mut self, whole: &Plan) -> Option<()> {
        let first = self.measure(format!("all faults ({})", whole.words()), whole.clone())?;
        if self.shrunk.tried[first].convicted == 0 {
            return Some(());
        }
        self.shrunk.smallest = Some(first);
        if whole.faults.is_empty()
            || self.accepts("no faults".into(), whole.only(FaultKinds::default()))?
        {
            return Some(());
        }
        self.leave_out_kinds(whole)?;
        self.leave_out_halves()
    }

    /// Tries each kind alone, and keeps the one that convicts most often. If none does, leaves out one kind after the other.
    fn leave_out_kinds(&mut self, whole: &Plan) -> Option<()> {
        let kinds = whole.kinds();
        if kinds.iter().count() < 2 {
            return Some(());
        }
        let mut best: Option<usize> = None;
        for kind in kinds.iter() {
            let alone = whole.only([kind].into_iter().collect());
            let tried = self.measure(format!("{} alone", kind.plural()), alone)?;
            let convicted = |place: usize| self.shrunk.tried[place].convicted;
            if self.is_good(tried) && best.is_none_or(|best| convicted(tried) > convicted(best)) {
                best = Some(tried);
            }
        }
        if best.is_some() {
            self.shrunk.smallest = best;
            return Some(());
        }
        if kinds.iter().count() == 2 {
            return Some(());
        }
        let mut left = kinds;
        for kind in kinds.iter() {
            let rest = left.without(kind);
            if self.accepts(without(kinds, rest), whole.only(rest))? {
                left = rest;
            }
        }
        Some(())
    }

    /// Leaves out half of the faults, a quarter, and so on, down to single ones, for as long as the rest convicts.
    fn leave_out_halves(&mut self) -> Option<()> {
        let mut size = self.present()?.faults.len().div_ceil(2);
        while size > 0 {
            let (mut from, mut has_shrunk) = (0, false);
            while from < self.present()?.faults.len() {
                let present = self.present()?;
                let (rest, all) = (present.without(from, size), present.faults.len());
                if rest.faults.is_empty() {
                    break;
                }
                let label = format!("{} of {all} faults ({})", rest.faults.len(), rest.words());
                if self.accepts(label, rest.trimmed(self.rest_ms))? {
                    has_shrunk = true;
                } else {
                    from += size;
                }
            }
            // With single faults, once more: what was needed before may not be any more.
            if size > 1 || !has_shrunk {
                size /= 2;
            }
        }
        Some(())
    }

    fn present(&self) -> Option<&Plan> {
        self.shrunk.smallest().map(|tried| &tried.plan)
    }

    /// Returns whether this plan convicts, and makes it the smallest so far if it does.
    fn accepts(&mut self, label: String, plan: Plan) -> Option<bool> {
        let tried = self.measure(label, plan)?;
        let is_good = self.is_good(tried);
        if is_good {
            self.shrunk.smallest = Some(tried);
        }
        Some(is_good)
    }

    /// Returns whether a plan convicts at least half as often as the smallest so far.
    fn is_good(&self, tried: usize) -> bool {
        let convicted = self.shrunk.tried[tried].convicted;
        let present = self.shrunk.smallest().map_or(0, |tried| tried.convicted);
        convicted > 0 && 2 * convicted >= present
    }

    /// Runs a plan several times. Returns its place among those that were tried; `None` if the time was over before the last run.
    fn measure(&mut self, label: String, plan: Plan) -> Option<usize> {
        let mut tried = Tried {
            label,
            plan,
            convicted: 0,
            runs: 0,
        };
        while tried.runs < RUNS {
            let Some(convicts) = self.runner.run(&tried.plan, tried.runs) else {
                break;
            };
            tried.runs += 1;
            tried.convicted += usize::from(convicts);
        }
        let is_measured = tried.runs == RUNS;
        if tried.runs > 0 {
            self.runner.told(&tried);
            self.shrunk.tried.push(tried);
        }
        is_measured.then(|| self.shrunk.tried.len() - 1)
    }
}

/// Returns words such as "without kills and pauses".
fn without(all: FaultKinds, left: FaultKinds) -> String {
    let gone = all.iter().filter(|kind| !left.has(*kind));
    let gone: Vec<&str> = gone.map(FaultKind::plural).collect();
    format!("without {}", gone.join(" and "))
}

#[cfg(test)]
mod tests;
