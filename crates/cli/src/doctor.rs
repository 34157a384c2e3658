//! `fencepost doctor`: what endangers locks in a store, in plain words. It only looks; nothing is written there.

use std::process::ExitCode;

use clap::Args;

use crate::arguments::Look;
use crate::backend::LockStore;
use crate::exit;
use crate::fault::Fault;
use crate::server::Server;

mod finding;
mod redis;
mod show;
mod sqlite;

use finding::Finding;

/// What the command takes.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Doctor {
    #[arg(long, env = "FENCEPOST_STORE", hide_env_values = true, default_value = "sqlite", value_parser = LockStore::parse)]
    store: LockStore,
    #[command(flatten)]
    look: Look,
}

/// What was found out about a store.
struct Examination {
    /// Where it is, fit to be shown.
    place: String,
    /// What it is: `Redis 7.0.15, one primary, up 12 d, as user shop`.
    patient: String,
    /// In the order in which they are shown.
    findings: Vec<Finding>,
}

fn not_examined(server: &Server) -> Fault {
    Fault::new(exit::USAGE, "cannot examine this kind of store yet")
        .at(format_args!("{}", server.form))
        .effect("none")
        .try_this("--store redis://HOST · sqlite:PATH · docs/backends says what endangers locks in the others")
}

/// Runs the command.
pub(crate) fn run(arguments: &Doctor) -> Result<ExitCode, Fault> {
    let mut examination = match &arguments.store {
        LockStore::Address(address) => {
            if let Some(server) = Server::of(address).filter(|server| !server.is_examined) {
                return Err(not_examined(server));
            }
            redis::examine(address)?
        }
        LockStore::Sqlite(path) => {
            let place = arguments.store.path(path.as_deref());
            sqlite::examine(&place.map_err(|error| error.fault())?, path.is_none())?
        }
    };
    examination.findings.sort_by_key(|finding| finding.severity);
    let mut screen = arguments.look.screen();
    if arguments.look.json {
        screen.print_json(&show::document(&examination));
    } else {
        screen.print(&show::text(&examination, arguments.look.quiet, screen.ink));
    }
    Ok(screen.end(finding::exit_code(&examination.findings)))
}
