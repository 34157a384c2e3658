//! The claims that no lock of a kind can keep.

use fencepost_trial::gauntlet::Kind;
use fencepost_trial::gauntlet::kind::EndsWith;
use fencepost_trial::protocol::Claims;

/// Returns the field with the first claim that a lock of this kind cannot keep, and why. A lock may well claim less than it does.
pub(super) fn contradiction(kind: Kind, claims: Claims) -> Option<(&'static str, &'static str)> {
    let Kind {
        hold,
        renewed,
        stops_itself,
        fenced,
    } = kind;
    let has_end = hold != EndsWith::Untimed;
    [
        (
            claims.fencing && !fenced,
            "claims.fencing",
            "is claimed, but kind.fenced is not true",
        ),
        (
            claims.fences_writes_only && !claims.fencing,
            "claims.fences_writes_only",
            "is claimed without claims.fencing",
        ),
        (
            claims.keep_alive && !renewed,
            "claims.keep_alive",
            "is claimed, but kind.renewed is not true",
        ),
        (
            claims.untimed && hold == EndsWith::Lease,
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
