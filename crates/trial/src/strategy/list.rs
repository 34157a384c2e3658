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

/// The strategies that only one trial, or a few, are about. Tables leave them out.
static ASIDE: [&Strategy; 5] = [
    &watchdog::IN_LINE,
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

/// Returns whether a run was about a program of the user, or about a strategy that is no longer in the list.
///
/// Of a saved history only the name is known: histories of earlier versions do not contain what an external lock claims in a sale.
pub(crate) fn is_of_external(header: &Header) -> bool {
    find(&header.strategy).is_none()
}

/// Returns the claims of the lock in a run: those that its header records, otherwise those in the list.
///
/// For a lock of ours, the fields about how it works always come from the list, because histories of earlier versions do not
/// contain them.
pub fn claims_of(header: &Header) -> Claims {
    let recorded = header.holds.map(|holds| holds.claims).or(header.claims);
    let known = find(&header.strategy).map(|strategy| strategy.claims);
    match (recorded, known) {
        (Some(recorded), Some(known)) => recorded.made_like(known),
        (recorded, known) => recorded.or(known).unwrap_or_default(),
    }
}
