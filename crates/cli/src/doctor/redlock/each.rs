//! Merges the findings of the individual Redlock servers: a finding that several servers share is reported once.

use std::collections::BTreeSet;

use super::super::finding::{Finding, Harm, Severity};
use super::super::pace::ROUND_TRIP;
use super::Readings;
use super::rules::list;

/// Topics that [`super::rules`] judges for all servers together.
const TOGETHER: [&str; 3] = ["persistence", "clock", ROUND_TRIP];

/// Topics with dangers for which the library refuses the whole address, even if only one server has them.
const REFUSED: [&str; 2] = ["replica", "protocol"];

/// Returns the merged findings of all servers.
pub(super) fn findings(readings: &Readings) -> Vec<Finding> {
    let (nodes, all) = (&readings.nodes, readings.all);
    let mut groups: Vec<(Finding, Vec<&str>)> = Vec::new();
    for (host, node) in nodes {
        let own = node
            .findings
            .iter()
            .filter(|finding| !TOGETHER.contains(&finding.topic) || jumped(finding));
        for finding in own {
            let same = |(other, _): &&mut (Finding, Vec<&str>)| {
                (other.severity, other.topic, &other.what)
                    == (finding.severity, finding.topic, &finding.what)
            };
            match groups.iter_mut().find(same) {
                Some((_, hosts)) => hosts.push(host),
                None => groups.push((finding.clone(), vec![host])),
            }
        }
    }
    let may_be_lost = (all - 1) / 2;
    let without_vote = groups
        .iter()
        .filter(|(finding, _)| finding.harm == Some(Harm::NoLocks))
        .flat_map(|(_, hosts)| hosts.iter().copied())
        .collect::<BTreeSet<&str>>()
        .len();
    let is_enough = all - nodes.len() + without_vote <= may_be_lost;
    let with_hosts = |(finding, hosts): (Finding, Vec<&str>)| {
        let finding = of_one_among_several(finding, is_enough);
        let is_plain = finding.severity == Severity::Fine && hosts.len() == nodes.len();
        let what = if is_plain {
            finding.what.clone()
        } else {
            format!("{} {}", list(&hosts, nodes.len()), finding.what)
        };
        finding.saying(what)
    };
    groups.into_iter().map(with_hosts).collect()
}

/// Adjusts a finding that prevents locks on one server. It prevents locks altogether only if `Redlock::open` refuses such a server or too
/// few others are left; otherwise it costs one vote.
fn of_one_among_several(finding: Finding, others_are_enough: bool) -> Finding {
    if finding.harm != Some(Harm::NoLocks) {
        return finding;
    }
    if REFUSED.contains(&finding.topic) {
        return finding.means("Fencepost refuses an address with such a server.");
    }
    if others_are_enough {
        finding.only(Harm::Hampered).means("It does not vote.")
    } else {
        finding.means("Too few others are left to agree: no lock can be taken.")
    }
}

/// Returns whether the clock of a server jumped. That concerns this server alone; how far clocks differ is judged for all servers together.
fn jumped(finding: &Finding) -> bool {
    finding.topic == "clock" && finding.is_trouble() && finding.what.contains("jumped")
}
