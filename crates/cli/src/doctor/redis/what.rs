//! What answers: which server, which version, one or several.

use std::collections::BTreeSet;

use fencepost_trial::text::numbers::plural;

use super::super::finding::{Finding, Harm};
use super::Known;
use super::info::Info;
use super::server::{Gone, Server};

/// The oldest version that has what the locks need.
const OLDEST: [u32; 2] = [6, 2];
/// Connections that are made to see whether the same server answers each time.
const CONNECTIONS: usize = 6;

/// What is examined, for the title.
pub(super) fn patient(known: &Known) -> String {
    let mut words = match (name(known), version(known)) {
        (name, Some(version)) => format!("{name} {version}"),
        (name, None) => name.to_owned(),
    };
    let role = match known.get("role") {
        _ if is_cluster(known) => ", a node of a cluster",
        Some("master") => ", one primary",
        Some("slave") => ", a replica",
        _ => "",
    };
    words.push_str(role);
    if let Some(seconds) = known.number("uptime_in_seconds") {
        words.push_str(&format!(", up {}", super::super::uptime(seconds)));
    }
    words + ", as user " + &known.user
}

fn name(known: &Known) -> &'static str {
    match known.get("server_name") {
        Some("valkey") => "Valkey",
        _ => "Redis",
    }
}

fn version(known: &Known) -> Option<&str> {
    let own = known.get("valkey_version");
    own.or_else(|| known.get("redis_version"))
}

fn is_cluster(known: &Known) -> bool {
    known.is("cluster_enabled", "1") || known.is("redis_mode", "cluster")
}

pub(super) fn judge(known: &Known, address: &str) -> Result<Vec<Finding>, Gone> {
    let mut findings = Vec::new();
    findings.extend(age(known));
    if is_cluster(known) {
        findings.push(
            Finding::danger("cluster", Harm::NoLocks, "this is a node of a cluster")
                .means("Fencepost takes no locks there yet: the names of other nodes would fail.")
                .advice("a Redis of its own for locks, without cluster-enabled"),
        );
    } else if known.info.is_some() {
        findings.push(Finding::fine("cluster", "no cluster"));
    }
    findings.extend(one_or_several(known, address)?);
    Ok(findings)
}

fn age(known: &Known) -> Option<Finding> {
    // A fork keeps the number it is compatible with.
    let text = known.get("redis_version")?;
    let mut parts = text.split('.').map(|part| part.parse().ok());
    let (Some(Some(major)), Some(Some(minor))) = (parts.next(), parts.next()) else {
        return Some(Finding::unknown("version", format!("'{text}'")));
    };
    let shown = version(known).unwrap_or(text);
    let finding = if [major, minor] < OLDEST {
        let what = format!("{} {shown} is too old: 6.2 is the least", name(known));
        Finding::danger("version", Harm::NoLocks, what)
            .means("It lacks what the locks are made of: no lock can be taken here.")
            .advice("a newer server; try it with a copy of the data first")
    } else {
        Finding::fine("version", "version")
    };
    Some(finding.figure("version", shown))
}

/// The same address must always lead to the same server: locks on two of them exclude nobody.
fn one_or_several(known: &Known, address: &str) -> Result<Option<Finding>, Gone> {
    let Some(first) = known.get("run_id") else {
        return Ok(None);
    };
    let mut servers = BTreeSet::from([first.to_owned()]);
    for _ in 1..CONNECTIONS {
        let info = Server::open(address)?.ask::<String>(&["INFO", "server"])?;
        let info = info.said().map(|text| Info::parse(&text));
        servers.extend(info.and_then(|info| info.get("run_id").map(str::to_owned)));
    }
    if servers.len() == 1 {
        return Ok(Some(Finding::fine("proxy", "one server at this address")));
    }
    let what = format!(
        "{} answer at this address",
        plural(servers.len(), "server", "different servers")
    );
    let finding = Finding::danger("proxy", Harm::Vanishes, what)
        .means("A lock on one of them keeps nobody out of the others.")
        .advice("give locks the address of one server, not of a proxy or a balancer")
        .figure("servers", servers.len());
    Ok(Some(finding))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(info: &str) -> Known {
        Known {
            info: Some(Info::parse(info)),
            user: "shop".into(),
        }
    }

    #[test]
    fn a_patient_is_introduced() {
        let redis = known("redis_version:7.0.15\r\nrole:master\r\nuptime_in_seconds:1036800\r\n");
        assert_eq!(
            patient(&redis),
            "Redis 7.0.15, one primary, up 12 d, as user shop"
        );
        let valkey = known("server_name:valkey\nredis_version:7.2.4\nvalkey_version:8.1.0\n");
        assert_eq!(patient(&valkey), "Valkey 8.1.0, as user shop");
        assert_eq!(
            age(&valkey),
            Some(Finding::fine("version", "version").figure("version", "8.1.0"))
        );
    }

    #[test]
    fn what_is_too_old_is_no_place_for_locks() {
        for (version, ok) in [
            ("5.0.7", false),
            ("6.0.16", false),
            ("6.2.0", true),
            ("10.1", true),
        ] {
            let finding = age(&known(&format!("redis_version:{version}"))).unwrap();
            assert_eq!(
                finding.severity == super::super::super::finding::Severity::Fine,
                ok,
                "{version}"
            );
        }
    }
}
