//! Members, leader, majority.

use std::collections::BTreeSet;

use fencepost_trial::text::numbers::plural;

use super::super::finding::{Finding, Harm};
use super::{Known, said, within};

pub(super) async fn judge(known: &mut Known) -> Vec<Finding> {
    let clusters = known
        .servers
        .iter()
        .filter_map(|server| server.status.header());
    let clusters: BTreeSet<u64> = clusters.map(|header| header.cluster_id()).collect();
    if clusters.len() > 1 {
        let what = format!("the address names servers of {} clusters", clusters.len());
        return vec![
            Finding::danger("cluster", Harm::Vanishes, what)
                .means("A lock in one of them keeps nobody out of the others.")
                .advice("the servers of one cluster")
                .figure("servers", clusters.len()),
        ];
    }
    let mut findings = vec![leader(known)];
    findings.extend(members(known).await);
    findings
}

fn leader(known: &Known) -> Finding {
    let lost: Vec<&str> = known
        .servers
        .iter()
        .filter(|server| server.status.leader() == 0)
        .map(|server| server.host.as_str())
        .collect();
    if lost.is_empty() {
        return Finding::fine("leader", "a leader");
    }
    if lost.len() < known.servers.len() {
        let what = format!("{} knows no leader, others do", lost.join(", "));
        return Finding::caution("leader", Harm::Hampered, what)
            .means(
                "It is cut off from the others: whoever asks it first has to ask again elsewhere.",
            )
            .advice("look at its log and at the network between the members");
    }
    Finding::danger(
        "leader",
        Harm::NoLocks,
        "no leader: the majority of the members is lost",
    )
    .means("No lock can be taken, renewed or given back until it is there again.")
    .advice("start the members that are missing")
}

async fn members(known: &mut Known) -> Vec<Finding> {
    let Some(server) = known.servers.first_mut() else {
        return Vec::new();
    };
    let members = match within(server.client.member_list()).await {
        Ok(list) => list,
        Err(cause) => {
            let what = format!("how many there are: {}", said(cause));
            return vec![Finding::unknown("members", what)];
        }
    };
    let voters: BTreeSet<u64> = members
        .members()
        .iter()
        .filter(|member| !member.is_learner())
        .map(|member| member.id())
        .collect();
    let answered = known
        .servers
        .iter()
        .filter_map(|server| server.status.header());
    let answered: BTreeSet<u64> = answered.map(|header| header.member_id()).collect();
    let there = voters.intersection(&answered).count();
    let mut findings = vec![margin(known, voters.len(), there)];
    let named = known.servers.len() + known.silent.len();
    if named < voters.len() {
        let what = format!("the address names {named} of {} members", voters.len());
        findings.push(
            Finding::caution("address", Harm::Hampered, what)
                .means(
                    "When those named are gone, no lock can be taken, although the cluster lives.",
                )
                .advice("name all members: etcd://HOST,HOST,HOST"),
        );
    }
    findings
}

/// How many may fail before locks stop. Members that the address does not name count as there: nobody asked them.
fn margin(known: &Known, voters: usize, there: usize) -> Finding {
    let quorum = voters / 2 + 1;
    let missing = known.silent.len();
    let finding = match voters {
        1 => Finding::caution("members", Harm::OneMachine, "one member: nobody else has its data")
            .means("While it is down no lock can be taken, and without its disk all is forgotten, fences too.")
            .advice("three members on three machines"),
        2 => Finding::caution("members", Harm::Hampered, "two members: when either is gone, no lock can be taken")
            .advice("three members on three machines"),
        _ if missing > 0 => {
            let hosts: Vec<String> = known.silent.iter().map(|(host, why)| format!("{host} ({why})")).collect();
            let left = (voters - missing.min(voters)).saturating_sub(quorum);
            let means = match left {
                0 => "No further one may fail: then no lock can be taken.".to_owned(),
                left => format!("{} more may fail.", plural(left, "one", "")),
            };
            let what = format!("{there} of {voters} members answer; silent: {}", hosts.join(", "));
            Finding::caution("members", Harm::Hampered, what).means(means).advice("start them, or remove them from the cluster")
        }
        _ => Finding::fine("members", format!("{voters} members, {} may fail", voters - quorum)),
    };
    finding.figure("members", voters).figure("answering", there)
}
