//! Examines an etcd cluster, server by server.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Examination;
use super::pace::ROUND_TRIP_CHECKS;
use super::reach::refused;
use super::rules::apply;
use crate::command_error::CommandError;
use crate::store::LockStore;

mod readings;
mod rules;

use readings::Readings;
pub(super) use rules::CHECKS;

pub(super) async fn examine(
    store: &LockStore,
    address: &str,
    slow: Duration,
) -> Result<Examination, CommandError> {
    let readings = Readings::of(address, slow).await;
    let readings = readings.map_err(|error| refused(store, &error))?;
    let mut findings = apply(CHECKS, &readings);
    if let Some(served) = &readings.served {
        findings.extend(apply(ROUND_TRIP_CHECKS, &served.round_trip));
    }
    Ok(Examination {
        address: store.place(),
        server: describe(&readings),
        findings,
    })
}

fn describe(read: &Readings) -> String {
    let versions: BTreeSet<&str> = read.versions().collect();
    let versions: Vec<&str> = versions.into_iter().collect();
    let user = match &read.user {
        Some(user) => format!("as user {user}"),
        None => "without a user".to_owned(),
    };
    let all = read.servers.len() + read.silent.len();
    let answer = match read.silent.len() {
        0 => format!("{all} of {all} servers answer"),
        _ => format!("{} of {all} servers answer", read.servers.len()),
    };
    format!("etcd {}, {answer}, {user}", versions.join(" and "))
}
