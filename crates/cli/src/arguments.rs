//! The commands and their arguments, as clap parses them.

use clap::{Parser, Subcommand};

use crate::check::Check;
use crate::doctor::Doctor;
use crate::exec::Exec;
use crate::gauntlet::RunGauntlet;
use crate::holds::{Crash, Deadlock, TrialByName};
use crate::locks::Locks;
use crate::oversell::Oversell;
use crate::retry::Retry;
use crate::run_all::RunAll;
use crate::serve::Serve;

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
    Trial(TrialByName),
    Retry(Retry),
    RunAll(RunAll),
    Gauntlet(RunGauntlet),
    Check(Check),
    Exec(Exec),
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
