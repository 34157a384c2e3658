//! The questions of an election to its store, each with a time limit.

use std::time::Duration;

use super::{Election, Leader};
use crate::backend::leaders::{AnyLeaders, LeaderEntry, Proclamation, Standing};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::fence::Fence;
use crate::guard::Guard;

/// The pause after a failed attempt to publish a value.
const PUBLISH_PAUSE: Duration = Duration::from_millis(50);

/// What can be asked about one election.
pub(super) struct Answers<'a> {
    election: &'a Election,
    leaders: AnyLeaders<'a>,
}

/// Who leads, and what the store needs to tell whether that has changed.
pub(super) struct Seen {
    pub(super) leader: Option<Leader>,
    pub(super) standing: Standing,
}

impl<'a> Answers<'a> {
    pub(super) fn new(election: &'a Election, leaders: AnyLeaders<'a>) -> Self {
        Self { election, leaders }
    }

    /// Asks who leads.
    pub(super) async fn standing(&self) -> Result<Seen> {
        let asked = self.leaders.leader(&self.election.name);
        let standing = self
            .election
            .locker
            .answer(Operation::ReadRecord, asked)
            .await?;
        let leader = standing.leader.clone().map(|entry| self.leader_of(entry));
        Ok(Seen {
            leader: leader.transpose()?,
            standing,
        })
    }

    /// Completes when the standing may have changed.
    pub(super) async fn changed(&self, seen: &Standing) {
        self.leaders.changed(&self.election.name, seen).await;
    }

    /// Publishes the value of a leader that has just been elected. Tries again while the store cannot be reached; the caller stops that when the
    /// lock is lost.
    pub(super) async fn publish(&self, guard: &Guard, value: &str) -> Result<Proclamation> {
        let clock = self.election.locker.clock();
        loop {
            let asked = self
                .leaders
                .publish(guard.claim(), guard.fence().epoch(), value);
            match self
                .election
                .locker
                .answer(Operation::ReplaceRecord, asked)
                .await
            {
                Err(error) if error.is_transient() => {
                    tracing::debug!(name = %self.election.name, %error, "value not published yet");
                    clock.sleep_until(clock.now() + PUBLISH_PAUSE).await;
                }
                answer => return answer,
            }
        }
    }

    /// Replaces the value of a leader.
    pub(super) async fn proclaim(&self, guard: &Guard, value: &str) -> Result<Proclamation> {
        let asked = self
            .leaders
            .proclaim(guard.claim(), guard.fence().epoch(), value);
        self.election
            .locker
            .answer(Operation::ReplaceRecord, asked)
            .await
    }

    /// Tells observers that the leader of this term has resigned.
    pub(super) async fn withdraw(&self, term: Fence) -> Result<()> {
        let asked = self.leaders.withdraw(&self.election.name, term.epoch());
        self.election
            .locker
            .answer(Operation::ReplaceRecord, asked)
            .await
    }

    fn leader_of(&self, entry: LeaderEntry) -> Result<Leader> {
        let term = Fence::new(entry.epoch, 0).map_err(|error| {
            let store = self.election.locker.backend().store_name();
            let message = "the term of the leader is not a fence";
            Error::new(
                ErrorKind::FenceExhausted,
                store,
                Operation::ReadRecord,
                message,
            )
            .with_source(error)
        })?;
        let LeaderEntry {
            value,
            label,
            since,
            ..
        } = entry;
        Ok(Leader {
            term,
            value,
            label,
            since,
        })
    }
}
