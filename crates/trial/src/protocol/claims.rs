//! The claims of a lock: what it promises and how it works, which is all that a judge knows about it.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

/// What a lock promises and how it works. The lock is judged by its claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Claims {
    /// Its grants carry fences, and the resource checks them.
    pub fencing: bool,
    /// It renews its lease while its holder lives.
    pub keep_alive: bool,
    /// Waiters are served in the order in which they asked.
    pub fair: bool,
    /// It has no lease: it lasts until it is released, however long its holder takes. If it also promises
    /// [`recovery_ms`](Self::recovery_ms), it ends when its holder dies; otherwise only a [`session`](Self::session) does.
    pub untimed: bool,
    /// A dead holder's lock is free within this time; by default within its TTL.
    pub recovery_ms: Option<u64>,
    /// If its lock is taken away, its holder learns of it within this time: it says `lost`, or declines the next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tells_loss_ms: Option<u64>,
    /// What it has granted survives a failover: the server that takes over has it.
    #[serde(skip_serializing_if = "is_false")]
    pub survives: bool,
    /// With [`fencing`](Self::fencing): the resource checks fences on writes, and lets every read in.
    #[serde(skip_serializing_if = "is_false")]
    pub fences_writes_only: bool,
    /// A process that has the lock gets it again, and has it until it has released each of its holds.
    #[serde(skip_serializing_if = "is_false")]
    pub reentrant: bool,
    /// Its lease begins only when the protected work is done, not at the grant.
    #[serde(skip_serializing_if = "is_false")]
    pub expires_after_work: bool,
    /// Its release checks that the lock still belongs to its holder.
    #[serde(skip_serializing_if = "is_false")]
    pub checks_owner: bool,
    /// Its release deletes the lock without checking the owner.
    #[serde(skip_serializing_if = "is_false")]
    pub blind_release: bool,
    /// Its release checks the owner in one step and deletes the lock in the next.
    #[serde(skip_serializing_if = "is_false")]
    pub looks_before_release: bool,
    /// It looks for its predecessor in one step and starts to wait for it in the next.
    #[serde(skip_serializing_if = "is_false")]
    pub looks_before_wait: bool,
    /// It belongs to a session of its process, which its store or its system ends: a connection, a node that is kept alive, an open file. This
    /// promises nothing: neither that the session lasts nor when its end frees the lock.
    #[serde(skip_serializing_if = "is_false")]
    pub session: bool,
    /// Its leases end with its server, even if that comes back with its data: they belong to connections.
    #[serde(skip_serializing_if = "is_false")]
    pub ends_with_server: bool,
}

impl Claims {
    /// A lock that promises only exclusion until its TTL.
    pub const PLAIN: Self = Self {
        fencing: false,
        keep_alive: false,
        fair: false,
        untimed: false,
        recovery_ms: None,
        tells_loss_ms: None,
        survives: false,
        fences_writes_only: false,
        reentrant: false,
        expires_after_work: false,
        checks_owner: false,
        blind_release: false,
        looks_before_release: false,
        looks_before_wait: false,
        session: false,
        ends_with_server: false,
    };

    /// The same, with a release that checks its owner.
    pub const OWNED: Self = Self {
        checks_owner: true,
        ..Self::PLAIN
    };

    /// A lock without a lease. It lasts until it is released, or until its holder's session ends and the database notices.
    pub const OF_SESSION: Self = Self {
        untimed: true,
        recovery_ms: Some(100),
        session: true,
        ..Self::OWNED
    };

    /// Returns whether the lock belongs to a session: it says so, or it does not expire but ends when its holder dies.
    pub fn belongs_to_session(self) -> bool {
        self.session || self.untimed && self.recovery_ms.is_some()
    }

    /// Returns these claims, with the fields about how the lock works taken from `known`. Histories of earlier versions do not
    /// contain those fields.
    #[must_use]
    pub fn made_like(self, known: Self) -> Self {
        Self {
            fencing: self.fencing,
            keep_alive: self.keep_alive,
            fair: self.fair,
            untimed: self.untimed,
            recovery_ms: self.recovery_ms,
            tells_loss_ms: self.tells_loss_ms,
            survives: self.survives,
            session: self.session || known.session,
            ends_with_server: self.ends_with_server,
            ..known
        }
    }
}

/// Reads the claims of a subject. Returns an error that quotes the claims that do not exist: without them, the lock would be judged by less
/// than it claims.
pub(super) fn known<'de, D: Deserializer<'de>>(reply: D) -> Result<Option<Claims>, D::Error> {
    let Some(fields) = Option::<Map<String, Value>>::deserialize(reply)? else {
        return Ok(None);
    };
    let unknown: Vec<String> = fields
        .keys()
        .filter(|name| !is_claim(name))
        .map(|name| format!("'{name}'"))
        .collect();
    if !unknown.is_empty() {
        let what = format!("there is no claim {}", unknown.join(", "));
        return Err(D::Error::custom(what));
    }
    let claims = serde_json::from_value(Value::Object(fields));
    claims.map(Some).map_err(D::Error::custom)
}

/// Returns whether there is a claim of this name. A name that does not exist is ignored; the value of a claim is never a list.
fn is_claim(name: &str) -> bool {
    serde_json::from_value::<Claims>(json!({ name: [] })).is_err()
}

/// Headers and replies contain only the fields that are true.
#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// What a strategy promises in a sale. It is judged by its promise, which also decides what counts as a witness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// Nothing: a control that should fail. If it does not fail, that shows nothing.
    Nothing,
    /// One holder at a time. `HELD` requires that a process found the lock taken.
    Exclusion,
    /// Exact orders without a lock. `HELD` requires that a process met another buyer between its read and its write.
    Exactness,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Reply;

    #[test]
    fn a_claim_that_does_not_exist_is_refused_in_a_reply_and_quoted() {
        let line = r#"{"type":"init_ok","claims":{"fencing":true,"keepalive":true}}"#;
        let error = serde_json::from_str::<Reply>(line).unwrap_err().to_string();
        assert!(
            error.starts_with("there is no claim 'keepalive'"),
            "{error}"
        );
        let known = r#"{"type":"init_ok","claims":{"fencing":true,"recovery_ms":null,"looks_before_wait":true}}"#;
        let claims = Claims {
            fencing: true,
            looks_before_wait: true,
            ..Claims::PLAIN
        };
        let ready = Reply::InitOk {
            claims: Some(claims),
        };
        assert_eq!(serde_json::from_str::<Reply>(known).unwrap(), ready);
        for nothing in [
            r#"{"type":"init_ok"}"#,
            r#"{"type":"init_ok","claims":null}"#,
        ] {
            let ready = Reply::InitOk { claims: None };
            assert_eq!(serde_json::from_str::<Reply>(nothing).unwrap(), ready);
        }
    }

    #[test]
    fn a_history_with_a_claim_of_another_version_is_read() {
        let claims: Claims = serde_json::from_str(r#"{"fencing":true,"bygone":true}"#).unwrap();
        assert!(claims.fencing);
    }
}
