//! `fencepost trial storm`: its flags, and several storms one after the other.

use std::fs::File;
use std::time::Duration;

use clap::Args;
use fencepost_rig::Interrupt;
use fencepost_trial::history::{FaultKind, FaultKinds, StormSettings};
use fencepost_trial::holds::storm::Applies;
use fencepost_trial::holds::{Judged, Scenario, Trial, storm};
use fencepost_trial::processes::NoVerdict;
use fencepost_trial::store::TrialStore;
use fencepost_trial::text::numbers::plural;
use fencepost_trial::verdict::Outcome;

use super::shrink::{BY_DEFAULT, shrink_time};
use super::{misplaced, run_and_judge};
use crate::command_error::CommandError;
use crate::contender::Contender;
use crate::exit;
use crate::no_verdict::{UsedFlags, explain};
use crate::results::Files;
use crate::screen::Screen;
use crate::values::{BadValue, duration, nearest, runs, storm_names, storm_processes};

/// How long a storm may last.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The arguments of `trial storm`.
#[derive(Debug, Args)]
pub(crate) struct StormFlags {
    #[arg(long, allow_hyphen_values = true, value_parser = storm_processes)]
    processes: Option<usize>,
    #[arg(long, allow_hyphen_values = true, value_parser = storm_names)]
    names: Option<usize>,
    #[arg(long = "for", allow_hyphen_values = true, value_parser = storm_length)]
    lasting: Option<Duration>,
    #[arg(long, value_delimiter = ',', value_parser = fault_kind)]
    faults: Vec<FaultKind>,
    #[arg(long, allow_hyphen_values = true, value_parser = runs)]
    pub(super) runs: Option<u64>,
    #[arg(long, num_args = 0..=1, default_missing_value = BY_DEFAULT, value_parser = shrink_time)]
    pub(super) shrink: Option<Duration>,
}

impl StormFlags {
    /// Makes sure that a scenario other than the storm has none of these flags.
    pub(super) fn belong_to(&self, scenario: Scenario) -> Result<(), CommandError> {
        let given = [
            ("--processes", self.processes.is_some()),
            ("--names", self.names.is_some()),
            ("--for", self.lasting.is_some()),
            ("--faults", !self.faults.is_empty()),
            ("--runs", self.runs.is_some()),
            ("--shrink", self.shrink.is_some()),
        ];
        let mut given = given.into_iter();
        match given.find(|(_, is_given)| *is_given && scenario != Scenario::Storm) {
            None => Ok(()),
            Some((flag, _)) => Err(misplaced(flag, Scenario::Storm, scenario)),
        }
    }

    /// Returns the settings of a storm on this store.
    pub(super) fn settings(&self, store: &TrialStore) -> Result<StormSettings, CommandError> {
        let default = storm::default_at(store);
        let for_ms = self.lasting.map(|time| time.as_millis() as u64);
        for kind in &self.faults {
            if let Applies::Never(why) = storm::applies(*kind, store) {
                return Err(impossible(*kind, why));
            }
        }
        let chosen: FaultKinds = self.faults.iter().copied().collect();
        Ok(StormSettings {
            for_ms: for_ms.unwrap_or(default.for_ms),
            processes: self.processes.unwrap_or(default.processes),
            names: self.names.unwrap_or(default.names),
            faults: if chosen.is_empty() {
                default.faults
            } else {
                chosen
            },
        })
    }
}

/// Returns the error for a kind of faults that a storm on this store cannot have.
fn impossible(kind: FaultKind, why: &str) -> CommandError {
    let (name, possible) = (kind.name(), FaultKinds::of_processes().listed(","));
    let what = format!("no {} here: {why}", kind.plural());
    CommandError::new(exit::USAGE, what)
        .at(format_args!("--faults {name}"))
        .effect("none: no process was started")
        .try_this(format_args!("fencepost trial storm --faults {possible}"))
}

/// Parses a kind of faults.
fn fault_kind(text: &str) -> Result<FaultKind, BadValue> {
    FaultKind::named(text).ok_or_else(|| {
        let all: FaultKinds = FaultKind::ALL.into_iter().collect();
        let names = FaultKind::ALL.map(FaultKind::name);
        BadValue {
            what: format!("there is no fault '{text}'"),
            advice: match nearest(text, &names) {
                Some(name) => format!("--faults {name}"),
                None => format!("--faults {}", all.listed(",")),
            },
        }
    })
}

/// Parses how long a storm lasts.
fn storm_length(text: &str) -> Result<Duration, BadValue> {
    let time = duration(text)?;
    if time >= Duration::from_millis(1) && time <= LONGEST {
        return Ok(time);
    }
    Err(BadValue {
        what: format!(
            "a storm of {text} is too {}",
            if time > LONGEST { "long" } else { "short" }
        ),
        advice: "from 1ms to 24h, such as --for 20s".into(),
    })
}

/// Several storms, each with the next seed.
pub(super) struct Storms<'a> {
    pub(super) trial: &'a Trial,
    pub(super) runs: u64,
    pub(super) contender: &'a Contender,
    pub(super) files: &'a Files,
}

impl Storms<'_> {
    /// Runs them one after the other, with a line about each on the screen, if there is one. Returns the first of the worst, and how many
    /// convicted the lock. If one cannot be finished, the history of the worst so far is kept; that of the first is recorded as it happens.
    pub(super) fn run(
        &self,
        mut screen: Option<&mut Screen>,
        interrupt: Interrupt,
    ) -> Result<(Judged, usize), CommandError> {
        let mut say = |line: &str| {
            if let Some(screen) = &mut screen {
                screen.print(line);
            }
        };
        let draft = self.files.draft()?;
        let is_recorded = draft.is_some();
        let first = self.once(0, draft, &mut say, interrupt);
        let mut worst = first.map_err(|no_verdict| {
            if is_recorded {
                self.files.explain(&no_verdict, false)
            } else {
                explain(&no_verdict, UsedFlags::default())
            }
        })?;
        let mut convicted = usize::from(worst.verdict.outcome.is_conviction());
        for run in 1..self.runs {
            let next = self.once(run, None, &mut say, interrupt);
            let judged = next.map_err(|no_verdict| self.stopped_after(run, &worst, &no_verdict))?;
            convicted += usize::from(judged.verdict.outcome.is_conviction());
            let outcomes = [worst.verdict.outcome, judged.verdict.outcome];
            if Outcome::worst(outcomes) != Some(worst.verdict.outcome) {
                worst = judged;
            }
        }
        say("\n");
        Ok((worst, convicted))
    }

    /// Returns the error message for a storm that was not finished after `finished` others, and keeps the history of the worst of them.
    fn stopped_after(&self, finished: u64, worst: &Judged, no_verdict: &NoVerdict) -> CommandError {
        let error = explain(no_verdict, UsedFlags::default());
        let Some(history) = self.files.history() else {
            return error;
        };
        let events = worst.events.len();
        let written = history.replace(&worst.history());
        let sealed = written.and_then(|()| history.seal(&worst.verdict, events));
        if sealed.is_err() {
            return error;
        }
        let path = history.path().display();
        let events = plural(events, "event", "events");
        let which = match finished {
            1 => "the finished storm".to_owned(),
            _ => format!("the worst of {finished} finished storms"),
        };
        error.with(
            "kept",
            format_args!("{path}, {events} of {which}: fencepost check {path}"),
        )
    }

    fn once(
        &self,
        run: u64,
        file: Option<File>,
        say: &mut dyn FnMut(&str),
        interrupt: Interrupt,
    ) -> Result<Judged, NoVerdict> {
        let trial = Trial {
            seed: self.trial.seed.wrapping_add(run),
            ..self.trial.clone()
        };
        let judged = run_and_judge(&trial, self.contender, file, &mut (), interrupt)?;
        let (outcome, because) = (judged.verdict.outcome, &judged.verdict.because);
        let (number, of) = (run + 1, self.runs);
        say(&format!(
            "  run {number} of {of}   seed {}   {outcome}   {because}\n",
            trial.seed
        ));
        Ok(judged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kinds_of_faults_that_exist_are_understood() {
        assert_eq!(fault_kind("cut"), Ok(FaultKind::Cut));
        let misspelt = fault_kind("pauze").unwrap_err();
        assert_eq!(misspelt.what, "there is no fault 'pauze'");
        assert_eq!(misspelt.advice, "--faults pause");
        let unknown = fault_kind("earthquake").unwrap_err();
        assert_eq!(unknown.advice, "--faults kill,pause,cut,delay,server,clock");
    }

    #[test]
    fn a_storm_lasts_from_a_millisecond_to_a_day() {
        assert_eq!(storm_length("20s"), Ok(Duration::from_secs(20)));
        assert_eq!(storm_length("24h"), Ok(LONGEST));
        for (text, what) in [
            ("0s", "a storm of 0s is too short"),
            ("999999999h", "a storm of 999999999h is too long"),
            ("-1s", "'-1s' is not a duration"),
        ] {
            assert_eq!(storm_length(text).unwrap_err().what, what);
        }
    }
}
