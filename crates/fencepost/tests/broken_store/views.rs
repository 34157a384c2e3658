//! Breaches in what the store shows.

use std::collections::BTreeMap;
use std::sync::Mutex;

use fencepost::backend::{Listed, Record, Waiter};
use fencepost::{Backend, Claim, Grant, LockName};

use crate::breach::{Answer, Breach, Store, lock};

/// Changes every record.
#[derive(Debug)]
pub(crate) struct Showing(pub(crate) fn(Option<Record>) -> Option<Record>);

impl Breach for Showing {
    fn inspect<'a>(&'a self, store: &'a Store, name: &'a LockName) -> Answer<'a, Option<Record>> {
        Box::pin(async move { Ok((self.0)(store.inspect(name).await?)) })
    }
}

/// Changes every list.
#[derive(Debug)]
pub(crate) struct Listing(pub(crate) fn(Vec<Listed>) -> Vec<Listed>);

impl Breach for Listing {
    fn list<'a>(&'a self, store: &'a Store, pattern: Option<&'a str>) -> Answer<'a, Vec<Listed>> {
        Box::pin(async move { Ok((self.0)(store.list(pattern).await?)) })
    }
}

/// Lists everything, whatever the pattern.
#[derive(Debug)]
pub(crate) struct ListIgnoresPatterns;

impl Breach for ListIgnoresPatterns {
    fn list<'a>(&'a self, store: &'a Store, _: Option<&'a str>) -> Answer<'a, Vec<Listed>> {
        store.list(None)
    }
}

/// Lists whatever it has listed before.
#[derive(Debug, Default)]
pub(crate) struct ListForgetsNothing(Mutex<BTreeMap<String, Record>>);

impl Breach for ListForgetsNothing {
    fn list<'a>(&'a self, store: &'a Store, pattern: Option<&'a str>) -> Answer<'a, Vec<Listed>> {
        Box::pin(async move {
            let listed = store.list(pattern).await?;
            let mut known = lock(&self.0);
            known.extend(listed.into_iter().map(|lock| (lock.name, lock.record)));
            let all = known.iter();
            Ok(all
                .map(|(name, record)| Listed::new(name.as_str(), record.clone()))
                .collect())
        })
    }
}

/// Puts those who only try in line for good.
#[derive(Debug, Default)]
pub(crate) struct TriesJoinTheLine(Mutex<Vec<Claim>>);

impl Breach for TriesJoinTheLine {
    fn try_acquire<'a>(&'a self, store: &'a Store, claim: &'a Claim) -> Answer<'a, Option<Grant>> {
        Box::pin(async move {
            let grant = store.try_acquire(claim).await?;
            if grant.is_none() {
                lock(&self.0).push(claim.clone());
            }
            Ok(grant)
        })
    }

    fn inspect<'a>(&'a self, store: &'a Store, name: &'a LockName) -> Answer<'a, Option<Record>> {
        Box::pin(async move {
            let mut record = store.inspect(name).await?;
            let tried = lock(&self.0);
            let here = tried.iter().filter(|claim| claim.name == *name);
            for claim in here {
                let shown = record.get_or_insert_with(|| Record::new(None, Vec::new()));
                let waiter = Waiter::new(claim.label.clone(), Default::default());
                shown.waiting.push(waiter);
            }
            Ok(record)
        })
    }
}
