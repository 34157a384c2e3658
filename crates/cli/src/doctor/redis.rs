//! Examines a single Redis server.

use std::time::Duration;

use ::redis::ProtocolVersion;
use fencepost::stores::redis::Redis;
use fencepost::stores::without_password;

use super::finding::Finding;
use super::pace::{self, CLOCK_CHECKS, Clock, ROUND_TRIP_CHECKS};
use super::rules::apply;
use super::{ANSWER_TIMEOUT, Examination};
use crate::command_error::CommandError;
use crate::exit;

mod memory;
mod readings;
mod rules;
mod server;
#[cfg(test)]
mod tests;

use readings::Readings;
pub(super) use rules::CHECKS;
pub(super) use server::Gone;

pub(super) fn examine(address: &str, slow: Duration) -> Result<Examination, CommandError> {
    let place = without_password(address);
    if let Err(error) = Redis::visit(address, ProtocolVersion::RESP2) {
        let what = format!("'{place}' is not the address of a server");
        let advice =
            "redis://HOST, redis://USER:PASSWORD@HOST:PORT/DATABASE, rediss://… or unix:/PATH";
        let invalid =
            CommandError::new(exit::USAGE, what).at(format_args!("--store: {}", error.message()));
        return Err(invalid.try_this(advice));
    }
    let form = "redis://USER:PASSWORD@HOST";
    let node = node(address, slow).map_err(|gone| gone.command_error(&place, form))?;
    Ok(Examination {
        address: place,
        server: node.server,
        findings: node.findings,
    })
}

/// A server that was examined, with its findings.
pub(super) struct Node {
    /// A description of the server: name, version, role.
    pub(super) server: String,
    /// An id that no other server has; `None` if the user may not ask for it.
    #[cfg_attr(
        not(feature = "redlock"),
        expect(dead_code, reason = "only Redlock compares servers")
    )]
    pub(super) identity: Option<String>,
    pub(super) findings: Vec<Finding>,
}

/// Examines one server.
pub(super) fn node(address: &str, slow: Duration) -> Result<Node, Gone> {
    server::reach(address, ANSWER_TIMEOUT)?;
    let readings = Readings::of(address)?;
    let mut findings = apply(CHECKS, &readings);
    if let Some(samples) = &readings.samples {
        findings.extend(apply(ROUND_TRIP_CHECKS, &Ok(pace::times(samples, slow))));
        findings.extend(apply(CLOCK_CHECKS, &Clock::of(samples, Some("Redis"))));
    }
    Ok(Node {
        server: describe(&readings),
        identity: readings.identity(),
        findings,
    })
}

/// Describes the server for the title of the report.
fn describe(read: &Readings) -> String {
    let mut words = match (read.name(), read.version()) {
        (name, Some(version)) => format!("{name} {version}"),
        (name, None) => name.to_owned(),
    };
    let role = match read.get("role") {
        _ if read.is_cluster() => ", a node of a cluster",
        Some("master") => ", one primary",
        Some("slave") => ", a replica",
        _ => "",
    };
    words.push_str(role);
    if let Some(seconds) = read.number("uptime_in_seconds") {
        words.push_str(&format!(", up {}", super::uptime(seconds)));
    }
    words + ", as user " + &read.user
}

impl Gone {
    /// Returns the reason in a few words.
    #[cfg(feature = "redlock")]
    pub(super) fn words(&self) -> &str {
        match self {
            Self::Silent(words) | Self::Refuses(words) => words,
            Self::NotRedis => "not Redis",
        }
    }

    /// Turns the reason into an error. `form` shows the form of an address of this kind.
    pub(super) fn command_error(self, place: &str, form: &str) -> CommandError {
        let (what, at, advice) = match self {
            Self::Silent(words) => (
                "cannot reach the store",
                words,
                "start Redis there, or give another address",
            ),
            Self::NotRedis => (
                "this is not a Redis server",
                "answers, but not as Redis does".to_owned(),
                "another HOST:PORT",
            ),
            Self::Refuses(words) => ("cannot use the store", words, form),
        };
        CommandError::new(exit::STORE, what)
            .at(format_args!("{place}: {at}"))
            .effect("none: nothing was examined")
            .try_this(advice)
    }
}
