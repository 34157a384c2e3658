//! When a process could not reach its store as usual: its road was cut or long, or a server was out of action. Checks look here before they
//! blame a lock of a storm for something that its process could not do, or could not learn.

use std::collections::HashMap;

use super::{Checks, with_slack};
use crate::history::Fault;
use crate::holds::facts::{Facts, FaultSeen, Mark, ServerChange};
use crate::holds::storm::process_of;

/// From when to when something lasted.
type Span = (u64, u64);

/// When requests could not be carried out as usual.
#[derive(Debug)]
pub(super) struct Reach {
    /// For each process, through all of its lives: the road belongs to the process.
    roads: HashMap<String, Vec<Span>>,
    servers: Vec<Span>,
}

impl Reach {
    pub(super) fn of(facts: &Facts) -> Self {
        Self {
            roads: roads(facts),
            servers: servers(facts),
        }
    }
}

fn roads(facts: &Facts) -> HashMap<String, Vec<Span>> {
    let mut roads: HashMap<String, Vec<Span>> = HashMap::new();
    for FaultSeen { mark, who, fault } in &facts.faults {
        let own = || process_of(who).0.to_owned();
        match fault {
            Fault::CutOff
            | Fault::RepliesCut
            | Fault::RequestsCut
            | Fault::Slowed
            | Fault::Distant
            | Fault::ConnectionsDead => {
                roads.entry(own()).or_default().push((mark.at_ns, u64::MAX));
            }
            Fault::Reconnected => end(roads.entry(own()).or_default().iter_mut(), *mark),
            _ => {}
        }
    }
    roads
}

fn servers(facts: &Facts) -> Vec<Span> {
    let mut all: Vec<(&str, Span)> = Vec::new();
    for ServerChange {
        mark,
        server,
        change,
    } in &facts.servers
    {
        if change.begins_outage() {
            all.push((server, (mark.at_ns, u64::MAX)));
        } else if change.ends_outage() {
            let own = all.iter_mut().filter(|(name, _)| name == server);
            end(own.map(|(_, span)| span), *mark);
        }
    }
    all.into_iter().map(|(_, span)| span).collect()
}

/// Ends what still lasts.
fn end<'a>(spans: impl Iterator<Item = &'a mut Span>, mark: Mark) {
    for (_, until_ns) in spans {
        *until_ns = mark.at_ns.min(*until_ns);
    }
}

impl Checks<'_> {
    /// Returns whether the lab came between this process and its store, or a server was out of action, at any moment between these times.
    /// That counts for a while longer than it lasts: whoever had to connect again may have waited before it did.
    pub fn was_out_of_reach(&self, who: &str, from_ns: u64, until_ns: u64) -> bool {
        self.is_touched(who, from_ns, until_ns, with_slack(self.ttl_ns))
    }

    /// Returns the same for the faults alone, without the time that they count longer than they last.
    pub fn is_out_of_reach(&self, who: &str, from_ns: u64, until_ns: u64) -> bool {
        self.is_touched(who, from_ns, until_ns, 0)
    }

    fn is_touched(&self, who: &str, from_ns: u64, until_ns: u64, lingers_ns: u64) -> bool {
        let own = self.reach.roads.get(process_of(who).0);
        let mut all = own.into_iter().flatten().chain(&self.reach.servers);
        all.any(|(began_ns, ended_ns)| {
            *began_ns < until_ns && ended_ns.saturating_add(lingers_ns) > from_ns
        })
    }

    /// Returns every cut that had an end: the process, from when, and until when.
    pub fn cuts(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        let began = self.facts.faults.iter();
        let began = began.filter(|seen| seen.fault == Fault::CutOff);
        began.filter_map(|seen| {
            let own = self.reach.roads.get(process_of(&seen.who).0)?;
            let mut own = own.iter();
            let (from_ns, until_ns) = own.find(|(from_ns, _)| *from_ns == seen.mark.at_ns)?;
            (*until_ns < u64::MAX).then_some((seen.who.as_str(), *from_ns, *until_ns))
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::history::{Change, Fault};
    use crate::holds::Scenario;
    use crate::holds::by_hand::HistoryBuilder;
    use crate::holds::check::Checks;

    fn touched(history: &HistoryBuilder, who: &str, from_ms: u64, until_ms: u64) -> bool {
        let (header, facts) = (history.header(), history.facts());
        let checks = Checks::of(&header, &facts);
        checks.was_out_of_reach(who, from_ms * 1_000_000, until_ms * 1_000_000)
    }

    /// With a TTL of one second, a fault counts for two seconds more.
    #[test]
    fn a_cut_concerns_its_process_in_all_of_its_lives() {
        let cut = HistoryBuilder::of(Scenario::Storm)
            .fault("A", 5_000.0, Fault::CutOff)
            .fault("A", 5_100.0, Fault::Killed)
            .fault("A.2", 6_000.0, Fault::Reconnected);
        for who in ["A", "A.2", "A.3"] {
            assert!(touched(&cut, who, 5_500, 5_600), "{who}");
            assert!(touched(&cut, who, 7_900, 9_000), "{who}");
            assert!(!touched(&cut, who, 8_100, 9_000), "{who}");
            assert!(!touched(&cut, who, 4_000, 4_900), "{who}");
        }
        assert!(!touched(&cut, "B", 5_500, 5_600));
        let (header, facts) = (cut.header(), cut.facts());
        let checks = Checks::of(&header, &facts);
        assert!(checks.is_out_of_reach("A", 5_500_000_000, 7_000_000_000));
        assert!(!checks.is_out_of_reach("A", 6_000_000_001, 7_000_000_000));
        let (header, facts) = (cut.header(), cut.facts());
        let checks = Checks::of(&header, &facts);
        let cuts: Vec<_> = checks.cuts().collect();
        assert_eq!(cuts, [("A", 5_000_000_000, 6_000_000_000)]);
    }

    #[test]
    fn an_outage_concerns_everybody_until_the_same_server_is_back() {
        let outage = HistoryBuilder::of(Scenario::Storm)
            .server("first server", 5_000.0, Change::Stopped)
            .server("second server", 5_200.0, Change::Killed)
            .server("first server", 5_300.0, Change::Continued);
        assert!(touched(&outage, "A", 99_000, 99_001), "the second is dead");
        let outage = outage.server("second server", 6_000.0, Change::Restarted);
        assert!(touched(&outage, "A", 7_900, 9_000));
        assert!(!touched(&outage, "A", 8_100, 9_000));
    }
}
