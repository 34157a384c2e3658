//! The list of all strategies, and lookups by name and by store.

use super::{
    Strategy, atomic, constraint, database, exhibit, fenced, optimistic, queue, safe, watchdog,
};
use crate::history::Header;
use crate::protocol::Claims;
use crate::store::TrialStore;

/// Every strategy, in the order in which tables show them.
pub static ALL: [&Strategy; 22] = [
    &exhibit::none::STRATEGY,
    &exhibit::decrement::STRATEGY,
    &exhibit::mutex::STRATEGY,
    &exhibit::reentrant::STRATEGY,
    &exhibit::early_unlock::STRATEGY,
    &exhibit::naive::STRATEGY,
    &exhibit::blind_delete::STRATEGY,
    &exhibit::get_then_delete::STRATEGY,
    &exhibit::late_expiry::STRATEGY,
    &exhibit::late_watch::STRATEGY,
    &safe::STRATEGY,
    &watchdog::STRATEGY,
    &fenced::STRATEGY,
    &database::ROW,
    &database::TABLE,
    &database::ADVISORY,
    &database::UNIQUE_INDEX,
    &database::LEASE,
    &atomic::STRATEGY,
    &optimistic::STRATEGY,
    &constraint::STRATEGY,
    &queue::STRATEGY,
];

/// The strategies that use the library's lock on Postgres.
static OF_LIBRARY: [&Strategy; 6] = [
    &safe::STRATEGY,
    &watchdog::STRATEGY,
    &watchdog::IN_LINE,
    &fenced::STRATEGY,
    &fenced::KEPT_ALIVE,
    &fenced::WRITES_ONLY,
];

/// The strategies that only a few trials, or labels, are about. Tables leave them out.
static ASIDE: [&Strategy; 6] = [
    &watchdog::IN_LINE,
    &fenced::KEPT_ALIVE,
    &fenced::WRITES_ONLY,
    &database::KEPT_BY_POOL,
    &database::ROLLED_BACK,
    &database::TRUSTS_ROLLBACK,
];

/// Returns the strategies that can be tried on this store, in the same order.
pub fn at(store: &TrialStore) -> impl Iterator<Item = &'static Strategy> + Clone {
    let stores = ALL.map(|strategy| (strategy, strategy.stores.include(store)));
    let there = stores.into_iter().filter(|(_, included)| *included);
    there.map(|(strategy, _)| strategy)
}

/// Returns the strategy with this name.
pub fn find(name: &str) -> Option<&'static Strategy> {
    let all = ALL.into_iter().chain(ASIDE);
    all.into_iter().find(|strategy| strategy.name == name)
}

/// Returns the strategy of ours that a run was about; `None` if it was about a program of the user, or about a strategy that is no longer in
/// the list.
pub(crate) fn of_run(header: &Header) -> Option<&'static Strategy> {
    find(&header.strategy).filter(|_| !is_of_external(header))
}

/// Returns whether a run was about a program of the user. Histories of earlier versions do not say so; of them, only the name is known.
pub(crate) fn is_of_external(header: &Header) -> bool {
    let has_unknown_name = || find(&header.strategy).is_none();
    header.external.unwrap_or_else(has_unknown_name)
}

/// Returns the claims of the lock in a run: those that its header records, otherwise those in the list.
///
/// For a lock of ours, the fields about how it works always come from the list, because histories of earlier versions do not
/// contain them.
pub fn claims_of(header: &Header) -> Claims {
    let recorded = header.holds.map(|holds| holds.claims).or(header.claims);
    match (recorded, of_run(header)) {
        (Some(recorded), Some(strategy)) => Claims {
            ends_with_server: recorded.ends_with_server || is_of_connections(strategy, header),
            ..recorded.made_like(strategy.claims)
        },
        (Some(recorded), None) => recorded,
        (None, strategy) => strategy.map_or_else(Claims::default, |strategy| strategy.claims),
    }
}

/// Returns whether the leases of a strategy of ours belonged to connections. Histories of earlier versions do not say that of the library's
/// advisory locks.
fn is_of_connections(strategy: &Strategy, header: &Header) -> bool {
    let is_library = OF_LIBRARY
        .into_iter()
        .any(|one| std::ptr::eq(one, strategy));
    let store = TrialStore::named(&header.store);
    is_library && store.is_some_and(|store| store.has_advisory_locks())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::header;
    use crate::holds::{Scenario, Trial};
    use crate::protocol::Promise;

    #[test]
    fn a_header_says_whose_a_lock_is_whatever_its_name() {
        let run_of = |name: &str, external: Option<bool>| Header {
            strategy: name.into(),
            external,
            ..header(1, 2, Promise::Exclusion)
        };
        for (name, external, is_external) in [
            ("safe", Some(true), true),
            ("safe", Some(false), false),
            // A strategy that was ours once.
            ("bygone", Some(false), false),
            ("python3 my_lock.py", Some(true), true),
            // Earlier versions tell it by the name.
            ("safe", None, false),
            ("python3 my_lock.py", None, true),
        ] {
            let header = run_of(name, external);
            assert_eq!(is_of_external(&header), is_external, "{name} {external:?}");
            let ours = of_run(&header).map(|strategy| strategy.name);
            let expected = (name == "safe" && !is_external).then_some("safe");
            assert_eq!(ours, expected, "{name} {external:?}");
        }
        // What is known of our lock is not true of another one of that name.
        assert!(!claims_of(&run_of("watchdog", Some(true))).keep_alive);
        assert!(claims_of(&run_of("watchdog", Some(false))).keep_alive);
    }

    #[test]
    fn a_trial_of_an_external_lock_is_none_of_our_strategy() {
        let trial = Trial::new(Scenario::Crash, find("safe").unwrap(), 7);
        let mut header = trial.header();
        assert_eq!(header.external, Some(false));
        assert!(Trial::of(&header).is_some());
        header.external = Some(true);
        assert!(Trial::of(&header).is_none());
    }
}
