//! `fencepost`: distributed locks you can put on trial.
//!
//! Arguments → options → run → exit code. What is tried and judged lives in `fencepost-trial`.

mod arguments;
mod backend;
mod check;
mod contender;
mod doctor;
mod drawings;
mod exec;
mod exit;
mod fault;
mod help;
mod holds;
mod ignored;
mod locks;
mod oversell;
mod results;
mod retry;
mod run_all;
mod screen;
mod serve;
mod server;
mod store;
mod stranger;
mod usage;
mod wording;

use std::io;
use std::process::ExitCode;

use clap::Parser;
use fencepost_rig::Interrupt;
use fencepost_trial::{strategy, subject};

use arguments::{Arguments, Command};
use fault::{Fault, Wishes};
use screen::Screen;

fn main() -> ExitCode {
    let typed: Vec<_> = std::env::args_os().collect();
    let words: Vec<String> = typed
        .iter()
        .skip(1)
        // What follows belongs to the command that `exec` runs.
        .take_while(|word| *word != "--")
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let wishes = Wishes::of(&words);
    if let Some(text) = help::requested(&words) {
        return Screen::plain(wishes).finish(&text);
    }
    match Arguments::try_parse_from(typed) {
        Ok(arguments) => run(arguments.command, wishes),
        Err(error) if error.kind() == clap::error::ErrorKind::DisplayVersion => {
            Screen::plain(wishes).finish(&error.to_string())
        }
        Err(error) => fault::report(&usage::explain(&error, &words), wishes),
    }
}

fn run(command: Command, wishes: Wishes) -> ExitCode {
    if let Command::Subject { lock } = command {
        return answer(&lock, wishes);
    }
    let command = match command {
        // It has signals of its own to listen to, and forks before anything else happens.
        Command::Exec(arguments) => return exec::run(arguments, wishes),
        // So has this one.
        Command::Serve(arguments) => {
            let served = serve::run(*arguments);
            return served.unwrap_or_else(|fault| fault::report(&fault, wishes));
        }
        command => command,
    };
    let interrupt = match Interrupt::listen() {
        Ok(interrupt) => interrupt,
        Err(error) => {
            let fault = Fault::new(exit::INTERNAL, "cannot listen for Ctrl-C").at(error);
            return fault::report(&fault, wishes);
        }
    };
    let outcome = match command {
        Command::Oversell(arguments) => oversell::run(arguments, interrupt),
        Command::Deadlock(arguments) => holds::deadlock(arguments, interrupt),
        Command::Crash(arguments) => holds::crash(arguments, interrupt),
        Command::Trial(arguments) => holds::trial(arguments, interrupt),
        Command::Retry(arguments) => retry::run(arguments, interrupt),
        Command::RunAll(arguments) => run_all::run(arguments, interrupt),
        Command::Check(arguments) => check::run(&arguments),
        Command::Locks(arguments) => locks::run(arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Exec(_) | Command::Serve(_) | Command::Subject { .. } => Ok(ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|fault| fault::report(&fault, wishes))
}

/// The child role: buys, or holds locks, as it is told on standard input.
fn answer(lock: &str, wishes: Wishes) -> ExitCode {
    let Some(strategy) = strategy::find(lock) else {
        let fault = Fault::new(exit::USAGE, format!("there is no strategy '{lock}'"));
        return fault::report(&fault, wishes);
    };
    match subject::serve(strategy, io::stdin().lock(), io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let fault = Fault::new(exit::INTERNAL, "cannot talk to the lab").at(error);
            fault::report(&fault, wishes)
        }
    }
}
