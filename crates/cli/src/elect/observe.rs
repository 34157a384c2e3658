//! `fencepost elect --observe`: prints who leads, and every change, until it is interrupted.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::SystemTime;

use fencepost::clock::Moment;
use fencepost::kinds::election::{Election, Leader, Observed};
use fencepost::{DEFAULT_TTL, Error, LockName, Locker};
use fencepost_trial::text::harmless;
use serde_json::{Value, json};

use crate::command_error::{CommandError, system_words};
use crate::exit;
use crate::store::{LockStore, NotOpened};
use crate::wording::{age, host_and_process, time_of_day, who};

/// Prints until nobody reads it any more.
pub(super) fn run(
    store: &LockStore,
    name: &LockName,
    json: bool,
) -> Result<ExitCode, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| {
        CommandError::new(exit::INTERNAL, "cannot wait for a store").at(system_words(&error))
    })?;
    runtime.block_on(async {
        let opened = store.open_with_ttl(DEFAULT_TTL).await;
        let backend = opened.map_err(|error| error.command_error())?;
        let failed = |error: Error| NotOpened::new(store, &error).command_error();
        let election = Locker::new(backend).election(name).map_err(failed)?;
        let mut observer = election.observe().map_err(failed)?;
        loop {
            let observed = observer.next().await;
            let line = if json {
                document(store, &election, &observed).to_string()
            } else {
                line(&election, &observed)
            };
            match print(&line) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    return Ok(ExitCode::SUCCESS);
                }
                Err(error) => {
                    let failed = CommandError::new(exit::WRITE_FAILED, "cannot write");
                    let place = format!("standard output: {}", system_words(&error));
                    return Err(failed.at(place));
                }
            }
        }
    })
}

fn print(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

fn line(election: &Election, observed: &Observed) -> String {
    let (at, name) = (time_of_day(SystemTime::now()), election.name());
    match observed {
        Observed::Leader(leader) => {
            let by = match &*leader.label {
                "" => String::new(),
                label => format!(" ({})", who(&harmless(label))),
            };
            let since = led_for(election, leader);
            let since = since.map(|time| format!(" for {}", age(time)));
            format!(
                "{at}   {name} is led by {}{by}{}, term {}",
                harmless(&leader.value),
                since.unwrap_or_default(),
                leader.term
            )
        }
        Observed::None => format!("{at}   {name} has no leader"),
        Observed::Disconnected(error) => {
            format!("{at}   {name}: cannot tell: {}", harmless(error.message()))
        }
    }
}

fn led_for(election: &Election, leader: &Leader) -> Option<std::time::Duration> {
    let now: Moment = election.backend().clock().now();
    leader
        .since
        .map(|since| now.saturating_duration_since(since))
}

/// Returns the document of one state. Keys name the unit of their value.
fn document(store: &LockStore, election: &Election, observed: &Observed) -> Value {
    let (state, leader, error) = match observed {
        Observed::Leader(leader) => ("leader", Some(leader), None),
        Observed::None => ("none", None, None),
        Observed::Disconnected(error) => ("disconnected", None, Some(error.message())),
    };
    let leader = leader.map(|leader| {
        let (host, process) = host_and_process(&leader.label).unzip();
        json!({
            "term": leader.term.to_string(),
            "value": &*leader.value,
            "label": &*leader.label,
            "host": host,
            "process": process,
            "led_for_ms": led_for(election, leader).map(|time| time.as_secs_f64() * 1000.0),
        })
    });
    json!({
        "schema": "fencepost/election/1",
        "version": env!("CARGO_PKG_VERSION"),
        "store": store.place(),
        "name": election.name().as_str(),
        "state": state,
        "leader": leader,
        "error": error,
    })
}
