//! Wrong answers and wrong requests, made from right ones.

use std::time::Duration;

use fencepost::backend::{Listed, Record};
use fencepost::{Claim, Grant, LockName};

pub(crate) fn asked_an_hour_ago(grant: Grant) -> Grant {
    let asked_at = grant.asked_at.saturating_sub(Duration::from_secs(3600));
    Grant::new(grant.epoch, asked_at, grant.lease)
}

pub(crate) fn with_one_epoch(grant: Grant) -> Grant {
    Grant::new(1, grant.asked_at, grant.lease)
}

pub(crate) fn for_a_thousand_ttls(mut claim: Claim) -> Claim {
    claim.ttl *= 1000;
    claim
}

pub(crate) fn for_a_part_of_the_ttl(mut claim: Claim) -> Claim {
    claim.ttl /= 20;
    claim
}

fn renamed(mut claim: Claim, name: &str) -> Claim {
    claim.name = LockName::new(name).expect("a valid name");
    claim
}

pub(crate) fn of_the_same_name(claim: Claim) -> Claim {
    renamed(claim, "the-lock")
}

pub(crate) fn in_lower_case(claim: Claim) -> Claim {
    let name = claim.name.as_str().to_lowercase();
    renamed(claim, &name)
}

pub(crate) fn with_a_short_name(claim: Claim) -> Claim {
    let name: String = claim.name.as_str().chars().take(100).collect();
    renamed(claim, &name)
}

pub(crate) fn without_an_epoch(mut record: Option<Record>) -> Option<Record> {
    if let Some(holder) = record.as_mut().and_then(|record| record.holder.as_mut()) {
        holder.epoch = None;
    }
    record
}

pub(crate) fn even_if_free(record: Option<Record>) -> Option<Record> {
    record.or_else(|| Some(Record::new(None, Vec::new())))
}

pub(crate) fn the_newest_waiter_first(mut record: Option<Record>) -> Option<Record> {
    if let Some(record) = &mut record {
        record.waiting.reverse();
    }
    record
}

pub(crate) fn without_held_locks(mut listed: Vec<Listed>) -> Vec<Listed> {
    listed.retain(|lock| lock.record.holder.is_none());
    listed
}
