//! Everything that the store on several servers, `stores::redlock`, uses of the one on a single server.

use redis::{Cmd, RedisError, Value};

use super::hub::OnChange;
use super::keys::{beside, name_of};
use crate::clock::Moment;
use crate::error::Operation;

pub(crate) use super::builder::{KEEP_FENCES, MIN_KEEP_FENCES};
pub(crate) use super::hub::Hub;
pub(crate) use super::keys::is_reserved;
pub(crate) use super::requests::RENEWED_AT_ONCE;
pub(crate) use super::scripts::{ReadValue, Script, millis};
pub(crate) use super::session::Session;
pub(crate) use super::view::{STEP, lock_of, look_closely, scan, scan_for};

/// The errors of one server.
pub(crate) mod failure {
    pub(crate) use super::super::failure::{
        is_unknown_script, of_command, reserved, unexpected, unreachable,
    };
}

/// Returns the key with the last epoch on one of several servers that share no counter; see `stores::redlock`.
pub(crate) fn quorum_of(name: &str) -> String {
    beside(name, "quorum")
}

/// Returns the name whose quorum counter is stored under `key`, or `None` if the key is not such a counter.
pub(crate) fn name_of_quorum(key: &str) -> Option<&str> {
    name_of(key, "quorum")
}

impl Session {
    /// Asks the server to announce the next change of this key. Returns `None` if that is not possible here, and otherwise whether the key
    /// exists now.
    pub(crate) async fn watch(&self, key: &str) -> Option<bool> {
        let is_there = self.watch_all(&[key.to_owned()]).await?;
        is_there.first().copied()
    }

    /// Sends one command, and gives the connection up if it stays silent for longer than this operation allows.
    pub(crate) async fn send_for(
        &self,
        operation: Operation,
        command: &Cmd,
    ) -> std::result::Result<Value, RedisError> {
        self.send_limited(self.silence_limit_for(operation), command)
            .await
    }

    /// Records that nobody waits any longer for a renewal sent at that moment, although its answer may still arrive. Gives up the
    /// connection if nothing was received for as long as a renewal may take.
    fn renewal_unanswered(&self, asked_at: Moment) {
        self.unanswered(asked_at, self.silence_limit_for(Operation::Renew));
    }
}

impl Hub {
    /// Records that nobody waits any longer for a renewal that was sent at that moment.
    pub(crate) fn renewal_unanswered(&self, asked_at: Moment) {
        if let Some(session) = self.current() {
            session.renewal_unanswered(asked_at);
        }
    }

    /// Calls `on_change` when watched keys change. Only the first call of this function counts.
    pub(crate) fn call_when_changed(&self, on_change: OnChange) {
        let _only_one = self.on_change.set(on_change);
    }
}
