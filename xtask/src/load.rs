//! `cargo xtask load`: puts the checkout service under load with k6 and reports which limits held.
//!
//! The scripts in load-tests/ define the load and the limits; this module starts what they need.

mod stage;
mod thresholds;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use fencepost::stores::StoreAddress;

use crate::clients;
use crate::filter;
use crate::interrupt::CleanUp;
use crate::runner;
use crate::terminal::{self, headline, say};
use crate::tree;
use stage::Stage;
use thresholds::Threshold;

/// The scripts in load-tests/, and what each of them shows.
const SCRIPTS: &[(&str, &str)] = &[
    (
        "oversell",
        "50 users want the only unit: exactly 1 gets it, 49 are refused",
    ),
    (
        "high-load",
        "100 users on one product for a minute: p95 < 500 ms, p99 < 1 s, fewer than 10 % errors, enough are sold",
    ),
    (
        "retry-comparison",
        "30 users at once, then a ramp up to 20 users, three retry schedules: p95 < 1 s, few users give up",
    ),
    (
        "checkout",
        "baskets of 3 out of 50 products at two instances; the stock matches what the users saw",
    ),
];

const EXAMPLES: &str = "Examples:
  cargo xtask load                              everything, on SQLite: about five minutes
  cargo xtask load --db postgres                the same on Postgres, with locks in Redis
  cargo xtask load --filter oversell            one of them
  cargo xtask load --filter checkout --quick    five seconds, without limits on time
  cargo xtask load --store redis://HOST         locks elsewhere, as for `fencepost serve --store`
  cargo xtask load --list                       what each shows

The figures of each run are written to results/load/NAME-DATABASE.json.
Exit code: 0 when every limit held, 1 when one did not, 130 when interrupted.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Only the script of load-tests/ with this name or, if there is none, those whose name contains it. May be repeated
    #[arg(long, value_name = "NAME")]
    filter: Vec<String>,
    /// The database for products and orders; `postgres` starts a private server
    #[arg(long, value_enum, default_value = "sqlite")]
    db: Db,
    /// The lock store: `redis` (a private server), `sqlite`, or an address. [default: sqlite; with --db postgres: redis]
    #[arg(long)]
    store: Option<String>,
    /// Run for seconds instead of minutes, without time limits
    #[arg(long)]
    quick: bool,
    /// The number of users of `checkout`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    users: Option<u32>,
    /// The path of a `fencepost` program, instead of building it
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// The folder for the figures
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Print the names and what each shows, and run nothing
    #[arg(long)]
    list: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Db {
    Sqlite,
    Postgres,
}

impl Db {
    fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// The result of one script.
struct Outcome {
    name: &'static str,
    thresholds: Vec<Threshold>,
    /// Whether k6 exited successfully.
    is_complete: bool,
}

/// Runs the scripts. Returns whether every limit held.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let chosen = filter::chosen(SCRIPTS, |(name, _)| name, &options.filter)?;
    if options.list {
        let row = |(name, shows): &&(&str, &str)| vec![(*name).to_owned(), (*shows).to_owned()];
        say(terminal::table(&chosen.iter().map(row).collect::<Vec<_>>()));
        return Ok(true);
    }
    let k6 = clients::k6()?;
    let program = match &options.program {
        Some(program) => program.canonicalize().context("--program")?,
        None => build(features(options.store.as_deref()))?,
    };
    let folder = options.output.clone();
    let folder = folder.unwrap_or_else(|| tree::root().join("results/load"));
    fs::create_dir_all(&folder)?;
    let folder = folder.canonicalize()?;
    // Dropping the stage removes servers and folders, also after Ctrl-C.
    let _clean_up = CleanUp::on_interrupt();
    headline(&format!("a service on {}", options.db.as_str()));
    let stage = Stage::start(&program, options.db, options.store.as_deref())?;
    let mut outcomes = Vec::new();
    for (name, shows) in chosen {
        headline(&format!("{name}: {shows}"));
        let file = folder.join(format!("{name}-{}.json", options.db.as_str()));
        outcomes.push(run_one(&k6, name, options, &stage, &file)?);
    }
    headline("results");
    print(&outcomes, &folder);
    Ok(outcomes.iter().all(Outcome::is_good))
}

/// Returns the features of a program that opens this lock store. Those of the other stores take longer to build, and etcd's needs protoc.
fn features(store: Option<&str>) -> &'static str {
    let address = store.and_then(|store| store.parse::<StoreAddress>().ok());
    // What is no address is a word of ours, or an error that the program explains.
    let feature = address.map_or("sqlite", |address| address.scheme().feature);
    let is_in = |store: &&str| feature.starts_with(store);
    match ["sqlite", "redis", "postgres"].iter().any(is_in) {
        true => "postgres",
        false => "full",
    }
}

/// Builds the program with these features in the release profile and returns its path.
fn build(features: &str) -> Result<PathBuf> {
    headline("the program");
    let mut command = runner::cargo([
        "build",
        "--release",
        "--package",
        "fencepost-cli",
        "--features",
        features,
        "--message-format",
        "json-render-diagnostics",
    ]);
    let output = runner::output(&mut command)?;
    if !output.status.success() {
        bail!("the program cannot be built");
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let built = messages
        .filter_map(|message| Some(PathBuf::from(message["executable"].as_str()?)))
        .next_back();
    built.context("cargo did not say where the program is")
}

fn run_one(
    k6: &Path,
    name: &'static str,
    options: &Options,
    stage: &Stage,
    summary: &Path,
) -> Result<Outcome> {
    // Remove the figures of an earlier run, so that they are not mistaken for those of this one.
    if summary.exists() {
        fs::remove_file(summary)?;
    }
    let began = Instant::now();
    let mut command = Command::new(k6);
    command
        .args(["run", "--quiet", "--no-usage-report", "--address", ""])
        .arg(tree::root().join("load-tests").join(format!("{name}.js")))
        .env("BASE_URL", stage.addresses()[0])
        .env("BASE_URLS", stage.addresses().join(","))
        .env("SUMMARY", summary)
        .env("QUICK", if options.quick { "1" } else { "0" });
    if let Some(users) = options.users {
        command.env("VUS", users.to_string());
    }
    let status = runner::run(&mut command, |_| {})?;
    let thresholds = thresholds::read(summary).unwrap_or_else(|error| {
        say(format!("no figures: {error:#}"));
        Vec::new()
    });
    say(format!("took {}", terminal::duration(began.elapsed())));
    Ok(Outcome {
        name,
        thresholds,
        is_complete: status.success(),
    })
}

impl Outcome {
    fn is_good(&self) -> bool {
        self.is_complete
            && !self.thresholds.is_empty()
            && self.thresholds.iter().all(Threshold::is_held)
    }
}

fn print(outcomes: &[Outcome], folder: &Path) {
    let mut rows = vec![
        ["script", "metric", "limit", "measured", ""]
            .map(str::to_owned)
            .to_vec(),
    ];
    for outcome in outcomes {
        let thresholds = outcome.thresholds.iter();
        rows.extend(thresholds.filter_map(|threshold| threshold.limit(outcome.name)));
        let without_reason = outcome.thresholds.iter().all(Threshold::is_held);
        if !outcome.is_good() && without_reason {
            let name = outcome.name.to_owned();
            rows.push(vec![name, "k6 failed".into(), String::new(), String::new()]);
        }
    }
    say(terminal::table(&rows));
    print_figures(outcomes);
    say(format!("all figures: {}", folder.display()));
    let all_held = outcomes.iter().all(Outcome::is_good);
    say(if all_held {
        terminal::green("every limit held")
    } else {
        terminal::red("a limit did not hold")
    });
}

fn print_figures(outcomes: &[Outcome]) {
    let all = outcomes.iter().flat_map(|outcome| {
        let thresholds = outcome.thresholds.iter();
        thresholds.filter_map(|threshold| threshold.figures(outcome.name))
    });
    let mut rows: Vec<_> = all.collect();
    if !rows.is_empty() {
        let head = ["script", "metric"].iter().chain(&thresholds::FIGURES);
        rows.insert(0, head.map(|word| (*word).to_owned()).collect());
        say(format!("\n{}\n", terminal::table(&rows)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_built_with_the_store_of_the_address() {
        for store in [
            None,
            Some("redis"),
            Some("sqlite"),
            Some("sqlite:locks.db"),
            Some("rediss://host"),
            Some("postgres://host/shop"),
            Some("postgres://host/shop?table=shedlock"),
            Some("nonsense"),
        ] {
            assert_eq!(features(store), "postgres", "{store:?}");
        }
        for store in [
            "etcd://host",
            "etcds://host",
            "zk://host",
            "redlock://a,b,c",
        ] {
            assert_eq!(features(Some(store)), "full", "{store}");
        }
    }

    #[test]
    fn every_script_is_in_the_table_and_every_entry_is_a_script() {
        let folder = tree::root().join("load-tests");
        for (name, _) in SCRIPTS {
            assert!(folder.join(format!("{name}.js")).is_file(), "{name}");
        }
        let runnable = fs::read_dir(folder).unwrap().filter_map(|entry| {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).ok()?;
            let is_script = text.contains("export default function");
            is_script.then(|| path.file_stem().unwrap().to_str().unwrap().to_owned())
        });
        for name in runnable {
            assert!(SCRIPTS.iter().any(|(known, _)| *known == name), "{name}");
        }
    }
}
