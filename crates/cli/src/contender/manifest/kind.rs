//! The kind of a lock as its manifest states it, and the claims that no lock of this kind can keep.

use fencepost_trial::protocol::Claims;
use serde::Deserialize;

/// How the lock is built, whatever its documentation promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with `hold`")]
pub(super) struct Kind {
    hold: Hold,
    /// It renews its lease or session while its holder lives.
    #[serde(default)]
    renewed: bool,
    /// Its holder stops by itself when it can no longer be sure of the lock.
    #[serde(default)]
    stops_itself: bool,
    /// Its grants carry fences.
    #[serde(default)]
    fenced: bool,
}

/// What ends a hold that nobody releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Hold {
    /// A time.
    Lease,
    /// The end of a connection or a process.
    Session,
    /// Nothing.
    Untimed,
}

impl Kind {
    /// Returns the field with the first claim that a lock of this kind cannot keep, and why. A lock may well claim less than it does.
    pub(super) fn contradiction(self, claims: Claims) -> Option<(&'static str, &'static str)> {
        let Self {
            hold,
            renewed,
            stops_itself,
            fenced,
        } = self;
        let has_end = hold != Hold::Untimed;
        [
            (
                claims.fencing && !fenced,
                "claims.fencing",
                "is claimed, but kind.fenced is not true",
            ),
            (
                claims.keep_alive && !renewed,
                "claims.keep_alive",
                "is claimed, but kind.renewed is not true",
            ),
            (
                claims.untimed && hold == Hold::Lease,
                "claims.untimed",
                "is claimed, but kind.hold is \"lease\", expected \"session\" or \"untimed\"",
            ),
            (
                claims.untimed && claims.keep_alive,
                "claims.untimed",
                "is claimed together with claims.keep_alive, expected one of the two",
            ),
            (
                claims.recovery_ms.is_some() && !has_end,
                "claims.recovery_ms",
                "is claimed, but kind.hold is \"untimed\", expected \"lease\" or \"session\"",
            ),
            (
                claims.checks_owner && claims.blind_release,
                "claims.blind_release",
                "is claimed together with claims.checks_owner, expected one of the two",
            ),
            (
                renewed && !has_end,
                "kind.renewed",
                "is true, but kind.hold is \"untimed\": there is nothing to renew",
            ),
            (
                stops_itself && !has_end,
                "kind.stops_itself",
                "is true, but kind.hold is \"untimed\": its holder has nothing to fear",
            ),
        ]
        .into_iter()
        .find_map(|(is_wrong, field, why)| is_wrong.then_some((field, why)))
    }
}
