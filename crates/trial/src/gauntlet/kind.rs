//! The kind of a lock: how it is built, whatever its documentation promises. Locks of one kind have the same limits.

use fencepost::stores::kinds::POSTGRES;
use serde::{Deserialize, Serialize};

use crate::any_scenario::AnyScenario;
use crate::holds::Scenario;
use crate::protocol::Claims;
use crate::store::{ServerFault, TrialStore};
use crate::strategy::{self, Strategy};

/// How a lock is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with `hold`")]
pub struct Kind {
    /// What ends a hold that nobody releases.
    pub hold: EndsWith,
    /// It renews its lease or session while its holder lives.
    #[serde(default)]
    pub renewed: bool,
    /// Its holder stops by itself when it can no longer be sure of the lock.
    #[serde(default)]
    pub stops_itself: bool,
    /// Its grants carry fences.
    #[serde(default)]
    pub fenced: bool,
}

/// What ends a hold that nobody releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndsWith {
    /// A time.
    Lease,
    /// The end of a connection or a process.
    Session,
    /// Nothing.
    Untimed,
}

impl Kind {
    /// Returns the kind of a lock of ours. Those that renew their lease also stop by themselves.
    pub fn of_ours(claims: Claims) -> Self {
        Self {
            stops_itself: claims.keep_alive,
            ..Self::of_claims(claims)
        }
    }

    /// Returns the kind of a lock of which only the claims are known. What it does not claim, it does not do.
    pub fn of_claims(claims: Claims) -> Self {
        let hold = match claims {
            _ if claims.belongs_to_session() => EndsWith::Session,
            _ if claims.untimed => EndsWith::Untimed,
            _ => EndsWith::Lease,
        };
        Self {
            hold,
            renewed: claims.keep_alive,
            stops_itself: false,
            fenced: claims.fencing,
        }
    }

    /// Returns the reference lock of this kind in a scenario: a lock of ours that is built alike where it matters
    /// there, and is given the same time by what it claims. Returns `None` if there is none on this store.
    pub fn reference(
        self,
        claims: Claims,
        scenario: AnyScenario,
        store: &TrialStore,
    ) -> Option<&'static Strategy> {
        let is_database = store.is(&POSTGRES);
        let name = match self.hold {
            EndsWith::Session if is_database && !self.fenced => "advisory",
            EndsWith::Untimed if is_database && !self.fenced => "unique-index",
            EndsWith::Untimed => return None,
            EndsWith::Lease | EndsWith::Session => {
                match (self.fenced, self.is_as_watchdog(claims, scenario, store)) {
                    (true, true) => "fenced-watchdog",
                    (true, false) => "fenced",
                    (false, true) => "watchdog",
                    (false, false) => "safe",
                }
            }
        };
        let reference = strategy::find(name)?;
        reference.stores.include(store).then_some(reference)
    }

    /// Returns whether, in this scenario, a lock of this kind is like our lock that renews its lease and stops its holder. Otherwise it is like
    /// the one that does neither.
    fn is_as_watchdog(self, claims: Claims, scenario: AnyScenario, store: &TrialStore) -> bool {
        // Whoever claims to tell a loss is given time to do so. Everybody else is asked at once, before a renewal could tell.
        if scenario.lock() == Some(Scenario::TakenAway) {
            return claims.tells_loss_ms.is_some();
        }
        let has_server = store.facts().connection == ServerFault::Available;
        let is_decided_by_renewal = scenario.lock().is_none_or(Scenario::is_decided_by_renewal);
        let fails_servers = scenario.lock().is_some_and(Scenario::fails_servers);
        match self.hold {
            // Only the end of the process ends it.
            EndsWith::Session if !has_server => true,
            // The server ends a session of which it hears nothing. Being heard of is what keeps a session.
            EndsWith::Session if is_decided_by_renewal => true,
            _ if is_decided_by_renewal => self.renewed,
            // A holder learns by renewing its lease that its server has lost it; its own clock does not tell.
            EndsWith::Lease if fails_servers => self.renewed && self.stops_itself,
            _ => self.stops_itself,
        }
    }

    /// Returns words such as "a lease, renewed, does not stop itself, no fence".
    pub fn in_words(self) -> String {
        let hold = match self.hold {
            EndsWith::Lease => "a lease",
            EndsWith::Session => "a session",
            EndsWith::Untimed => "no end of its own",
        };
        let mut words = vec![hold];
        if self.hold != EndsWith::Untimed {
            words.push(if self.renewed {
                "renewed"
            } else {
                "not renewed"
            });
            words.push(if self.stops_itself {
                "stops itself"
            } else {
                "does not stop itself"
            });
        }
        words.push(if self.fenced { "fenced" } else { "no fence" });
        words.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TELLS_LOSS: Claims = Claims {
        tells_loss_ms: Some(1_000),
        ..Claims::PLAIN
    };

    fn reference(
        kind: Kind,
        claims: Claims,
        scenario: Scenario,
        store: &str,
    ) -> Option<&'static str> {
        let store = TrialStore::named(store).unwrap();
        kind.reference(claims, AnyScenario::Lock(scenario), &store)
            .map(|strategy| strategy.name)
    }

    const LEASE: Kind = Kind {
        hold: EndsWith::Lease,
        renewed: false,
        stops_itself: false,
        fenced: false,
    };

    #[test]
    fn a_lock_is_compared_with_one_that_is_built_alike_where_it_matters() {
        let renewed = Kind {
            renewed: true,
            ..LEASE
        };
        let careful = Kind {
            stops_itself: true,
            ..renewed
        };
        let looks_at_its_clock = Kind {
            stops_itself: true,
            ..LEASE
        };
        let fenced = Kind {
            fenced: true,
            ..LEASE
        };
        let both = Kind {
            renewed: true,
            ..fenced
        };
        let of_session = Kind {
            hold: EndsWith::Session,
            ..LEASE
        };
        let untimed = Kind {
            hold: EndsWith::Untimed,
            ..LEASE
        };
        let untimed_and_fenced = Kind {
            fenced: true,
            ..untimed
        };
        for (kind, scenario, store, expected) in [
            (LEASE, Scenario::TtlEdge, "sqlite", Some("safe")),
            (LEASE, Scenario::Pause, "redis", Some("safe")),
            // It renews its lease, but whoever is paused cannot, and it does not stop by itself.
            (renewed, Scenario::TtlEdge, "redis", Some("watchdog")),
            (renewed, Scenario::Pause, "redis", Some("safe")),
            (renewed, Scenario::Suspend, "redis", Some("safe")),
            (renewed, Scenario::Names, "redis", Some("watchdog")),
            (renewed, Scenario::ClientClock, "redis", Some("watchdog")),
            (careful, Scenario::Pause, "redis", Some("watchdog")),
            // Nothing but a renewal could tell it that its server has lost the lock.
            (
                looks_at_its_clock,
                Scenario::Pause,
                "redis",
                Some("watchdog"),
            ),
            (
                looks_at_its_clock,
                Scenario::Failover,
                "redis",
                Some("safe"),
            ),
            // The old primary confirms every renewal, so whoever renews its lease believes in it.
            (renewed, Scenario::Deposed, "redis", Some("watchdog")),
            (fenced, Scenario::Pause, "etcd", Some("fenced")),
            // A fence does not end a deadlock, and a lease that is renewed does not end either.
            (fenced, Scenario::Deadlock, "redis", Some("fenced")),
            (both, Scenario::Deadlock, "redis", Some("fenced-watchdog")),
            (
                both,
                Scenario::FailedRenewal,
                "redis",
                Some("fenced-watchdog"),
            ),
            (both, Scenario::Pause, "redis", Some("fenced")),
            // A server ends the session of a process that is paused, but a file does not.
            (of_session, Scenario::TtlEdge, "zk", Some("watchdog")),
            (of_session, Scenario::Pause, "zk", Some("safe")),
            (of_session, Scenario::Pause, "sqlite", Some("watchdog")),
            (of_session, Scenario::Pause, "postgres", Some("advisory")),
            (untimed, Scenario::Crash, "postgres", Some("unique-index")),
            (untimed, Scenario::Crash, "sqlite", None),
            // No fence makes its lock come free.
            (untimed_and_fenced, Scenario::Crash, "sqlite", None),
        ] {
            assert_eq!(
                reference(kind, Claims::PLAIN, scenario, store),
                expected,
                "{kind:?} {scenario:?}"
            );
        }
    }

    /// In `taken-away`, a claim decides how much time a holder is given.
    #[test]
    fn who_claims_to_tell_a_loss_is_compared_with_one_that_is_given_time_for_it() {
        let careful = Kind {
            renewed: true,
            stops_itself: true,
            ..LEASE
        };
        let fenced = Kind {
            fenced: true,
            ..careful
        };
        for (kind, claims, expected) in [
            (careful, TELLS_LOSS, "watchdog"),
            (careful, Claims::PLAIN, "safe"),
            (LEASE, TELLS_LOSS, "watchdog"),
            (LEASE, Claims::PLAIN, "safe"),
            (fenced, TELLS_LOSS, "fenced-watchdog"),
            (fenced, Claims::PLAIN, "fenced"),
        ] {
            let found = reference(kind, claims, Scenario::TakenAway, "redis");
            assert_eq!(found, Some(expected), "{kind:?} {claims:?}");
        }
    }

    #[test]
    fn our_own_references_are_references_of_their_own_kind() {
        for (name, store) in [
            ("safe", "sqlite"),
            ("watchdog", "sqlite"),
            ("fenced", "redis"),
            ("fenced-watchdog", "redis"),
            ("advisory", "postgres"),
            ("unique-index", "postgres"),
        ] {
            let claims = strategy::find(name).unwrap().claims;
            let kind = Kind::of_ours(claims);
            // The library's lock says so when it has a TTL.
            let claims = Claims {
                tells_loss_ms: claims.keep_alive.then_some(1_000),
                ..claims
            };
            for scenario in Scenario::ALL {
                let found = reference(kind, claims, scenario, store);
                assert_eq!(found, Some(name), "{scenario:?}");
            }
        }
    }

    #[test]
    fn a_kind_is_told_in_words() {
        let kind = Kind {
            renewed: true,
            ..LEASE
        };
        assert_eq!(
            kind.in_words(),
            "a lease, renewed, does not stop itself, no fence"
        );
    }
}
