//! `lease`: a row says who has the lock until when, by the database's clock, as ShedLock does it; rows are never deleted.
//!
//! It keeps a second one out as long as it lasts, and no longer: its holder is not asked again, and the stock knows no fence.

use super::database;
use super::{Group, Remark, Stores, Strategy};
use crate::protocol::{Claims, Promise};

pub(super) static STRATEGY: Strategy = Strategy {
    name: "lease",
    group: Group::Database,
    stores: Stores::Postgres,
    summary: "a row with an end by the database's clock, as ShedLock's; no keep-alive",
    gloss: "",
    flaw: Some(
        "A lease ends by the clock, whether or not its holder is done; the stock never asks.",
    ),
    claim: Promise::Exclusion,
    claims: Claims::PLAIN,
    remark: Remark::Nothing,
    open: database::buyer_by_lease,
    lock: Some(database::lock_by_lease),
};
