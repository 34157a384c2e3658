//! Ends a trial in which nothing moves: whoever is left waits for something that does not happen.
//!
//! Every request, every piece of work and every meeting has an end. Only a script that waits for another one has none, and it would wait forever
//! if that one never came so far.

use std::time::{Duration, Instant};

use super::{Actor, Doing, Stage};
use crate::history::What;

/// Since when nothing moves.
#[derive(Debug, Default)]
pub(super) struct Standstill(Option<Instant>);

impl Standstill {
    /// Notes whether anything moves now. Returns whether nothing has moved for so long that nothing will.
    fn lasts(&mut self, moves: bool, now: Instant, limit: Duration) -> bool {
        if moves {
            self.0 = None;
            return false;
        }
        now.saturating_duration_since(*self.0.get_or_insert(now)) >= limit
    }
}

impl Stage<'_> {
    /// Ends every script if nothing has moved for as long as a process may take for an answer. The verdict is based on what there is.
    pub(super) fn end_standstill(&mut self, now: Instant) {
        let moves = self.moves();
        if !self.standstill.lasts(moves, now, self.answer_timeout) {
            return;
        }
        let left = self.actors.iter().filter(|actor| !actor.is_finished());
        let names: Vec<&str> = left.map(|actor| actor.who.as_str()).collect();
        let why = format!(
            "for {}: nothing happened for {} s that could let the trial go on",
            names.join(", "),
            self.answer_timeout.as_secs()
        );
        self.diary.later(now, None, What::GaveUp { why });
        self.actors.iter_mut().for_each(Actor::end);
    }

    /// Returns whether something is under way that ends by itself.
    fn moves(&self) -> bool {
        let is_due = self.roads.as_ref().and_then(super::Roads::next_alarm);
        let is_busy = |actor: &Actor| !matches!(actor.doing, Doing::Nothing);
        self.storm.is_some() || is_due.is_some() || self.actors.iter().any(is_busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn only_a_standstill_without_a_break_lasts() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut standstill = Standstill::default();
        assert!(!standstill.lasts(false, at(0), LIMIT));
        assert!(!standstill.lasts(false, at(59), LIMIT));
        assert!(!standstill.lasts(true, at(60), LIMIT), "something moved");
        assert!(!standstill.lasts(false, at(61), LIMIT));
        assert!(!standstill.lasts(false, at(120), LIMIT));
        assert!(standstill.lasts(false, at(121), LIMIT));
    }
}
