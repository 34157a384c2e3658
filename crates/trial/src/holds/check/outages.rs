//! Times in which servers were out of action and came back with everything that they had: stopped, or dead and started again. Such a server
//! forgets nothing, so it excuses no second holder within a lease.

use super::progress::StuckBy;
use super::{Checks, Stuck, nanoseconds, with_slack};
use crate::history::Change;
use crate::holds::facts::{Facts, Hold, Mark, ServerChange, Wait, WaitEnd};
use crate::protocol::ReleaseResult;

/// A time in which servers were out of action, all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outage<'a> {
    /// The servers.
    pub servers: Vec<&'a str>,
    /// When the last of them was seen to be stopped or dead.
    pub from: Mark,
    /// When the first of them answered again, or was about to be started again.
    pub until: Mark,
    /// Whether the lab saw that they answered nobody: they were dead, or did not answer a request of the lab.
    pub is_silent: bool,
}

impl Outage<'_> {
    /// Returns how long it certainly lasted.
    pub fn lasted_ns(&self) -> u64 {
        self.until.at_ns.saturating_sub(self.from.at_ns)
    }

    /// Returns whether this hold was granted before it, and not given up before its end.
    pub fn is_during(&self, hold: &Hold) -> bool {
        hold.granted < self.from && hold.unquestioned_until_ns() > self.until.at_ns
    }

    /// Returns whether this was asked while it lasted.
    pub fn contains(&self, asked: Mark) -> bool {
        self.from < asked && asked < self.until
    }
}

/// Returns every outage that had an end, in order.
pub(super) fn outages(facts: &Facts) -> Vec<Outage<'_>> {
    let mut all = Vec::new();
    let mut open: Vec<(&str, Mark, Change)> = Vec::new();
    let mut silent: Vec<&str> = Vec::new();
    for ServerChange {
        mark,
        server,
        change,
    } in &facts.servers
    {
        match change {
            Change::Silent => silent.push(server),
            change if change.begins_outage() => open.push((server, *mark, *change)),
            change if change.ends_outage() => {
                let Some(from) = open.iter().map(|(_, mark, _)| *mark).max() else {
                    continue;
                };
                let is_silent = open.iter().all(|(server, _, change)| {
                    *change == Change::Killed || silent.contains(server)
                });
                all.push(Outage {
                    servers: open.drain(..).map(|(server, ..)| server).collect(),
                    from,
                    until: *mark,
                    is_silent,
                });
                silent.clear();
            }
            _ => {}
        }
    }
    all
}

/// Returns when something first happened to a server after which it may have lost what it had.
pub(super) fn first_failure_ns(facts: &Facts) -> Option<u64> {
    let is_loss = |changed: &ServerChange| match changed.change {
        Change::Stopped
        | Change::Silent
        | Change::Continued
        | Change::Restarted
        | Change::LivesOn
        // It has what a majority had written.
        | Change::Elected => false,
        // It has its data when it is started again.
        Change::Killed => {
            let mut later = facts.servers.iter();
            let next = later.find(|next| next.mark > changed.mark && next.server == changed.server);
            next.is_none_or(|next| next.change != Change::Restarted)
        }
        _ => true,
    };
    let losses = facts.servers.iter().filter(|changed| is_loss(changed));
    losses.map(|changed| changed.mark.at_ns).min()
}

impl<'a> Checks<'a> {
    /// Returns every outage that had an end, in order.
    pub fn outages(&self) -> &[Outage<'a>] {
        &self.outages
    }

    /// Returns whether servers were out of action at any moment between these times. Then a session may have ended, or a lease may not have
    /// been renewed.
    pub fn had_outage(&self, from_ns: u64, until_ns: u64) -> bool {
        let mut all = self.facts.servers.iter();
        let began = all.any(|changed| {
            let at_ns = changed.mark.at_ns;
            changed.change.begins_outage() && at_ns > from_ns && at_ns < until_ns
        });
        let mut all = self.outages.iter();
        began || all.any(|outage| outage.from.at_ns < until_ns && outage.until.at_ns > from_ns)
    }

    /// Returns the wait of whoever asked last, after every outage, and since when nobody else had that lock; `None` if somebody may still
    /// have it.
    pub fn wait_after_outages(&self) -> Option<(&'a Wait, u64)> {
        let back = self.outages.last()?.until;
        let waits = self.facts.waits.iter();
        let last = waits.max_by_key(|wait| wait.asked)?;
        let (answered, end) = last.answer.filter(|_| last.asked > back)?;
        let mut since_ns = last.asked.at_ns;
        let others = self.facts.holds.iter().filter(|hold| hold.key == last.key);
        for hold in others.filter(|hold| hold.who != last.who && hold.granted < answered) {
            since_ns = since_ns.max(self.over_ns(hold, answered, end)?);
        }
        // Whoever was told of an error may have the lock for as long as a lease.
        let failed = self.facts.waits.iter().filter(|wait| wait.key == last.key);
        let failed = failed.filter_map(|wait| wait.answer);
        for (mark, _) in failed.filter(|(_, end)| *end == WaitEnd::Unknown) {
            since_ns = since_ns.max(mark.at_ns);
        }
        Some((last, since_ns))
    }

    /// Returns when a hold was over, by the time at which somebody else got this answer: it was released, or, if the other got the lock, its
    /// lease had ended. `None` if its process may still have it. Where the moment is not known, it is the latest possible one.
    fn over_ns(&self, hold: &Hold, answered: Mark, end: WaitEnd) -> Option<u64> {
        match hold.released {
            Some((mark, outcome)) if mark < answered => {
                let is_known = outcome != ReleaseResult::Unknown || !self.claims.untimed;
                is_known.then_some(mark.at_ns)
            }
            _ if end == WaitEnd::Granted && !self.claims.untimed => {
                Some(self.ended_unreleased_ns(hold, answered))
            }
            _ => None,
        }
    }

    /// Returns when a hold was over that was not known to be released when somebody else got the lock. A release may have taken effect
    /// before its answer arrived, and a renewed lease lasts until its process knows better.
    fn ended_unreleased_ns(&self, hold: &Hold, answered: Mark) -> u64 {
        let lease_ns = hold.asked.at_ns.saturating_add(self.ttl_ns);
        let ends = [hold.learned_at, hold.killed].into_iter().flatten();
        let known = ends.filter(|end| *end < answered).min();
        let ended_ns = match known {
            _ if hold.release.is_some_and(|release| release < answered) => answered.at_ns,
            Some(known) => known.at_ns.max(lease_ns),
            None if self.claims.keep_alive => answered.at_ns,
            None => lease_ns,
        };
        ended_ns.min(answered.at_ns)
    }

    /// Returns how long the lock may stay taken after an outage when nobody has it: a lease, or the claimed recovery, and some slack.
    /// `None` for a lock that has no lease and promises nothing.
    pub fn bound_after_outage_ns(&self) -> Option<u64> {
        let claimed_ns = self.claims.recovery_ms.map(nanoseconds);
        match claimed_ns {
            None if self.claims.untimed => None,
            claimed_ns => Some(with_slack(self.ttl_ns.max(claimed_ns.unwrap_or(0)))),
        }
    }

    /// Returns a lock that nobody could take for three TTLs although the servers were back and nobody had it.
    pub(super) fn stuck_after_outage(&self) -> Option<Stuck> {
        let (wait, since_ns) = self.wait_after_outages()?;
        let refused = wait.refused()?;
        let lasted_ns = refused.at_ns.saturating_sub(since_ns);
        let proven = self.counts_as_stuck(lasted_ns)
            && self.has_had_its_time(lasted_ns)
            && self.could_notice(wait, refused, since_ns, 0)
            && self.looks_stuck();
        let since = self.outages.last()?.until;
        proven.then(|| Stuck {
            since,
            refused: vec![(wait.who.clone(), refused)],
            lasted_ns,
            by: StuckBy::Outage,
        })
    }
}
