use super::super::finding::{Finding, Harm, Severity};
use super::*;

/// Returns readings of as many servers as there are nodes, none of them silent.
fn readings(nodes: Vec<(String, Node)>) -> Readings {
    Readings {
        all: nodes.len(),
        nodes,
        silent: Vec::new(),
        restart_delay: Duration::ZERO,
    }
}

fn found(readings: &Readings, topic: &str) -> Finding {
    let votes = apply(VOTE_CHECKS, readings).into_iter();
    let mut findings = votes.chain(apply(CLOCK_CHECKS, readings));
    findings.find(|finding| finding.topic == topic).unwrap()
}

#[test]
fn a_host_is_shown_without_what_is_secret() {
    assert_eq!(host("redis://shop:p%40@cache:7001/4"), "cache:7001");
    assert_eq!(host("redis://[::1]:3"), "[::1]:3");
}

#[test]
fn an_odd_number_of_three_or_more() {
    let severities = [2, 3, 4, 5].map(|all| {
        let readings = Readings {
            all,
            ..readings(Vec::new())
        };
        found(&readings, "servers").severity
    });
    let [few, odd, even, more] = severities;
    assert_eq!((few, even), (Severity::Danger, Severity::Caution));
    assert_eq!((odd, more), (Severity::Fine, Severity::Fine));
}

fn node(identity: Option<&str>, findings: Vec<Finding>) -> Node {
    Node {
        server: String::new(),
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
    let apart = |ids: [Option<&str>; 3]| {
        let nodes = named(ids.map(|id| node(id, vec![])).into());
        found(&readings(nodes), "independence")
    };
    let same = apart([None, Some("a"), Some("a")]);
    assert_eq!(same.severity, Severity::Danger);
    assert!(same.what.contains("h1 and h2"), "{}", same.what);
    let unknown = apart([None, Some("a"), Some("b")]);
    assert_eq!(unknown.severity, Severity::Unknown);
    let fine = apart([Some("c"), Some("a"), Some("b")]);
    assert_eq!(fine.severity, Severity::Fine);
}

#[test]
fn a_server_that_cannot_hold_locks_costs_a_vote() {
    let full = || Finding::danger("disk", Harm::NoLocks, "full");
    let nodes = |broken: usize, count: usize, finding: &dyn Fn() -> Finding| {
        let own = |at| (at < broken).then(finding).into_iter().collect();
        named((0..count).map(|at| node(None, own(at))).collect())
    };
    let severity = |nodes: Vec<(String, Node)>, all| {
        let readings = Readings {
            all,
            ..readings(nodes)
        };
        each::findings(&readings)[0].severity
    };
    assert_eq!(severity(nodes(1, 3, &full), 3), Severity::Caution);
    assert_eq!(severity(nodes(2, 3, &full), 3), Severity::Danger);
    // One is silent, too.
    assert_eq!(severity(nodes(1, 2, &full), 3), Severity::Danger);
    assert_eq!(severity(nodes(2, 5, &full), 5), Severity::Caution);
    let replica = || Finding::danger("replica", Harm::NoLocks, "of another");
    assert_eq!(severity(nodes(1, 3, &replica), 3), Severity::Danger);
}

#[test]
fn votes_are_kept_or_the_forgetful_wait() {
    let kept = |fsync: &str| {
        let finding = Finding::fine("persistence", "").figure("append_only", true);
        finding.figure("fsync", fsync)
    };
    let off = Finding::fine("persistence", "").figure("append_only", false);
    let all = |finding: &Finding| named(vec![node(None, vec![finding.clone()])]);
    let severity = |nodes: Vec<(String, Node)>, delay_ms| {
        let readings = Readings {
            restart_delay: Duration::from_millis(delay_ms),
            ..readings(nodes)
        };
        found(&readings, "restart").severity
    };
    assert_eq!(severity(all(&kept("always")), 0), Severity::Fine);
    assert_eq!(severity(all(&kept("everysec")), 0), Severity::Caution);
    assert_eq!(severity(all(&off), 1), Severity::Caution);
    assert_eq!(severity(all(&off), 10_000), Severity::Fine);
    let silent = named(vec![node(None, vec![])]);
    assert_eq!(severity(silent, 0), Severity::Unknown);
}

#[test]
fn clocks_that_are_apart_are_told() {
    let clock = |ahead: f64| Finding::fine("clock", "").figure("ahead_ms", ahead);
    let nodes = |ahead: [f64; 2]| named(ahead.map(|ahead| node(None, vec![clock(ahead)])).into());
    assert_eq!(
        found(&readings(nodes([-3.0, 400.0])), "clock").severity,
        Severity::Fine
    );
    assert_eq!(
        found(&readings(nodes([-600.0, 600.0])), "clock").severity,
        Severity::Caution
    );
}
