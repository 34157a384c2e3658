//! `fencepost trial storm --shrink`: runs smaller plans of faults after a conviction, for a limited time.

use std::time::{Duration, Instant};

use fencepost_rig::Interrupt;
use fencepost_trial::holds::Judged;
use fencepost_trial::holds::storm::{Plan, Runner, Shrunk, Tried, shrink};

use super::run_and_judge;
use crate::contender::Contender;
use crate::values::{BadValue, duration};

/// How long smaller plans are looked for, unless the user says otherwise.
pub(super) const BY_DEFAULT: &str = "5m";
/// How long a plan goes on after its last fault, in TTLs.
const REST_TTLS: u64 = 4;

/// Parses how long smaller plans are looked for.
pub(super) fn shrink_time(text: &str) -> Result<Duration, BadValue> {
    let time = duration(text)?;
    if time > Duration::ZERO {
        return Ok(time);
    }
    Err(BadValue {
        what: format!("{text} is no time to look for smaller plans"),
        advice: "such as --shrink 2m".into(),
    })
}

/// Looks for smaller plans of faults that convict the lock. Returns `None` if it was not convicted. An interrupt ends the search, and the
/// result is what was found by then.
pub(super) fn smaller_plans(
    judged: &Judged,
    contender: &Contender,
    within: Duration,
    say: &mut dyn FnMut(&str),
    interrupt: Interrupt,
) -> Option<Shrunk> {
    let whole = judged.convicting_plan()?;
    let mut runs = Runs {
        judged,
        contender,
        deadline: Instant::now() + within,
        say,
        interrupt,
    };
    let shrunk = shrink(&whole, REST_TTLS * judged.trial.ttl_ms, &mut runs);
    say("\n");
    Some(shrunk)
}

struct Runs<'a> {
    judged: &'a Judged,
    contender: &'a Contender,
    deadline: Instant,
    say: &'a mut dyn FnMut(&str),
    interrupt: Interrupt,
}

impl Runner for Runs<'_> {
    fn run(&mut self, plan: &Plan, run: usize) -> Option<bool> {
        // A run that cannot be finished in time is not begun.
        let lasts = Duration::from_millis(plan.for_ms);
        if Instant::now() + lasts > self.deadline {
            return None;
        }
        let seed = self.judged.trial.seed.wrapping_add(run as u64);
        let trial = self.judged.trial.with_plan(plan, seed);
        // Without a result, as after an interrupt, nothing more can be learned.
        let ran = run_and_judge(&trial, self.contender, None, &mut (), self.interrupt);
        Some(ran.ok()?.verdict.outcome.is_conviction())
    }

    fn told(&mut self, tried: &Tried) {
        (self.say)(&format!("  {}\n", tried.words()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_must_be_time_to_look_for_smaller_plans() {
        assert_eq!(shrink_time(BY_DEFAULT), Ok(Duration::from_secs(300)));
        let none = shrink_time("0s").unwrap_err();
        assert_eq!(none.what, "0s is no time to look for smaller plans");
        assert!(shrink_time("soon").is_err());
    }
}
