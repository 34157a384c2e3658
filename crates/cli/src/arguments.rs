//! The command line.

use std::fmt;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use fencepost_trial::holds::{Scenario, Trial};
use fencepost_trial::retry::Comparison;
use fencepost_trial::sale::Sale;
use fencepost_trial::strategy;

use crate::drawings::DrawingFlags;
use crate::screen::{Colour, Screen};
use crate::store::Store;

/// Distributed locks you can put on trial.
#[derive(Debug, Parser)]
#[command(
    name = "fencepost",
    version,
    disable_help_flag = true,
    disable_help_subcommand = true
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
#[command(disable_help_flag = true)]
pub(crate) enum Command {
    Oversell(Oversell),
    Deadlock(Deadlock),
    Crash(Crash),
    Trial(OneTrial),
    Retry(Retry),
    RunAll(RunAll),
    Check(Check),
    /// The child role of the lab.
    #[command(hide = true)]
    Subject {
        #[arg(long)]
        lock: String,
    },
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Oversell {
    #[arg(long, default_value = "none", value_parser = lock)]
    pub(crate) lock: Lock,
    #[arg(long, conflicts_with_all = ["lock", "history"])]
    pub(crate) all: bool,
    #[arg(long, allow_hyphen_values = true, default_value_t = Sale::STOCK, value_parser = stock)]
    pub(crate) stock: u32,
    #[arg(long, allow_hyphen_values = true, default_value_t = Sale::CONCURRENCY, value_parser = concurrency)]
    pub(crate) concurrency: usize,
    #[arg(long, allow_hyphen_values = true, default_value_t = Sale::DELAY_US, value_parser = delay)]
    pub(crate) delay: u64,
    #[arg(long, allow_hyphen_values = true, default_value_t = 0, value_parser = wait)]
    pub(crate) wait: u64,
    #[arg(long, allow_hyphen_values = true, value_parser = seed)]
    pub(crate) seed: Option<u64>,
    #[arg(long)]
    pub(crate) output: Option<PathBuf>,
    #[arg(long)]
    pub(crate) history: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) drawings: DrawingFlags,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Retry {
    #[arg(long, default_value = "safe", value_parser = lock)]
    pub(crate) lock: Lock,
    #[arg(long, allow_hyphen_values = true, default_value_t = Comparison::STOCK, value_parser = stock)]
    pub(crate) stock: u32,
    #[arg(long, allow_hyphen_values = true, default_value_t = Comparison::CONCURRENCY, value_parser = concurrency)]
    pub(crate) concurrency: usize,
    #[arg(long, allow_hyphen_values = true, default_value_t = Sale::DELAY_US, value_parser = delay)]
    pub(crate) delay: u64,
    #[arg(long, allow_hyphen_values = true, default_value_t = Comparison::MAX_RETRIES, value_parser = retries)]
    pub(crate) max_retries: u32,
    #[arg(long, allow_hyphen_values = true, default_value_t = Comparison::TTL_MS, value_parser = ttl)]
    pub(crate) ttl: u64,
    #[arg(long, allow_hyphen_values = true, default_value_t = Comparison::BUDGET_MS, value_parser = budget)]
    pub(crate) budget: u64,
    #[arg(long, allow_hyphen_values = true, value_parser = seed)]
    pub(crate) seed: Option<u64>,
    #[arg(long)]
    pub(crate) output: Option<PathBuf>,
    #[arg(long)]
    pub(crate) history: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) drawings: DrawingFlags,
    #[arg(long, short)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Deadlock {
    #[arg(long)]
    pub(crate) mitigate: bool,
    #[command(flatten)]
    pub(crate) holds: Holds,
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Crash {
    #[arg(long)]
    pub(crate) ttl_edge: bool,
    #[arg(long, allow_hyphen_values = true, default_value_t = Trial::WORK_MS, value_parser = work)]
    pub(crate) work: u64,
    #[command(flatten)]
    pub(crate) holds: Holds,
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct OneTrial {
    #[arg(value_parser = scenario)]
    pub(crate) name: Scenario,
    #[command(flatten)]
    pub(crate) holds: Holds,
}

/// What every lock trial takes.
#[derive(Debug, Args)]
pub(crate) struct Holds {
    #[arg(long, default_value = "safe", value_parser = holding_lock)]
    pub(crate) lock: Lock,
    #[arg(long, allow_hyphen_values = true, value_parser = ttl)]
    pub(crate) ttl: Option<u64>,
    #[arg(long, allow_hyphen_values = true, value_parser = seed)]
    pub(crate) seed: Option<u64>,
    #[arg(long)]
    pub(crate) output: Option<PathBuf>,
    #[arg(long)]
    pub(crate) history: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) drawings: DrawingFlags,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Check {
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct RunAll {
    #[arg(long, allow_hyphen_values = true, value_parser = seed)]
    pub(crate) seed: Option<u64>,
    #[arg(long)]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What every command takes.
#[derive(Debug, Args)]
pub(crate) struct Common {
    #[arg(long, env = "FENCEPOST_STORE", hide_env_values = true, default_value = "sqlite", value_parser = Store::parse)]
    pub(crate) store: Store,
    #[arg(long)]
    pub(crate) json: bool,
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[arg(long, default_value = "auto", value_parser = colour)]
    pub(crate) color: Colour,
    #[arg(long)]
    pub(crate) ascii: bool,
}

impl Common {
    pub(crate) fn screen(&self) -> Screen {
        Screen::new(self.color, self.ascii, self.quiet || self.json)
    }
}

/// What `--lock` asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lock {
    /// The list of strategies.
    Help,
    Strategy(&'static strategy::Strategy),
}

/// A value that a flag does not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadValue {
    pub(crate) what: String,
    pub(crate) advice: String,
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for BadValue {}

/// A random seed that is short enough to be read aloud.
pub(crate) fn random_seed() -> u64 {
    // Without a source of randomness every run chooses alike, and prints that it did.
    getrandom::u64().unwrap_or(0) % 10_000
}

fn lock(text: &str) -> Result<Lock, BadValue> {
    if text == "help" {
        return Ok(Lock::Help);
    }
    strategy::find(text).map(Lock::Strategy).ok_or_else(|| {
        let names = strategy::ALL.map(|strategy| strategy.name);
        let all = format!("--lock help for all {}, a line each", names.len());
        let advice = match nearest(text, &names) {
            Some(name) => format!("--lock={name}      or {all}"),
            None => all,
        };
        BadValue {
            what: format!("there is no strategy '{text}'"),
            advice,
        }
    })
}

/// A strategy that can be asked for holds.
fn holding_lock(text: &str) -> Result<Lock, BadValue> {
    match lock(text)? {
        Lock::Strategy(strategy) if strategy.lock.is_none() => {
            let able = strategy::ALL.into_iter().filter(|able| able.lock.is_some());
            let names: Vec<&str> = able.map(|able| able.name).collect();
            Err(BadValue {
                what: format!("{text} has no lock whose holder could be put to the test"),
                advice: format!("--lock={}", names.join(", ")),
            })
        }
        lock => Ok(lock),
    }
}

/// The scenarios without a command of their own.
pub(crate) const TRIALS: [Scenario; 2] = [Scenario::StaleRelease, Scenario::ShortStock];

fn scenario(text: &str) -> Result<Scenario, BadValue> {
    let named = TRIALS.into_iter().find(|scenario| scenario.name() == text);
    named.ok_or_else(|| {
        let names = TRIALS.map(Scenario::name);
        let advice = match nearest(text, &names) {
            Some(name) => format!("fencepost trial {name}"),
            None => names
                .map(|name| format!("fencepost trial {name}"))
                .join(" · "),
        };
        BadValue {
            what: format!("there is no trial '{text}'"),
            advice,
        }
    })
}

/// The name most like `text`, if any is.
pub(crate) fn nearest<'a>(text: &str, names: &[&'a str]) -> Option<&'a str> {
    let like = names.iter().map(|name| (strsim::jaro(text, name), *name));
    like.filter(|(score, _)| *score > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// The same address, fit to be shown.
pub(crate) fn without_password(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else {
        return address.to_owned();
    };
    let Some((user_and_password, host)) = rest.rsplit_once('@') else {
        return address.to_owned();
    };
    let user = user_and_password.split(':').next().unwrap_or_default();
    format!("{scheme}://{user}:***@{host}")
}

fn colour(text: &str) -> Result<Colour, BadValue> {
    match text {
        "auto" => Ok(Colour::Auto),
        "always" => Ok(Colour::Always),
        "never" => Ok(Colour::Never),
        _ => Err(BadValue {
            what: format!("there is no such use of colour: '{text}'"),
            advice: "--color auto, always or never".into(),
        }),
    }
}

fn stock(text: &str) -> Result<u32, BadValue> {
    let range = Range {
        least: 0,
        most: 1_000_000,
        note: "",
    };
    range
        .parse(
            text,
            |n| format!("a stock of {n} is"),
            ("too small", "too large"),
        )
        .map(|n| n as u32)
}

fn concurrency(text: &str) -> Result<usize, BadValue> {
    let range = Range {
        least: 1,
        most: 1_000,
        note: ": each is a real process on this machine",
    };
    range
        .parse(
            text,
            |n| format!("{n} processes are"),
            ("too few", "too many"),
        )
        .map(|n| n as usize)
}

fn delay(text: &str) -> Result<u64, BadValue> {
    let range = Range {
        least: 0,
        most: 10_000_000,
        note: " µs",
    };
    range.parse(
        text,
        |n| format!("a delay of {n} µs is"),
        ("too short", "too long"),
    )
}

fn wait(text: &str) -> Result<u64, BadValue> {
    let range = Range {
        least: 0,
        most: 600_000,
        note: " ms",
    };
    range.parse(
        text,
        |n| format!("a wait of {n} ms is"),
        ("too short", "too long"),
    )
}

fn retries(text: &str) -> Result<u32, BadValue> {
    let range = Range {
        least: 0,
        most: 1_000,
        note: "",
    };
    range
        .parse(
            text,
            |n| format!("{n} retries are"),
            ("too few", "too many"),
        )
        .map(|n| n as u32)
}

fn ttl(text: &str) -> Result<u64, BadValue> {
    let range = Range {
        least: 100,
        most: 600_000,
        note: " ms",
    };
    range.parse(
        text,
        |n| format!("a TTL of {n} ms is"),
        ("too short", "too long"),
    )
}

fn budget(text: &str) -> Result<u64, BadValue> {
    let range = Range {
        least: 1,
        most: 600_000,
        note: " ms",
    };
    range.parse(
        text,
        |n| format!("a budget of {n} ms is"),
        ("too short", "too long"),
    )
}

fn work(text: &str) -> Result<u64, BadValue> {
    let range = Range {
        least: 0,
        most: 600_000,
        note: " ms",
    };
    range.parse(
        text,
        |n| format!("work of {n} ms is"),
        ("too short", "too long"),
    )
}

fn seed(text: &str) -> Result<u64, BadValue> {
    // JSON readers lose what is beyond 2^53.
    let range = Range {
        least: 0,
        most: (1 << 53) - 1,
        note: "",
    };
    range.parse(
        text,
        |n| format!("a seed of {n} is"),
        ("too small", "too large"),
    )
}

/// The numbers a flag takes.
struct Range {
    least: u64,
    most: u64,
    note: &'static str,
}

impl Range {
    fn parse(
        &self,
        text: &str,
        name: impl Fn(String) -> String,
        (below, above): (&str, &str),
    ) -> Result<u64, BadValue> {
        use fencepost_trial::report::numbers::count;
        let show = |number: u64| count(number.min(i64::MAX as u64) as i64);
        let advice = format!("{} to {}{}", show(self.least), show(self.most), self.note);
        let Ok(number) = text.parse::<i128>() else {
            return Err(BadValue {
                what: format!("'{text}' is not a whole number"),
                advice,
            });
        };
        match u64::try_from(number) {
            Ok(number) if (self.least..=self.most).contains(&number) => Ok(number),
            _ => {
                let shown = i64::try_from(number).map_or_else(|_| text.to_owned(), count);
                let fault = if number < self.least.into() {
                    below
                } else {
                    above
                };
                Err(BadValue {
                    what: format!("{} {fault}", name(shown)),
                    advice,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_named_in_words() {
        let said = |result: Result<usize, BadValue>| result.unwrap_err();
        let many = said(concurrency("100000"));
        assert_eq!(many.what, "100,000 processes are too many");
        assert_eq!(
            many.advice,
            "1 to 1,000: each is a real process on this machine"
        );
        assert_eq!(said(concurrency("0")).what, "0 processes are too few");
        assert_eq!(stock("-1").unwrap_err().what, "a stock of −1 is too small");
        assert_eq!(
            stock("ten").unwrap_err().what,
            "'ten' is not a whole number"
        );
        assert_eq!(
            stock("99999999999999999999").unwrap_err().what,
            "a stock of 99999999999999999999 is too large"
        );
        assert_eq!((stock("0"), stock("1000000")), (Ok(0), Ok(1_000_000)));
        assert_eq!(seed("9007199254740991"), Ok((1 << 53) - 1));
    }

    #[test]
    fn a_misspelt_strategy_meets_its_neighbour() {
        assert_eq!(
            lock("sfae").unwrap_err().advice,
            "--lock=safe      or --lock help for all 16, a line each"
        );
        assert_eq!(
            lock("zookeeper").unwrap_err().advice,
            "--lock help for all 16, a line each"
        );
    }

    #[test]
    fn a_password_is_never_shown() {
        assert_eq!(
            without_password("redis://shop:hunter2@cache:6379"),
            "redis://shop:***@cache:6379"
        );
        assert_eq!(
            without_password("redis://:p@ss@cache"),
            "redis://:***@cache"
        );
        assert_eq!(without_password("redis://cache"), "redis://cache");
    }
}
