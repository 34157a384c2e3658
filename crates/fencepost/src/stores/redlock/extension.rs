//! The renewal of several leases at one server, which also creates keys that the server has lost.

use std::sync::Arc;

use redis::Cmd;

use super::collecting::collect;
use super::debts::Span;
use super::granted::{Granted, LeaseState};
use super::listening::Listening;
use super::scripts::{RENEW, ScriptId};
use super::server::{Server, of_command, unexpected};
use crate::claim::Claim;
use crate::error::{Operation, Result};
use crate::stores::redis::for_redlock::{RENEWED_AT_ONCE, ReadValue, millis, quorum_of};

/// One renewal of several leases, as it is sent to every server.
#[derive(Clone)]
pub(super) struct Extension {
    pub(super) claims: Arc<[Claim]>,
    /// Milliseconds of the wall clock, later than the stamp of every earlier attempt and renewal.
    pub(super) stamp: u64,
    /// The leases that are held. Only for these the renewal creates missing keys.
    pub(super) granted: Arc<Granted>,
}

/// A server's answer to a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extended {
    /// The server had the key.
    Yes,
    /// The server has the key now, but has not had it all the time. It counts from the next renewal on, if this one succeeds.
    Late,
    /// The server has no key of this owner.
    No,
}

impl Server {
    /// Extends what this owner still holds here, and creates the keys that are missing. Returns the answers in the order of the claims.
    pub(super) async fn renew(
        self: Arc<Self>,
        extension: Extension,
        listening: Listening,
    ) -> Result<Vec<Extended>> {
        let session = self.session_in_time(Operation::Renew, &listening).await?;
        let mut answers = Vec::with_capacity(extension.claims.len());
        for batch in extension.claims.chunks(RENEWED_AT_ONCE) {
            let call = self.renewal_of(batch, &extension);
            let answer = self.call(&session, ScriptId::Renew, &call, &listening);
            let answer = answer.await.map_err(of_command(Operation::Renew))?;
            for at in 0..batch.len() {
                let one = answer.item(at).and_then(|one| one.integer());
                answers.push(match one {
                    Some(0) => Extended::No,
                    Some(1) => Extended::Yes,
                    Some(2) => Extended::Late,
                    _ => return Err(unexpected(Operation::Renew, &answer)),
                });
            }
        }
        self.give_back_what_came_late(&extension, &answers);
        Ok(answers)
    }

    /// Releases keys again if a release or a loss on another thread overtook the renewal just before it was sent.
    fn give_back_what_came_late(self: &Arc<Self>, extension: &Extension, answers: &[Extended]) {
        for (claim, answer) in extension.claims.iter().zip(answers) {
            if *answer != Extended::Late {
                continue;
            }
            let after = match extension.granted.state_of(claim.owner) {
                Some(LeaseState::Held(_)) => continue,
                Some(LeaseState::Ended(lease)) => Some(lease.confirmed),
                None => None,
            };
            let up_to = extension.stamp;
            self.debts.owe(claim, Span { after, up_to });
            collect(self);
        }
    }

    /// Builds the command just before it is sent. Therefore no key is created after its release for a lease that was released or lost in
    /// the meantime, because the release uses the same connection.
    fn renewal_of(&self, claims: &[Claim], extension: &Extension) -> Cmd {
        let mut call = RENEW.call(claims.len() * 2);
        for claim in claims {
            let name = claim.name.as_str();
            call.arg(name).arg(quorum_of(name));
        }
        call.arg(self.least_age_seconds());
        call.arg(millis(self.settings.keep_fences));
        for claim in claims {
            let (ttl, stamp) = (millis(claim.ttl), extension.stamp);
            call.arg(claim.owner.to_string()).arg(ttl);
            match extension.granted.state_of(claim.owner) {
                Some(LeaseState::Held(lease)) => call.arg(lease.epoch).arg(lease.confirmed),
                Some(LeaseState::Ended(lease)) => call.arg(0).arg(lease.confirmed),
                None => call.arg(0).arg(""),
            };
            call.arg(format!("{ttl} {stamp} {}", claim.label));
        }
        call
    }
}
