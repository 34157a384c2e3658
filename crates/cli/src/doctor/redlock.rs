//! Examines the Redis servers of a Redlock address: each server by itself, and all together.

use std::time::Duration;

use fencepost::stores::kinds::REDLOCK;
use fencepost::stores::redlock::Redlock;
use serde_json::Value;

use super::Examination;
use super::finding::Finding;
use super::pace::ROUND_TRIP;
use super::reach::refused;
use super::redis::{self, Gone, Node};
use super::rules::apply;
use crate::command_error::CommandError;
use crate::store::LockStore;

mod each;
mod rules;
#[cfg(test)]
mod tests;

pub(super) use rules::{CLOCK_CHECKS, VOTE_CHECKS};

pub(super) fn examine(
    store: &LockStore,
    address: &str,
    slow: Duration,
) -> Result<Examination, CommandError> {
    let builder = Redlock::builder(address);
    let addresses = builder.servers().map_err(|error| refused(store, &error))?;
    let mut nodes = Vec::new();
    let mut silent: Vec<(String, Gone)> = Vec::new();
    for (address, examined) in addresses.iter().zip(at_once(addresses, slow)) {
        match examined {
            Ok(node) => nodes.push((host(address), node)),
            Err(gone) => silent.push((host(address), gone)),
        }
    }
    if nodes.is_empty() {
        let place = store.place();
        let error = silent
            .into_iter()
            .next()
            .map(|(_, gone)| gone.command_error(&place, REDLOCK.address_form));
        return Err(
            error.unwrap_or_else(|| CommandError::new(crate::exit::USAGE, "no servers").at(place))
        );
    }
    let readings = Readings {
        all: addresses.len(),
        nodes,
        silent,
        restart_delay: builder.chosen_restart_delay(),
    };
    let mut findings = apply(VOTE_CHECKS, &readings);
    findings.extend(slowest(&readings.nodes));
    findings.extend(apply(CLOCK_CHECKS, &readings));
    findings.extend(each::findings(&readings));
    Ok(Examination {
        address: store.place(),
        server: describe(&readings.nodes, readings.all),
        findings,
    })
}

/// What the rules for Redlock judge.
pub(super) struct Readings {
    /// How many servers the address names.
    all: usize,
    /// The servers that answered, with their hosts.
    nodes: Vec<(String, Node)>,
    /// The servers that did not answer, and why.
    silent: Vec<(String, Gone)>,
    restart_delay: Duration,
}

/// Examines all servers in parallel, so that several silent servers take no longer than one.
fn at_once(addresses: &[String], slow: Duration) -> Vec<Result<Node, Gone>> {
    std::thread::scope(|scope| {
        let examining: Vec<_> = addresses
            .iter()
            .map(|address| scope.spawn(move || redis::node(address, slow)))
            .collect();
        let joined = examining.into_iter().map(|thread| thread.join());
        joined
            .map(|node| node.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// Returns host and port of an address, without user, password and database.
fn host(address: &str) -> String {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    rest.split('/').next().unwrap_or_default().to_owned()
}

fn describe(nodes: &[(String, Node)], all: usize) -> String {
    // The first part of `Redis 7.0.15, one primary, …`.
    let kinds = nodes
        .iter()
        .filter_map(|(_, node)| node.server.split(',').next());
    let mut kinds: Vec<&str> = kinds.collect();
    kinds.sort_unstable();
    kinds.dedup();
    format!(
        "{}, {} of {all} servers answer",
        kinds.join(" and "),
        nodes.len()
    )
}

fn figure(node: &Node, topic: &str, name: &str) -> Option<f64> {
    let finding = node
        .findings
        .iter()
        .find(|finding| finding.topic == topic)?;
    finding.figures.get(name).and_then(Value::as_f64)
}

/// Returns the round trip of the slowest server. Locks may be faster than that, since a majority of faster servers is enough.
fn slowest(nodes: &[(String, Node)]) -> Option<Finding> {
    let by_p99 =
        |(_, node): &&(String, Node)| figure(node, ROUND_TRIP, "p99_ms").unwrap_or_default();
    let (host, node) = nodes
        .iter()
        .max_by(|one, other| by_p99(one).total_cmp(&by_p99(other)))?;
    let finding = node
        .findings
        .iter()
        .find(|finding| finding.topic == ROUND_TRIP)?;
    let said = format!("{} at {host}, the slowest", finding.what);
    Some(finding.clone().saying(said))
}
