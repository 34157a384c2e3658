//! Which kinds of faults a storm can have on a store, and why it lacks the others.

use fencepost_rig::ClockShim;

use crate::history::{FaultKind, FaultKinds};
use crate::store::{ServerFault, TrialStore};

/// Whether a storm on a store has a kind of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applies {
    /// It has, unless the user chooses others.
    Always,
    /// Only if the user chooses it, for this reason.
    OnRequest(&'static str),
    /// Never, for this reason.
    Never(&'static str),
}

/// The lab does not come between a program and servers of the user without being asked to.
const YOURS: &str = "the servers are yours: name it in --faults";
const ONLY_PRIVATE: &str = "the lab stops no servers but its own";

/// Returns whether a storm on this store has this kind of faults.
pub fn applies(kind: FaultKind, store: &TrialStore) -> Applies {
    let facts = store.facts();
    let of_server = |fault: ServerFault, elsewhere: Applies| match fault {
        ServerFault::Unavailable(why) => Applies::Never(why),
        ServerFault::Available if store.is_private() => Applies::Always,
        ServerFault::Available => elsewhere,
    };
    match kind {
        FaultKind::Kill | FaultKind::Pause => Applies::Always,
        FaultKind::Cut | FaultKind::Delay => of_server(facts.connection, Applies::OnRequest(YOURS)),
        FaultKind::Server => of_server(facts.stop, Applies::Never(ONLY_PRIVATE)),
        FaultKind::Clock if ClockShim::is_available() => Applies::Always,
        FaultKind::Clock => Applies::Never(ClockShim::NO_COMPILER),
    }
}

/// Returns the kinds of faults that a storm on this store has unless the user chooses others.
pub fn by_default(store: &TrialStore) -> FaultKinds {
    let all = FaultKind::ALL.into_iter();
    all.filter(|kind| applies(*kind, store) == Applies::Always)
        .collect()
}

/// Returns the kinds that a storm on this store lacks, each with the reason.
pub fn lacking(faults: FaultKinds, store: &TrialStore) -> Vec<(FaultKind, &'static str)> {
    let others = FaultKind::ALL.into_iter().filter(|kind| !faults.has(*kind));
    others
        .map(|kind| match applies(kind, store) {
            Applies::Always => (kind, "not in --faults"),
            Applies::OnRequest(why) | Applies::Never(why) => (kind, why),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_faults_of_processes_alone() {
        let sqlite = TrialStore::sqlite();
        let kinds = by_default(&sqlite).without(FaultKind::Clock);
        assert_eq!(kinds, FaultKinds::of_processes());
        for kind in [FaultKind::Cut, FaultKind::Delay, FaultKind::Server] {
            assert!(
                matches!(applies(kind, &sqlite), Applies::Never(_)),
                "{kind:?}"
            );
        }
    }

    #[test]
    fn private_servers_have_all_and_those_of_the_user_less() {
        for name in ["redis", "redlock", "postgres", "etcd", "zk"] {
            let store = TrialStore::named(name).unwrap();
            let kinds = by_default(&store).without(FaultKind::Clock);
            assert_eq!(kinds.iter().count(), 5, "{name}");
        }
        let yours = TrialStore::named("redis://cache").unwrap();
        let kinds = by_default(&yours).without(FaultKind::Clock);
        assert_eq!(kinds, FaultKinds::of_processes());
        assert!(matches!(
            applies(FaultKind::Cut, &yours),
            Applies::OnRequest(_)
        ));
        assert!(matches!(
            applies(FaultKind::Server, &yours),
            Applies::Never(_)
        ));
    }

    #[test]
    fn what_a_storm_lacks_has_a_reason() {
        let redis = TrialStore::named("redis").unwrap();
        let all = lacking(FaultKinds::of_processes(), &redis);
        let named: Vec<FaultKind> = all.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(named, FaultKind::ALL[2..]);
        assert_eq!(all[0].1, "not in --faults");
    }
}
