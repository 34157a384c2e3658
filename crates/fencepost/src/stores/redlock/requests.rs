//! The requests of a client: acquiring, renewing and releasing a lease on a majority of the servers.

use std::time::Duration;

use super::acquire::{AskingOrder, Outcome};
use super::asking::OpenRequests;
use super::collecting::collect;
use super::debts::Span;
use super::extension::{Extended, Extension};
use super::failure;
use super::hub::Hub;
use super::votes::{VoteState, vote_state};
use crate::backend::outage::Outage;
use crate::backend::{Release, Renewal, Wait};
use crate::claim::{Claim, Grant};
use crate::clock::{BootClock, Clock};
use crate::error::{Error, Operation, Result};
use crate::random::SystemRandom;
use crate::retry::Schedule;
use crate::stores::redis::for_redlock::RENEWED_AT_ONCE;

/// The pause before asking again, so that waiters with the same notification do not all ask at once. It grows each time nobody got a
/// majority.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// The servers' answers about one lease.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    extended: usize,
    /// Servers that do not have the key. This includes those that have just created it: they cannot know who had the lock in the meantime.
    lost: usize,
}

impl Tally {
    fn add(&mut self, answer: Extended) {
        match answer {
            Extended::Yes => self.extended += 1,
            Extended::Late | Extended::No => self.lost += 1,
        }
    }

    fn vote_state(&self, servers: usize) -> VoteState {
        let open = servers - self.extended - self.lost;
        vote_state(self.extended, open, servers)
    }
}

pub(super) async fn try_acquire(hub: &Hub, claim: &Claim) -> Result<Option<Grant>> {
    match hub.attempt(claim, AskingOrder::AllAtOnce).await? {
        Outcome::Granted(grant) => Ok(Some(grant)),
        Outcome::Busy(_) => Ok(None),
    }
}

pub(super) async fn acquire(hub: &Hub, claim: &Claim, wait: &Wait) -> Result<Grant> {
    let schedule = Schedule::full_jitter(FIRST_PAUSE, LONGEST_PAUSE);
    let mut order = AskingOrder::AllAtOnce;
    let mut outage = Outage::default();
    let mut splits = 0;
    loop {
        match hub.attempt(claim, order).await {
            Ok(Outcome::Granted(grant)) => return Ok(grant),
            Ok(Outcome::Busy(busy)) => {
                wait.report_busy();
                outage.end();
                splits = if busy.is_split { splits + 1 } else { 0 };
                order = if busy.is_split {
                    AskingOrder::FirstFirst
                } else {
                    hub.until_it_may_be_free(claim, &busy).await
                };
                let pause = schedule.delay(splits, &SystemRandom);
                BootClock.sleep_until(BootClock.now() + pause).await;
            }
            Err(error) => {
                let is_transient = error.is_transient();
                let longest = hub.settings.max_outage;
                outage.after(error, wait, is_transient, longest).await?;
            }
        }
    }
}

/// Renews the leases. A lease that was found lost stays lost, whatever the servers would answer now.
pub(super) async fn renew(hub: &Hub, claims: &[Claim]) -> Vec<Result<Renewal>> {
    let is_lost = |claim: &Claim| hub.granted.is_lost(claim.owner);
    let lost: Vec<bool> = claims.iter().map(is_lost).collect();
    let held = claims.iter().zip(&lost).filter(|(_, is_lost)| !**is_lost);
    let held: Vec<Claim> = held.map(|(claim, _)| claim.clone()).collect();
    let mut renewed = Vec::with_capacity(held.len());
    for many in held.chunks(RENEWED_AT_ONCE) {
        renewed.extend(renew_some(hub, many).await);
    }
    let mut renewed = renewed.into_iter();
    let answer = |is_lost| {
        if is_lost {
            Some(Ok(Renewal::Lost))
        } else {
            renewed.next()
        }
    };
    lost.into_iter().filter_map(answer).collect()
}

async fn renew_some(hub: &Hub, claims: &[Claim]) -> Vec<Result<Renewal>> {
    let servers = hub.servers.len();
    let mut failures = hub.failures(Operation::Renew);
    let mut tallies = vec![Tally::default(); claims.len()];
    let shortest = claims.iter().map(|claim| claim.ttl).min();
    let asked_at = BootClock.now();
    let until = asked_at + hub.answer_timeout(shortest.unwrap_or(Duration::ZERO));
    let mut asking = OpenRequests::new();
    let extension = Extension {
        claims: claims.into(),
        stamp: hub.next_stamp(),
        granted: hub.granted.clone(),
    };
    for (at, server) in hub.servers.iter().enumerate() {
        asking.ask(at, server, |server, listening| {
            server.renew(extension.clone(), listening)
        });
    }
    let is_open = |tally: &Tally| tally.vote_state(servers) == VoteState::Open;
    while tallies.iter().any(is_open) {
        match asking.next(until, false).await {
            Some((_, Ok(answers))) => {
                for (tally, answer) in tallies.iter_mut().zip(answers) {
                    tally.add(answer);
                }
            }
            Some((at, Err(error))) => failures.add(&hub.servers[at].address, error),
            None => break,
        }
    }
    let is_undecided = tallies.iter().any(is_open);
    for at in asking.silent().filter(|_| is_undecided) {
        failures.add(
            &hub.servers[at].address,
            failure::unanswered(Operation::Renew),
        );
        // There is time for one more attempt, over another connection.
        hub.servers[at].hub.renewal_unanswered(asked_at);
    }
    asking.leave();
    let undecided: Option<Error> = is_undecided.then(|| failures.into_error());
    let answer = |tally: &Tally| match (tally.vote_state(servers), &undecided) {
        (VoteState::Open, Some(error)) => Err(error.clone()),
        (VoteState::Won, _) => Ok(Renewal::Extended),
        (VoteState::Lost | VoteState::Open, _) => Ok(Renewal::Lost),
    };
    let noted = |(claim, tally): (&Claim, &Tally)| match answer(tally) {
        Ok(Renewal::Extended) if hub.granted.extended(claim, extension.stamp) => {
            Ok(Renewal::Extended)
        }
        Ok(_) => {
            give_up(hub, claim, extension.stamp);
            Ok(Renewal::Lost)
        }
        Err(error) => Err(error),
    };
    claims.iter().zip(&tallies).map(noted).collect()
}

/// Gives up a lease that a majority does not have, as the renewal with this stamp has shown. Keys that renewals created in vain must
/// not keep others out. What is left of the lease itself stays until its holder releases it or its TTL ends. The holder is told at
/// once, without waiting for the releases.
fn give_up(hub: &Hub, claim: &Claim, stamp: u64) {
    let Some(lease) = hub.granted.lose(claim, stamp) else {
        return;
    };
    // No key is created for it from now on, so all keys that were created have smaller stamps than the next.
    let taken_in_vain = Span {
        after: Some(lease.confirmed),
        up_to: hub.next_stamp(),
    };
    for server in &hub.servers {
        server.debts.owe(claim, taken_in_vain);
        collect(server);
    }
}

/// Releases the lock. A lease that was found lost counts as not held, even if keys that were created for it in vain still exist.
pub(super) async fn release(hub: &Hub, claim: &Claim) -> Result<Release> {
    let was_lost = hub.granted.forget(claim.owner);
    let released = hub.give_back(claim, 0..hub.servers.len()).await;
    let open = hub.servers.len() - released.answered;
    match vote_state(released.freed, open, hub.servers.len()) {
        VoteState::Won if !was_lost => Ok(Release::Freed),
        VoteState::Won | VoteState::Lost => Ok(Release::NotHeld),
        VoteState::Open => Err(released.failures.into_error()),
    }
}
