//! The rules for the Redis servers of a Redlock address, of which a majority decides.

use std::collections::BTreeMap;
use std::time::Duration;

use fencepost::DEFAULT_TTL;
use fencepost_trial::text::numbers::{decimal, plural};
use serde_json::Value;

use super::super::finding::Harm;
use super::super::redis::Node;
use super::super::rules::{self, Check, no_figures};
use super::{Readings, figure};

type Rule = rules::Rule<Readings>;

/// With fewer servers, no majority is left after the loss of one.
const FEWEST: usize = 3;
/// The difference between two clocks from which it is a caution.
const APART_MS: f64 = 1_000.0;

/// Checks whether a majority can be trusted.
pub(in super::super) const VOTE_CHECKS: &[Check<Readings>] = &[
    Check {
        topic: "servers",
        reads: "the address",
        rules: &[
            Rule::danger(Harm::NoLocks, "fewer than three")
                .when(|read| read.all < FEWEST)
                .say_with(|read| format!("{}: at least three are required", plural(read.all, "server", "servers")))
                .means("With so few, no majority is left after the loss of one: Fencepost refuses such an address.")
                .advise("use three independent servers, or one with redis://"),
            Rule::caution(Harm::Hampered, "an even number")
                .when(|read| read.all.is_multiple_of(2))
                .say_with(|read| {
                    let (all, lost) = (read.all, may_be_lost(read));
                    format!("an even number, {all}: {lost} may be lost, as with {}", all - 1)
                })
                .means("The last server costs a request and can fail like the others, but does not make the locks more available.")
                .advise("use an odd number"),
            Rule::fine().say_with(|read| format!("{} servers, {} may be lost", read.all, may_be_lost(read))),
        ],
        figures: |read| vec![("servers", read.all.into())],
    },
    Check {
        topic: "majority",
        reads: "which servers answer",
        rules: &[
            Rule::danger(Harm::NoLocks, "too few answer")
                .when(|read| there(read) < needed(read))
                .say_with(silent)
                .means_with(|read| format!("{} must agree: no lock can be taken.", needed(read)))
                .advise("start them again"),
            Rule::caution(Harm::Hampered, "some do not answer")
                .when(|read| !read.silent.is_empty())
                .say_with(silent)
                .means_with(|read| match there(read) - needed(read) {
                    0 => "If another one is lost, no lock can be taken.".to_owned(),
                    left => format!("{left} more may be lost."),
                })
                .advise("start them again"),
            Rule::fine().say("all answer"),
        ],
        figures: |read| vec![("answering", there(read).into())],
    },
    Check {
        topic: "independence",
        reads: "the `run_id` of each",
        // A server with two addresses would vote twice.
        rules: &[
            Rule::danger(Harm::NoLocks, "two addresses lead to one server")
                .finds(the_same)
                .means("It votes twice, and its loss counts twice. Fencepost refuses such an address; other clients can give one lock to two holders.")
                .advise("run a separate server for each address, on a separate machine"),
            Rule::unknown().finds(|read| {
                let hosts = hosts(read, |node| node.identity.is_none());
                let hosts = (!hosts.is_empty()).then(|| hosts.join(", "))?;
                Some(format!("whether {hosts} are separate servers: the user may not run INFO"))
            }),
            Rule::fine().say("all are separate servers"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "restart",
        reads: "the persistence of each, `restart_delay` in the address",
        // A server that restarts without its data votes for the next client as if the lock were free.
        rules: &[
            Rule::fine().when(|read| read.restart_delay >= DEFAULT_TTL).say_with(|read| {
                let delay = decimal(read.restart_delay.as_secs_f64());
                format!("a restarted server does not vote for {delay} s")
            }),
            Rule::caution(
                Harm::Forgotten,
                "a server forgets votes when it restarts, and the address has no `restart_delay`, or one below the default TTL of 10 s",
            )
            .finds(|read| two_can_hold(read, Memory::Forgets, "a restart forgets votes"))
            .means(TWO_CAN_HOLD)
            .advise(KEEP_VOTES),
            Rule::caution(Harm::Forgotten, "a server forgets votes in a power cut (anything but `appendfsync always`), and the `restart_delay` is missing or too short")
                .finds(|read| two_can_hold(read, Memory::KeepsBut, "a power cut forgets votes (appendfsync is not always)"))
                .means(TWO_CAN_HOLD)
                .advise(KEEP_VOTES),
            Rule::unknown().finds(|read| of_memory(read, Memory::Unknown, "whether a restart forgets votes")),
            Rule::fine().say("append-only files, fsync always"),
        ],
        figures: |read| vec![("delay_ms", (read.restart_delay.as_millis() as u64).into())],
    },
];

const TWO_CAN_HOLD: &str =
    "After that it can vote for another client while the lock is held: two clients can hold it.";
const KEEP_VOTES: &str = "add ?restart_delay=30s to the address (the longest TTL of all programs), or use an append-only file with appendfsync always on each server";

/// Checks whether fences of different servers can be compared: a server that lost its data continues its fences from its clock.
pub(in super::super) const CLOCK_CHECKS: &[Check<Readings>] = &[Check {
    topic: "clock",
    reads: "`TIME` of each",
    rules: &[
        Rule::unknown()
            .when(|read| extremes(read).is_none())
            .say("the user may not call TIME on any server"),
        Rule::caution(Harm::FenceFalls, "a second or more between the clocks of two servers")
            .finds(|read| {
                let [first, last] = extremes(read)?;
                let is_apart = last.0 - first.0 >= APART_MS;
                is_apart.then(|| format!("{} ({} and {})", apart(read), first.1, last.1))
            })
            .means("A server that restarts without its data continues its fences from its clock: they can fall.")
            .advise("run a time service on all of them that slews the clock"),
        Rule::fine().say_with(apart),
    ],
    figures: |read| {
        let apart = extremes(read).map(|[first, last]| last.0 - first.0);
        let figure = apart.map(|apart| ("apart_ms", ((apart * 1e3).round() / 1e3).into()));
        figure.into_iter().collect()
    },
}];

fn may_be_lost(read: &Readings) -> usize {
    (read.all - 1) / 2
}

fn needed(read: &Readings) -> usize {
    read.all / 2 + 1
}

fn there(read: &Readings) -> usize {
    read.all - read.silent.len()
}

fn silent(read: &Readings) -> String {
    let silent = read.silent.iter();
    let silent = silent.map(|(host, gone)| format!("{host} ({})", gone.words()));
    let silent: Vec<String> = silent.collect();
    format!(
        "{} of {} answer; no answer from {}",
        there(read),
        read.all,
        silent.join(", ")
    )
}

fn hosts(read: &Readings, which: impl Fn(&Node) -> bool) -> Vec<&str> {
    let nodes = read.nodes.iter().filter(|(_, node)| which(node));
    nodes.map(|(host, _)| host.as_str()).collect()
}

fn the_same(read: &Readings) -> Option<String> {
    let mut identities: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (host, node) in &read.nodes {
        if let Some(identity) = node.identity.as_deref() {
            identities.entry(identity).or_default().push(host);
        }
    }
    let same = identities.values().find(|hosts| hosts.len() > 1)?;
    Some(format!("{} are the same server", same.join(" and ")))
}

/// What a server remembers of its votes after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Memory {
    /// All votes.
    Keeps,
    /// All votes, except after a power cut.
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

/// Returns `what`, preceded by the hosts with this kind of memory; `None` if there are none.
fn of_memory(read: &Readings, kind: Memory, what: &str) -> Option<String> {
    let hosts = hosts(read, |node| memory(node) == kind);
    (!hosts.is_empty()).then(|| format!("{} {what}", list(&hosts, read.nodes.len())))
}

fn two_can_hold(read: &Readings, kind: Memory, what: &str) -> Option<String> {
    let mut what = of_memory(read, kind, what)?;
    if read.restart_delay > Duration::ZERO {
        let (delay, ttl) = (read.restart_delay.as_millis(), DEFAULT_TTL.as_secs());
        what.push_str(&format!(
            ", and a restart_delay of {delay} ms is shorter than the default TTL of {ttl} s"
        ));
    }
    Some(what)
}

/// Returns the hosts followed by a colon, or `all:` if these are all servers.
pub(super) fn list(hosts: &[&str], all: usize) -> String {
    if hosts.len() == all {
        "all:".to_owned()
    } else {
        format!("{}:", hosts.join(", "))
    }
}

/// Returns the clocks that are furthest behind and furthest ahead, in ms, with their hosts.
fn extremes(read: &Readings) -> Option<[(f64, &str); 2]> {
    let mut clocks: Vec<(f64, &str)> = Vec::new();
    for (host, node) in &read.nodes {
        clocks.extend(figure(node, "clock", "ahead_ms").map(|ahead| (ahead, host.as_str())));
    }
    clocks.sort_by(|one, other| one.0.total_cmp(&other.0));
    Some([*clocks.first()?, *clocks.last()?])
}

fn apart(read: &Readings) -> String {
    let apart = extremes(read).map_or(0.0, |[first, last]| last.0 - first.0);
    format!("clocks of the servers {} ms apart", decimal(apart))
}
