//! The last look at the store, after every process has finished.

use std::collections::HashSet;
use std::time::Instant;

use super::Stage;
use crate::history::What;
use crate::holds::{FIRST_LOCK, Scenario};
use crate::processes::NoVerdict;
use crate::protocol::PurchaseOutcome;

impl Stage<'_> {
    /// Inspects the store itself, to see whether a lock that nobody could take is still on record.
    pub(super) fn look_at_store(&mut self) -> Result<(), NoVerdict> {
        // After a storm, the servers are as they were, and every lock may matter.
        if self.servers.is_some() && self.storm.is_none() {
            // The lab has already inspected most of these servers at the moment that mattered.
            return self.look_at_servers();
        }
        // A name may be too long to be asked about.
        if self.trial.scenario == Scenario::Names {
            return Ok(());
        }
        let keys = self.last_refused();
        keys.into_iter().try_for_each(|key| self.inspect(key))
    }

    /// Returns the lock that was refused last; in a storm, every lock whose last answer was a refusal.
    fn last_refused(&self) -> Vec<String> {
        let (mut refused, mut answered) = (Vec::new(), HashSet::new());
        for event in self.diary.history().events.iter().rev() {
            let (key, is_refusal) = match &event.what {
                What::Refused { key, .. } => (key.as_str(), true),
                What::Acquired { key, .. } if self.storm.is_some() => (key.as_str(), false),
                What::Purchased { purchase, .. } if purchase.outcome == PurchaseOutcome::Busy => {
                    (FIRST_LOCK, true)
                }
                _ => continue,
            };
            if answered.insert(key) && is_refusal {
                refused.push(key.to_owned());
            }
            if self.storm.is_none() {
                break;
            }
        }
        refused
    }

    fn inspect(&mut self, key: String) -> Result<(), NoVerdict> {
        let state = self.ground.inspect(&key)?;
        // An external lock may keep its records where the lab does not look. Then the lab cannot say anything about them.
        if !state.taken && self.trial.strategy.is_external() {
            return Ok(());
        }
        let what = What::StoreRead {
            key,
            taken: state.taken,
            ttl_left_ms: state.ttl_left.map(|left| left.as_secs_f64() * 1e3),
            server: None,
        };
        self.diary.record(Instant::now(), None, what)
    }
}
