//! How many servers there are, and how many may fail.

use fencepost::stores::zookeeper::client::Client;
use fencepost_trial::text::numbers::plural;

use super::super::finding::{Finding, Harm};
use super::words::Server;
use super::{said, within};

pub(super) async fn judge(client: &Client, servers: &[Server]) -> Vec<Finding> {
    let voters = match members(client).await {
        Ok(voters) => voters,
        Err(why) => return vec![Finding::unknown("members", why)],
    };
    let mut findings = vec![margin(voters, servers)];
    if servers.len() < voters {
        let what = format!("the address names {} of {voters} servers", servers.len());
        findings.push(
            Finding::caution("address", Harm::Hampered, what)
                .means(
                    "When those named are gone, no lock can be taken, although the ensemble lives.",
                )
                .advice("name all servers: zk://HOST,HOST,HOST"),
        );
    }
    findings
}

/// Everybody may read which servers vote. One that is alone has no list.
async fn members(client: &Client) -> Result<usize, String> {
    let (config, _) = within(client.get_config())
        .await
        .map_err(|cause| format!("how many servers there are: {}", said(&cause)))?;
    let config = String::from_utf8_lossy(&config).into_owned();
    let votes = |line: &&str| line.starts_with("server.") && !line.contains(":observer");
    Ok(config.lines().filter(votes).count().max(1))
}

fn margin(voters: usize, servers: &[Server]) -> Finding {
    let missing: Vec<String> = servers
        .iter()
        .filter_map(|server| Some(format!("{} ({})", server.host(), server.silence()?)))
        .chain(
            servers
                .iter()
                .filter(|server| server.serves_nobody())
                .map(|server| format!("{} (serves nobody)", server.host())),
        )
        .collect();
    let there = servers.len() - missing.len();
    let quorum = voters / 2 + 1;
    let finding = match voters {
        1 => {
            let what = "one server, alone: nobody else has its data";
            Finding::caution("members", Harm::OneMachine, what)
                .means("While it is down no lock can be taken, and without its disk all is forgotten, fences too.")
                .advice("an ensemble of three servers on three machines")
        }
        2 => Finding::caution(
            "members",
            Harm::Hampered,
            "two servers: when either is gone, no lock can be taken",
        )
        .advice("three servers on three machines"),
        _ if !missing.is_empty() => {
            let left = voters.saturating_sub(missing.len()).saturating_sub(quorum);
            let means = match left {
                0 => "No further one may fail: then no lock can be taken.".to_owned(),
                left => format!("{} may fail.", plural(left, "more", "more")),
            };
            let what = format!(
                "{there} of {voters} servers answer; silent: {}",
                missing.join(", ")
            );
            Finding::caution("members", Harm::Hampered, what)
                .means(means)
                .advice("start them again")
        }
        _ => Finding::fine(
            "members",
            format!("{voters} servers, {} may fail", voters - quorum),
        ),
    };
    let leaders = servers
        .iter()
        .filter(|server| matches!(server.mode(), Some("leader" | "standalone")));
    let finding = finding.figure("members", voters).figure("answering", there);
    match leaders.count() {
        // An address with servers of two ensembles.
        two @ 2.. => {
            let what =
                format!("{two} servers of the address lead: they are of different ensembles");
            Finding::danger("members", Harm::Vanishes, what)
                .means("A lock in one of them keeps nobody out of the others.")
                .advice("the servers of one ensemble")
                .figure("members", voters)
        }
        _ => finding,
    }
}

/// Servers listen, and have no leader.
pub(super) fn has_no_majority(servers: &[Server]) -> Option<Finding> {
    let waiting: Vec<&str> = servers
        .iter()
        .filter(|server| server.serves_nobody())
        .map(Server::host)
        .collect();
    (!waiting.is_empty()).then(|| {
        let what = format!("{} listens but has no majority", waiting.join(", "));
        Finding::danger("leader", Harm::NoLocks, what)
            .means("No lock can be taken, renewed or given back until enough servers are there.")
            .advice("start the servers that are missing")
    })
}
