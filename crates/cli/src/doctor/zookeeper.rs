//! Examines a ZooKeeper ensemble.
//!
//! The state of each server comes from its four-letter commands, as far as they are allowed; the rest comes from sessions that the doctor
//! opens. It writes no node: it tests rights with a transaction that cannot succeed.

use std::time::Duration;

use fencepost::stores::zookeeper::client::Error as Cause;

use super::pace::ROUND_TRIP_CHECKS;
use super::reach::refused;
use super::rules::apply;
use super::{ANSWER_TIMEOUT, Examination};
use crate::command_error::CommandError;
use crate::store::LockStore;

mod four_letter_commands;
mod readings;
mod rights;
mod rules;

use four_letter_commands::Server;
use readings::Readings;
pub(super) use rules::{ENSEMBLE_CHECKS, SERVER_CHECKS};

pub(super) async fn examine(
    store: &LockStore,
    address: &str,
    slow: Duration,
) -> Result<Examination, CommandError> {
    let readings = Readings::of(address, slow).await;
    let readings = readings.map_err(|error| refused(store, &error))?;
    let mut findings = apply(ENSEMBLE_CHECKS, &readings);
    if let Some(session) = &readings.session {
        findings.extend(apply(ROUND_TRIP_CHECKS, &session.round_trip));
    }
    findings.extend(apply(SERVER_CHECKS, &readings));
    Ok(Examination {
        address: store.place(),
        server: describe(&readings.servers, address),
        findings,
    })
}

fn describe(servers: &[Server], address: &str) -> String {
    let version = servers.iter().find_map(|server| server.version());
    let there = servers.iter().filter(|server| server.is_there()).count();
    let has_user = address.contains('@');
    format!(
        "ZooKeeper{}, {there} of {} servers answer{}",
        version.map_or(String::new(), |version| format!(" {version}")),
        servers.len(),
        if has_user {
            ", as the user of the address"
        } else {
            ", without a user"
        }
    )
}

async fn within<T>(asking: impl Future<Output = Result<T, Cause>>) -> Result<T, Cause> {
    let answer = tokio::time::timeout(ANSWER_TIMEOUT, asking).await;
    answer.unwrap_or(Err(Cause::Timeout))
}

fn said(cause: &Cause) -> String {
    format!("the server says '{cause}'")
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    /// Returns the severity of a topic for a single server with these answers.
    fn severity(topic: &str, srvr: &str, mntr: &str) -> Severity {
        let readings = Readings {
            servers: vec![Server::of("h:2181", srvr, mntr)],
            session: None,
        };
        let mut findings = apply(SERVER_CHECKS, &readings).into_iter();
        let found = findings.find(|finding| finding.topic == topic);
        found.unwrap().severity
    }

    #[test]
    fn slow_disks_are_told_as_each_version_tells_them() {
        let of = |mntr: &str| severity("disk", "", mntr);
        assert_eq!(
            of("mntr is not executed because it is not in the whitelist."),
            Severity::Unknown
        );
        assert_eq!(of("zk_max_fsynctime\t12\n"), Severity::Fine);
        assert_eq!(of("zk_max_fsynctime\t2500\n"), Severity::Caution);
        assert_eq!(of("zk_fsync_threshold_exceed_count\t0\n"), Severity::Fine);
        assert_eq!(
            of("zk_fsync_threshold_exceed_count\t3\n"),
            Severity::Caution
        );
    }

    #[test]
    fn old_servers_and_many_elections_are_told() {
        let of = |version: &str| {
            let said = format!("Zookeeper version: {version}-abc, built on 2022\nMode: leader\n");
            severity("version", &said, "")
        };
        assert_eq!(of("3.4.14"), Severity::Danger);
        assert_eq!(of("3.5.1"), Severity::Fine);
        assert_eq!(of("3.10.0"), Severity::Fine);
        let of = |zxid: &str| severity("elections", &format!("Zxid: {zxid}\n"), "");
        assert_eq!(of("0x500000001"), Severity::Fine);
        assert_eq!(of("0x7fff00000001"), Severity::Caution);
        assert_eq!(of("0x800000000001"), Severity::Danger);
    }
}
