//! `fencepost`: distributed locks you can put on trial.
//!
//! Lists the commands, parses the arguments, runs the command and returns its exit code. The trials and their verdicts are in
//! `fencepost-trial`.

mod batch;
mod check;
mod command_error;
mod contender;
mod doctor;
mod elect;
mod exec;
mod exit;
mod gauntlet;
mod help;
mod holds;
mod locks;
mod no_verdict;
mod once;
mod oversell;
mod results;
mod retry;
mod run_all;
mod screen;
mod serve;
mod store;
mod supervision;
mod terminal;
mod trial_flags;
mod usage;
mod values;
mod wording;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use fencepost_rig::Interrupt;
use fencepost_trial::{strategy, subject};

use check::Check;
use command_error::CommandError;
use doctor::Doctor;
use elect::Elect;
use exec::Exec;
use gauntlet::RunGauntlet;
use holds::{Crash, Deadlock, NamedTrial};
use locks::Locks;
use once::RunOnce;
use oversell::Oversell;
use retry::Retry;
use run_all::RunAll;
use screen::Screen;
use serve::Serve;
use terminal::OutputStyle;

/// Distributed locks you can put on trial.
#[derive(Debug, Parser)]
#[command(
    name = "fencepost",
    version,
    disable_help_flag = true,
    disable_help_subcommand = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
#[command(disable_help_flag = true)]
enum Command {
    Oversell(Oversell),
    Deadlock(Deadlock),
    Crash(Crash),
    Trial(NamedTrial),
    Retry(Retry),
    RunAll(RunAll),
    Gauntlet(RunGauntlet),
    Check(Check),
    Exec(Exec),
    Elect(Elect),
    Once(RunOnce),
    Locks(Locks),
    Doctor(Doctor),
    Serve(Box<Serve>),
    /// Like `serve --lab`.
    #[command(hide = true)]
    HttpServer(Box<Serve>),
    /// Runs as a subject of the lab; for internal use.
    #[command(hide = true)]
    Subject {
        #[arg(long)]
        lock: String,
    },
}

fn main() -> ExitCode {
    let typed: Vec<_> = std::env::args_os().collect();
    let words: Vec<String> = typed
        .iter()
        .skip(1)
        // The words after `--` belong to the command that `exec` runs.
        .take_while(|word| *word != "--")
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let style = OutputStyle::of(&words);
    if let Some(text) = help::requested(&words) {
        return Screen::plain(style).finish(&text);
    }
    match Arguments::try_parse_from(typed) {
        Ok(arguments) => run(arguments.command, style),
        Err(error) if error.kind() == clap::error::ErrorKind::DisplayVersion => {
            Screen::plain(style).finish(&error.to_string())
        }
        Err(error) => command_error::report(&usage::explain(&error, &words), style),
    }
}

fn run(command: Command, style: OutputStyle) -> ExitCode {
    let outcome = match command {
        // The lab ends `subject`. `exec`, `elect`, `once` and `serve` handle signals themselves, and all but the last fork
        // before anything else happens.
        Command::Subject { lock } => return answer(&lock, style),
        Command::Exec(arguments) => return exec::run(arguments, style),
        Command::Elect(arguments) => return elect::run(arguments, style),
        Command::Once(arguments) => return once::run(arguments, style),
        Command::Serve(arguments) => serve::run(*arguments),
        Command::HttpServer(arguments) => serve::run(arguments.with_lab()),
        Command::Oversell(arguments) => {
            with_interrupt(|interrupt| oversell::run(arguments, interrupt))
        }
        Command::Deadlock(arguments) => {
            with_interrupt(|interrupt| holds::deadlock(arguments, interrupt))
        }
        Command::Crash(arguments) => with_interrupt(|interrupt| holds::crash(arguments, interrupt)),
        Command::Trial(arguments) => with_interrupt(|interrupt| holds::trial(arguments, interrupt)),
        Command::Retry(arguments) => with_interrupt(|interrupt| retry::run(arguments, interrupt)),
        Command::RunAll(arguments) => {
            with_interrupt(|interrupt| run_all::run(arguments, interrupt))
        }
        Command::Gauntlet(arguments) => {
            with_interrupt(|interrupt| gauntlet::run(arguments, interrupt))
        }
        // A signal ends these as it ends any program: they leave nothing behind.
        Command::Check(arguments) => check::run(&arguments),
        Command::Locks(arguments) => locks::run(arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
    };
    outcome.unwrap_or_else(|error| command_error::report(&error, style))
}

/// Listens for signals, then runs the command.
fn with_interrupt(
    command: impl FnOnce(Interrupt) -> Result<ExitCode, CommandError>,
) -> Result<ExitCode, CommandError> {
    let interrupt = Interrupt::listen()
        .map_err(|error| CommandError::new(exit::INTERNAL, "cannot listen for Ctrl-C").at(error))?;
    command(interrupt)
}

/// Runs this program as a subject: it reads the lab's requests from standard input and answers them.
fn answer(lock: &str, style: OutputStyle) -> ExitCode {
    let Some(strategy) = strategy::find(lock) else {
        let error = CommandError::new(exit::USAGE, format!("there is no strategy '{lock}'"));
        return command_error::report(&error, style);
    };
    match subject::serve(strategy, io::stdin().lock(), io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let error = CommandError::new(exit::INTERNAL, "cannot talk to the lab").at(error);
            command_error::report(&error, style)
        }
    }
}
