//! Judges a failover in which A or B was not granted the lock. A lock that claims to survive a failover grants nothing that its replica does not
//! have, and rightly so.

use super::Court;
use super::lost_store::StoreFailure;
use crate::history::Change;
use crate::holds::facts::Mark;
use crate::holds::{FIRST_LOCK, HOLDER, OTHER};
use crate::text::numbers::ms;
use crate::verdict::{Outcome, Verdict};

pub(super) fn judge(court: &Court<'_>, failure: &StoreFailure<'_>) -> Verdict {
    let cut_off = court.facts.server_that(|change| change == Change::CutOff);
    let Some((cut_off, replica)) = cut_off.filter(|_| court.claims.survives) else {
        return court.unanswered();
    };
    if court.facts.first_of_lock(HOLDER, FIRST_LOCK).is_some() {
        return court.unanswered();
    }
    let Some(before) = court.facts.holds.iter().find(|held| held.granted < cut_off) else {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was shown: nobody was granted a lock while the replica listened, either.",
            "grant",
            "a lock that can be taken as long as its servers are in order; the notes say what happened.",
        );
    };
    let Some(refused) = refused(court, cut_off, failure.again) else {
        return court.unanswered();
    };
    let since = |mark: Mark| ms(mark.at_ns.saturating_sub(failure.again.at_ns));
    let other = court.facts.first_of_lock(OTHER, FIRST_LOCK);
    let afterwards = match other {
        Some(other) => format!(
            "B was granted it {} ms after the {} was there",
            since(other.granted),
            failure.new
        ),
        None => format!("nobody was granted it by the {}, either", failure.new),
    };
    Verdict {
        measured: vec![format!(
            "the refusal took {} ms",
            ms(refused.1.at_ns.saturating_sub(refused.0.at_ns))
        )],
        witness: vec![format!(
            "{} was granted {} while the {replica} listened; A was refused while it was cut off; then the {} died of signal 9, and {afterwards}",
            before.who, before.key, failure.dead
        )],
        limits: Some("nobody can take this lock while its replica is away, and the trial did not kill a server that had acknowledged a grant".into()),
        ..Verdict::bare(
            Outcome::Held,
            "It granted nothing that its replica did not have: A was refused, and there was no lock to lose.",
        )
    }
}

/// Returns A's request of the lock while the replica was cut off, and its refusal before a server served again.
fn refused(court: &Court<'_>, cut_off: Mark, again: Mark) -> Option<(Mark, Mark)> {
    let own = |who: &str, key: &str| who == HOLDER && key == FIRST_LOCK;
    let mut waits = court.facts.waits.iter();
    waits.find_map(|wait| {
        let refused = wait.refused()?;
        let is_meanwhile = wait.asked > cut_off && refused < again;
        (own(&wait.who, &wait.key) && is_meanwhile).then_some((wait.asked, refused))
    })
}
