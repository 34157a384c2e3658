//! `fencepost trial storm --shrink`: runs smaller plans of faults after a conviction, for a limited time.

use std::time::{Duration, Instant};

use fencepost_rig::Interrupt;
use fencepost_trial::holds::Judged;
use fencepost_trial::holds::storm::{Plan, Runner, Shrunk, Tried, shrink};
use fencepost_trial::processes::NoVerdict;
use fencepost_trial::report::json::holds as json;
use fencepost_trial::report::terminal::holds as terminal;
use fencepost_trial::text::ink::Ink;
use serde_json::Value;

use super::run_and_judge;
use crate::contender::Contender;
use crate::no_verdict::{UsedFlags, explain};
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

/// What was found before the search ended.
pub(super) struct SmallerPlans {
    pub(super) shrunk: Shrunk,
    /// Why a run had no verdict, which ended the search; `None` for an interrupt, which the user knows of.
    failed: Option<String>,
}

impl SmallerPlans {
    /// Returns the lines that the verdict is followed by.
    pub(super) fn text(&self, ink: Ink) -> String {
        let failed = self.failed.iter();
        let failed = failed.map(|why| ink.sentence("", &format!("the search ended: {why}")));
        terminal::smaller_plans(&self.shrunk, ink) + &failed.collect::<String>()
    }

    /// Adds them to the report.
    pub(super) fn add_to(&self, report: &mut Value) {
        json::add_smaller_plans(report, &self.shrunk);
        if let Some(why) = &self.failed {
            report["smaller_plans"]["failed"] = why.as_str().into();
        }
    }
}

/// Looks for smaller plans of faults that convict the lock. Returns `None` if it was not convicted. An interrupt or a failure ends the
/// search, and the result is what was found by then.
pub(super) fn smaller_plans(
    judged: &Judged,
    contender: &Contender,
    within: Duration,
    say: &mut dyn FnMut(&str),
    interrupt: Interrupt,
) -> Option<SmallerPlans> {
    let whole = judged.convicting_plan()?;
    let mut runs = Runs {
        judged,
        contender,
        deadline: Instant::now() + within,
        say,
        interrupt,
        failed: None,
    };
    let shrunk = shrink(&whole, REST_TTLS * judged.trial.ttl_ms, &mut runs);
    let failed = runs.failed.take();
    say("\n");
    Some(SmallerPlans { shrunk, failed })
}

struct Runs<'a> {
    judged: &'a Judged,
    contender: &'a Contender,
    deadline: Instant,
    say: &'a mut dyn FnMut(&str),
    interrupt: Interrupt,
    failed: Option<String>,
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
        match run_and_judge(&trial, self.contender, None, &mut (), self.interrupt) {
            Ok(judged) => Some(judged.verdict.outcome.is_conviction()),
            Err(NoVerdict::Interrupted { .. }) => None,
            Err(no_verdict) => {
                self.failed = Some(explain(&no_verdict, UsedFlags::default()).in_short());
                None
            }
        }
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
