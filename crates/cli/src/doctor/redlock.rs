//! The examination of several Redis servers of which a majority decides: each by itself, and all together.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fencepost::DEFAULT_TTL;
use fencepost::stores::redlock::Redlock;
use fencepost_trial::text::numbers::{decimal, plural};
use serde_json::Value;

use super::Examination;
use super::finding::{Finding, Harm, Severity};
use super::pace::ROUND_TRIP;
use super::reach::refused;
use super::redis::{self, Gone, Node};
use crate::backend::LockStore;
use crate::fault::Fault;
use crate::server::Server;

/// A majority of fewer does not outlive the loss of one.
const FEWEST: usize = 3;
/// From here on clocks disagree by more than people put up with.
const APART_MS: f64 = 1_000.0;

/// What is found by looking at all of them, and not of each.
const TOGETHER: [&str; 3] = ["persistence", "clock", ROUND_TRIP];

/// What the library does not put up with in a single server, whatever the others are.
const REFUSED: [&str; 2] = ["replica", "protocol"];

pub(super) fn examine(store: &LockStore, address: &str) -> Result<Examination, Fault> {
    let builder = Redlock::builder(address);
    let addresses = builder.servers().map_err(|error| refused(store, &error))?;
    let mut nodes = Vec::new();
    let mut silent: Vec<(String, Gone)> = Vec::new();
    for (address, examined) in addresses.iter().zip(at_once(addresses)) {
        match examined {
            Ok(node) => nodes.push((host(address), node)),
            Err(gone) => silent.push((host(address), gone)),
        }
    }
    if nodes.is_empty() {
        let place = store.place();
        let fault = silent
            .into_iter()
            .next()
            .map(|(_, gone)| gone.fault(&place, Server::of(address).map_or("", |kind| kind.form)));
        return Err(fault.unwrap_or_else(|| Fault::new(crate::exit::USAGE, "no servers").at(place)));
    }
    let mut findings = vec![number(addresses.len()), majority(addresses.len(), &silent)];
    findings.push(apart(&nodes));
    findings.push(restart(&nodes, builder.chosen_restart_delay()));
    findings.extend(slowest(&nodes));
    findings.push(clocks(&nodes));
    findings.extend(of_each(&nodes, addresses.len()));
    Ok(Examination {
        place: store.place(),
        patient: patient(&nodes, addresses.len()),
        findings,
    })
}

/// Each is given time to answer: together they need no more than one.
fn at_once(addresses: &[String]) -> Vec<Result<Node, Gone>> {
    std::thread::scope(|scope| {
        let examining: Vec<_> = addresses
            .iter()
            .map(|address| scope.spawn(|| redis::node(address)))
            .collect();
        let joined = examining.into_iter().map(|thread| thread.join());
        joined
            .map(|node| node.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// Without user, password and database.
fn host(address: &str) -> String {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    rest.split('/').next().unwrap_or_default().to_owned()
}

fn patient(nodes: &[(String, Node)], all: usize) -> String {
    // `Redis 7.0.15, one primary, …`: the first of it.
    let kinds = nodes
        .iter()
        .filter_map(|(_, node)| node.patient.split(',').next());
    let mut kinds: Vec<&str> = kinds.collect();
    kinds.sort_unstable();
    kinds.dedup();
    format!(
        "{}, {} of {all} servers answer",
        kinds.join(" and "),
        nodes.len()
    )
}

fn number(all: usize) -> Finding {
    let finding = match all {
        ..FEWEST => Finding::danger("servers", Harm::NoLocks, format!("{}: three are the least", plural(all, "server", "servers")))
            .means("A majority of so few does not outlive the loss of one: Fencepost refuses such an address.")
            .advice("three independent servers, or one with redis://"),
        _ if all.is_multiple_of(2) => {
            let lost = (all - 1) / 2;
            Finding::caution("servers", Harm::Hampered, format!("an even number, {all}: {lost} may be lost, as with {}", all - 1))
                .means("One more server to ask and to fail, and nothing won.")
                .advice("an odd number")
        }
        _ => Finding::fine("servers", format!("{all} servers, {} may be lost", (all - 1) / 2)),
    };
    finding.figure("servers", all)
}

fn majority(all: usize, silent: &[(String, Gone)]) -> Finding {
    let needed = all / 2 + 1;
    let there = all - silent.len();
    let hosts: Vec<String> = silent
        .iter()
        .map(|(host, gone)| format!("{host} ({})", gone.words()))
        .collect();
    let what = format!("{there} of {all} answer; silent: {}", hosts.join(", "));
    let finding = if there < needed {
        Finding::danger("majority", Harm::NoLocks, what)
            .means(format!("{needed} have to agree: no lock can be taken."))
            .advice("start them again")
    } else if !silent.is_empty() {
        let left = there - needed;
        let means = match left {
            0 => "No further one may be lost: then no lock can be taken.".to_owned(),
            left => format!("{left} more may be lost."),
        };
        Finding::caution("majority", Harm::Hampered, what)
            .means(means)
            .advice("start them again")
    } else {
        Finding::fine("majority", "all answer")
    };
    finding.figure("answering", there)
}

/// Two addresses of one server would vote twice.
fn apart(nodes: &[(String, Node)]) -> Finding {
    let mut identities: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut unknown: Vec<&str> = Vec::new();
    for (host, node) in nodes {
        match node.identity.as_deref() {
            Some(identity) => identities.entry(identity).or_default().push(host),
            None => unknown.push(host),
        }
    }
    if let Some(hosts) = identities.values().find(|hosts| hosts.len() > 1) {
        return Finding::danger("independence", Harm::NoLocks, format!("{} are one and the same server", hosts.join(" and ")))
            .means("It votes twice, and its loss counts twice. Fencepost refuses such an address; other clients let two in.")
            .advice("a server of its own for each address, on a machine of its own");
    }
    match unknown.is_empty() {
        true => Finding::fine("independence", "each a server of its own"),
        false => {
            let hosts = unknown.join(", ");
            let what = format!("whether {hosts} are servers of their own: the user may not INFO");
            Finding::unknown("independence", what)
        }
    }
}

/// What a server has of its votes after it was started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Memory {
    /// All of them.
    Keeps,
    /// All, unless the power was cut.
    KeepsBut,
    Forgets,
    Unknown,
}

fn memory(node: &Node) -> Memory {
    let mut findings = node.findings.iter();
    let Some(finding) = findings.find(|finding| finding.topic == "persistence") else {
        return Memory::Unknown;
    };
    let figure = |name| finding.figures.get(name);
    match (figure("append_only"), figure("fsync")) {
        (Some(Value::Bool(false)), _) => Memory::Forgets,
        (Some(Value::Bool(true)), Some(fsync)) if fsync == "always" => Memory::Keeps,
        (Some(Value::Bool(true)), Some(_)) => Memory::KeepsBut,
        _ => Memory::Unknown,
    }
}

/// A server that comes back without its data votes for the next as if nobody had the lock.
fn restart(nodes: &[(String, Node)], delay: Duration) -> Finding {
    let of = |kind: Memory| -> Vec<&str> {
        let alike = nodes.iter().filter(|(_, node)| memory(node) == kind);
        alike.map(|(host, _)| host.as_str()).collect()
    };
    let (forget, but, unknown) = (
        of(Memory::Forgets),
        of(Memory::KeepsBut),
        of(Memory::Unknown),
    );
    let said = |hosts: &[&str], what: &str| format!("{} {what}", list(hosts, nodes.len()));
    let finding = if delay >= DEFAULT_TTL {
        let said = format!(
            "a restarted server does not vote for {} s",
            decimal(delay.as_secs_f64())
        );
        Finding::fine("restart", said)
    } else if !forget.is_empty() {
        two_can_hold(said(&forget, "a restart forgets votes"), delay)
    } else if !but.is_empty() {
        let what = "a power cut forgets votes (appendfsync is not always)";
        two_can_hold(said(&but, what), delay)
    } else if !unknown.is_empty() {
        let what = said(&unknown, "whether a restart forgets votes");
        Finding::unknown("restart", what)
    } else {
        Finding::fine("restart", "append-only files, fsync always")
    };
    finding.figure("delay_ms", delay.as_millis() as u64)
}

fn two_can_hold(mut what: String, delay: Duration) -> Finding {
    if !delay.is_zero() {
        let (delay, ttl) = (delay.as_millis(), DEFAULT_TTL.as_secs());
        what.push_str(&format!(
            ", and a restart_delay of {delay} ms is shorter than the usual TTL of {ttl} s"
        ));
    }
    Finding::caution("restart", Harm::Forgotten, what)
        .means("It then votes for the next while the lock is held: two can hold it.")
        .advice("?restart_delay=30s in the address (the longest TTL of all programs), or an append-only file with appendfsync always on each")
}

/// `all:` or their names.
fn list(hosts: &[&str], all: usize) -> String {
    match hosts.len() == all {
        true => "all:".to_owned(),
        false => format!("{}:", hosts.join(", ")),
    }
}

fn figure(node: &Node, topic: &str, name: &str) -> Option<f64> {
    let finding = node
        .findings
        .iter()
        .find(|finding| finding.topic == topic)?;
    finding.figures.get(name).and_then(Value::as_f64)
}

/// Of the slowest server; a majority of faster ones is enough, so that it may be the exception.
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

/// The fence of a server that lost its data goes on from the time of day.
fn clocks(nodes: &[(String, Node)]) -> Finding {
    let ahead: Vec<(f64, &str)> = nodes
        .iter()
        .filter_map(|(host, node)| Some((figure(node, "clock", "ahead_ms")?, host.as_str())))
        .collect();
    let by_time = |one: &&(f64, &str), other: &&(f64, &str)| one.0.total_cmp(&other.0);
    let (Some(first), Some(last)) = (ahead.iter().min_by(by_time), ahead.iter().max_by(by_time))
    else {
        return Finding::unknown("clock", "no user may ask for the TIME");
    };
    let apart = last.0 - first.0;
    let said = format!("clocks of the servers {} ms apart", decimal(apart));
    let finding = if apart < APART_MS {
        Finding::fine("clock", said)
    } else {
        Finding::caution("clock", Harm::FenceFalls, format!("{said} ({} and {})", first.1, last.1))
            .means("A server that comes back without its data counts fences on from its clock: they can fall.")
            .advice("a time service on all of them, which slews")
    };
    finding.figure("apart_ms", (apart * 1e3).round() / 1e3)
}

/// What each has by itself, once where several have the same.
fn of_each(nodes: &[(String, Node)], all: usize) -> Vec<Finding> {
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
        .filter(|(finding, _)| finding.harm() == Some(Harm::NoLocks))
        .flat_map(|(_, hosts)| hosts.iter().copied())
        .collect::<BTreeSet<&str>>()
        .len();
    let is_enough = all - nodes.len() + without_vote <= may_be_lost;
    let told = |(finding, hosts): (Finding, Vec<&str>)| {
        let finding = of_one_among_several(finding, is_enough);
        let is_plain = finding.severity == Severity::Fine && hosts.len() == nodes.len();
        let what = match is_plain {
            true => finding.what.clone(),
            false => format!("{} {}", list(&hosts, nodes.len()), finding.what),
        };
        finding.saying(what)
    };
    groups.into_iter().map(told).collect()
}

/// What keeps one server from holding locks costs a vote. Only what [`Redlock::open`] refuses, or too few others, keeps all locks away.
fn of_one_among_several(finding: Finding, others_are_enough: bool) -> Finding {
    if finding.harm() != Some(Harm::NoLocks) {
        return finding;
    }
    if REFUSED.contains(&finding.topic) {
        return finding.means("Fencepost refuses an address with such a server.");
    }
    match others_are_enough {
        true => finding.only(Harm::Hampered).means("It does not vote."),
        false => finding.means("Too few others are left to agree: no lock can be taken."),
    }
}

/// A clock that is set is a matter of that server; one that is off is a matter of all.
fn jumped(finding: &Finding) -> bool {
    finding.topic == "clock" && finding.is_trouble() && finding.what.contains("jumped")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_shown_without_what_is_secret() {
        assert_eq!(host("redis://shop:p%40@cache:7001/4"), "cache:7001");
        assert_eq!(host("redis://[::1]:3"), "[::1]:3");
    }

    #[test]
    fn an_odd_number_of_three_or_more() {
        let severities = [2, 3, 4, 5].map(|all| number(all).severity);
        let [few, odd, even, more] = severities;
        assert_eq!((few, even), (Severity::Danger, Severity::Caution));
        assert_eq!((odd, more), (Severity::Fine, Severity::Fine));
    }

    fn node(identity: Option<&str>, findings: Vec<Finding>) -> Node {
        Node {
            patient: String::new(),
            identity: identity.map(str::to_owned),
            findings,
        }
    }

    fn named(nodes: Vec<Node>) -> Vec<(String, Node)> {
        let name = |(at, node)| (format!("h{at}"), node);
        nodes.into_iter().enumerate().map(name).collect()
    }

    #[test]
    fn who_cannot_be_told_apart_does_not_hide_who_is_the_same() {
        let nodes = |ids: [Option<&str>; 3]| named(ids.map(|id| node(id, vec![])).into());
        let same = apart(&nodes([None, Some("a"), Some("a")]));
        assert_eq!(same.severity, Severity::Danger);
        assert!(same.what.contains("h1 and h2"), "{}", same.what);
        let unknown = apart(&nodes([None, Some("a"), Some("b")]));
        assert_eq!(unknown.severity, Severity::Unknown);
        let fine = apart(&nodes([Some("c"), Some("a"), Some("b")]));
        assert_eq!(fine.severity, Severity::Fine);
    }

    #[test]
    fn a_server_that_cannot_hold_locks_costs_a_vote() {
        let full = || Finding::danger("disk", Harm::NoLocks, "full");
        let nodes = |broken: usize, count: usize, finding: &dyn Fn() -> Finding| {
            let own = |at| (at < broken).then(finding).into_iter().collect();
            named((0..count).map(|at| node(None, own(at))).collect())
        };
        let severity = |nodes: &[(String, Node)], all| of_each(nodes, all)[0].severity;
        assert_eq!(severity(&nodes(1, 3, &full), 3), Severity::Caution);
        assert_eq!(severity(&nodes(2, 3, &full), 3), Severity::Danger);
        // One is silent, too.
        assert_eq!(severity(&nodes(1, 2, &full), 3), Severity::Danger);
        assert_eq!(severity(&nodes(2, 5, &full), 5), Severity::Caution);
        let replica = || Finding::danger("replica", Harm::NoLocks, "of another");
        assert_eq!(severity(&nodes(1, 3, &replica), 3), Severity::Danger);
    }

    #[test]
    fn votes_are_kept_or_the_forgetful_wait() {
        let kept = |fsync: &str| {
            let finding = Finding::fine("persistence", "").figure("append_only", true);
            finding.figure("fsync", fsync)
        };
        let off = Finding::fine("persistence", "").figure("append_only", false);
        let all = |finding: &Finding| named(vec![node(None, vec![finding.clone()])]);
        let told = |nodes: &[(String, Node)], delay_ms| {
            restart(nodes, Duration::from_millis(delay_ms)).severity
        };
        assert_eq!(told(&all(&kept("always")), 0), Severity::Fine);
        assert_eq!(told(&all(&kept("everysec")), 0), Severity::Caution);
        assert_eq!(told(&all(&off), 1), Severity::Caution);
        assert_eq!(told(&all(&off), 10_000), Severity::Fine);
        let silent = named(vec![node(None, vec![])]);
        assert_eq!(told(&silent, 0), Severity::Unknown);
    }

    #[test]
    fn clocks_that_are_apart_are_told() {
        let clock = |ahead: f64| Finding::fine("clock", "").figure("ahead_ms", ahead);
        let nodes =
            |ahead: [f64; 2]| named(ahead.map(|ahead| node(None, vec![clock(ahead)])).into());
        assert_eq!(clocks(&nodes([-3.0, 400.0])).severity, Severity::Fine);
        assert_eq!(clocks(&nodes([-600.0, 600.0])).severity, Severity::Caution);
    }
}
