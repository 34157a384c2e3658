//! Judges `server-clock` and `eviction`: a server that lives on ended A's lease before its time, because its clock jumped forward, or because
//! it evicted the lock. Did B get in, and what became of A's write? `taken-away` asks the same, after its own question.

use super::cause::Cause;
use super::overlap::{overlap_evidence, two_at_once, two_holders};
use super::server_loss::{believed_until, fenced, guilty_overlaps};
use super::{Court, evidence};
use crate::history::Change;
use crate::holds::check::Overlap;
use crate::holds::facts::{Hold, Mark, Op};
use crate::holds::{FIRST_LOCK, HOLDER, OTHER};
use crate::protocol::Action;
use crate::text::capital;
use crate::text::numbers::ms;
use crate::verdict::{Evidence, Lack, Outcome, Verdict};

const WHY_CLOCK: &str =
    "The server ends a lease by its time of day: when that jumps, every lease may end at once.";
const WHY_TAKEN_AWAY: &str = "The store no longer had the lock, so B got it while A still worked.";
const WHY_DEPOSED: &str =
    "The old primary tells A nothing: only its confirmations that do not come could, or a fence.";
const WHY_UNTOLD: &str = "Another process has the lock, and A goes on as if nothing had happened: whoever keeps a lock alive must ask whether it still has it.";
const WHY_EVICTED: &str =
    "A server that may evict any key evicts a held lock like anything else, and tells nobody.";

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let loss = ServerLoss::of(court);
    let guilty = guilty_overlaps(court, loss.as_ref().map(|loss| loss.at));
    let claims = court.claims;
    let is_covered = claims.fencing
        || claims.keep_alive && court.facts.stalls.is_empty()
        || claims.untimed && (!claims.belongs_to_session() || court.facts.stalls.is_empty())
        || court.checks.is_damaged_while_leased();
    if !guilty.is_empty() || court.is_damaged() && is_covered {
        return broken(court, &guilty, loss.as_ref());
    }
    if let Some(overrun) = court.overrun().filter(|_| court.is_damaged()) {
        return overrun;
    }
    let Some(loss) = loss else {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: the server was not seen to end A's lease.",
            Lack::Loss,
            "a server that keeps the lock, and that does what the trial is about.",
        );
    };
    let (Some(holder), Some(other)) = (
        court.facts.first_of_lock(HOLDER, FIRST_LOCK),
        court.facts.first_of_lock(OTHER, FIRST_LOCK),
    ) else {
        return court.unanswered();
    };
    if holder.granted > loss.at {
        return court.unanswered();
    }
    let last = court.facts.ops.iter().rev().find(|op| op.who == HOLDER);
    match (last, holder.learned_at) {
        (Some(op), _) if op.refused => refused(court, &loss, op, other),
        (_, Some(learned)) if learned > loss.at => {
            let is_lost = court.facts.is_without_lock(loss.server)
                || court.is_taken_over(holder, other)
                || court.checks.lasts_by_itself()
                || claims.keep_alive;
            match holder.decided() {
                Some(decided) if is_lost && loss.at < other.granted && other.granted < decided => {
                    declined(&loss, holder, learned, other)
                }
                _ => court.not_overtaken(),
            }
        }
        (Some(op), _) if op.action == Action::Write => kept_out(court, &loss, holder, other),
        _ => court.unanswered(),
    }
}

/// How the server lost the lock, as the lab saw it.
pub(super) struct ServerLoss<'a> {
    pub(super) at: Mark,
    server: &'a str,
    change: Change,
}

impl<'a> ServerLoss<'a> {
    pub(super) fn of(court: &'a Court<'_>) -> Option<Self> {
        let ended = court.facts.server_that(Change::ends_leases);
        let (at, server) = ended.or_else(|| court.facts.deposed())?;
        let mut changes = court.facts.servers.iter();
        let changed = changes.find(|changed| changed.mark == at)?;
        Some(Self {
            at,
            server,
            change: changed.change,
        })
    }

    /// Returns words such as "the server had set its clock forward".
    fn brief(&self) -> String {
        let what = match self.change {
            Change::Evicted => "had evicted its keys",
            Change::TakenAway => "had no locks any more",
            Change::Promoted => "had taken over while the old primary lived on",
            _ => "had set its clock forward",
        };
        format!("the {} {what}", self.server)
    }

    /// Returns words such as "A's lock was taken away, and B got it".
    pub(super) fn headline(&self) -> String {
        match self.change {
            Change::Promoted => format!("{}, and B got A's lock there", capital(&self.brief())),
            _ => "A's lock was taken away, and B got it".into(),
        }
    }

    /// Returns why A was not told, or too late.
    pub(super) fn why_untold(&self) -> &'static str {
        match self.change {
            Change::Promoted => WHY_DEPOSED,
            _ => WHY_UNTOLD,
        }
    }

    pub(super) fn evidence(&self) -> Evidence {
        let sentence = self.change.describe(self.server, false);
        evidence(self.at, "lab", "server", sentence)
    }

    /// Returns words such as "the server had evicted its keys 52.1 ms after A's grant".
    fn witness(&self, holder: Option<&Hold>) -> String {
        let granted_ns = holder.map_or(0, |hold| hold.granted.at_ns);
        format!(
            "{} {} ms after A's grant",
            self.brief(),
            ms(self.at.at_ns.saturating_sub(granted_ns))
        )
    }

    /// Returns what the lab read at this server between the loss and the grant to B.
    fn record_evidence(
        &self,
        court: &Court<'_>,
        overlap: Option<&Overlap<'_>>,
    ) -> Option<Evidence> {
        let granted = overlap?.second.granted;
        let mut looks = court.facts.inspections.iter().rev();
        let look = looks.find(|look| {
            let is_there = look.server.as_deref() == Some(self.server);
            is_there && self.at < look.mark && look.mark < granted
        })?;
        let record = if look.taken { "key there" } else { "no key" };
        let sentence = format!("the lab reads the {}: {record}", self.server);
        Some(evidence(look.mark, "lab", "store", sentence))
    }

    /// Returns why B got the lock, as far as the events show it.
    fn why(&self, court: &Court<'_>, overlap: Option<&Overlap<'_>>) -> Option<String> {
        if self.change == Change::Promoted {
            let left_ns = overlap.and_then(|overlap| Cause::of(court, overlap).lease_left_ns());
            return Some(match left_ns {
                Some(left_ns) => format!(
                    "The {} let B in within A's lease, which ran for at least {} ms more.",
                    self.server,
                    ms(left_ns)
                ),
                None => WHY_DEPOSED.into(),
            });
        }
        if court.facts.is_without_lock(self.server) {
            let why = match self.change {
                Change::Evicted => WHY_EVICTED,
                Change::TakenAway => WHY_TAKEN_AWAY,
                _ => WHY_CLOCK,
            };
            return Some(why.into());
        }
        let mut waits = court.facts.waits.iter();
        let refused = waits.any(|wait| {
            wait.who == OTHER && wait.refused().is_some_and(|refused| refused < self.at)
        });
        refused.then(|| {
            format!(
                "B was refused before {}, and got the lock after it.",
                self.brief()
            )
        })
    }
}

fn broken(court: &Court<'_>, overlaps: &[Overlap<'_>], loss: Option<&ServerLoss<'_>>) -> Verdict {
    let first = overlaps.first();
    // Only what came after the loss can come from it.
    let from_loss = loss.filter(|loss| first.is_none_or(|overlap| overlap.from_ns > loss.at.at_ns));
    let how = match from_loss {
        Some(loss) => format!(": {}", loss.brief()),
        None => ", and no server had done anything yet".into(),
    };
    let mut verdict = Verdict {
        evidence: from_loss
            .map(ServerLoss::evidence)
            .into_iter()
            .chain(from_loss.and_then(|loss| loss.record_evidence(court, first)))
            .chain(overlap_evidence(first))
            .chain(court.damage_evidence())
            .collect(),
        why: match from_loss {
            Some(loss) => loss.why(court, first),
            None => first.and_then(|overlap| Cause::of(court, overlap).why()),
        },
        next: court.suggest([fenced(court)]),
        ..Verdict::bare(
            Outcome::Broken,
            format!("{}{how}.{}", two_at_once(first), court.losses()),
        )
    };
    verdict.belief.text = first.map(two_holders);
    verdict
}

/// Returns the verdict on a run in which the resource refused the step with the older fence.
fn refused(court: &Court<'_>, loss: &ServerLoss<'_>, op: &Op, other: &Hold) -> Verdict {
    let witness = format!(
        "{}; B was granted it {} ms later",
        loss.witness(court.facts.first_of_lock(HOLDER, FIRST_LOCK)),
        ms(other.granted.at_ns.saturating_sub(loss.at.at_ns))
    );
    court.refused(op, witness)
}

/// Returns the verdict on a run in which A learned before it wrote that its lock was gone. It may have believed in it until then.
fn declined(loss: &ServerLoss<'_>, holder: &Hold, learned: Mark, other: &Hold) -> Verdict {
    let how = if holder.said_lost == Some(learned) {
        "A said so"
    } else {
        "A declined to go on"
    };
    let mut verdict = Verdict {
        witness: vec![format!(
            "{}; B was granted it at {} ms",
            loss.brief(),
            ms(other.granted.at_ns)
        )],
        limits: Some(format!(
            "{how} {} ms after that; a write before is not covered",
            ms(learned.at_ns.saturating_sub(loss.at.at_ns))
        )),
        ..Verdict::bare(
            Outcome::Held,
            "A stopped itself: it wrote nothing after its lock was lost.",
        )
    };
    verdict.belief.text = Some(believed_until(learned, other));
    verdict
}

/// Returns the verdict on a run in which B got the lock only after A had released it.
fn kept_out(court: &Court<'_>, loss: &ServerLoss<'_>, holder: &Hold, other: &Hold) -> Verdict {
    let release = holder.release.filter(|release| other.granted > *release);
    let (Some(release), true) = (release, other.asked > loss.at) else {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: B did not ask while A still held the lock.",
            Lack::Contention,
            "somebody who asks for the lock after the loss, before A releases it.",
        );
    };
    let spared = match loss.change {
        Change::Evicted => Some("the server has evicted its keys, but the lock was not among them"),
        Change::TakenAway => Some("the lab took every lock away, but this one was not among them"),
        _ => None,
    };
    if let Some(spared) = spared {
        return Verdict::inconclusive(
            format!("Nothing broke, and nothing was tested: {spared}."),
            Lack::Loss,
            "a lock that the server keeps.",
        );
    }
    Verdict {
        witness: vec![format!(
            "{}; B asked after that, and came in {} ms after A's release was sent",
            loss.witness(Some(holder)),
            ms(other.granted.at_ns.saturating_sub(release.at_ns))
        )],
        limits: Some(if court.claims.untimed {
            "the lock has no lease that a clock could end".into()
        } else {
            "one jump of one hour, and nobody died".to_owned()
        }),
        ..Verdict::bare(
            Outcome::Held,
            "A's lock did not end by the server's time of day: B got it only after A had released it.",
        )
    }
}
