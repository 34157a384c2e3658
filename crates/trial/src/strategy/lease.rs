//! `lease`: a row says who has the lock until when, by the database's clock, as ShedLock does it; rows are never deleted.
//!
//! It keeps a second one out as long as it lasts, and no longer: its holder is not asked again, and the stock knows no fence.

use super::database;
use super::{Claim, Group, PLAIN, Stores, Strategy, no_remark};

pub(super) static STRATEGY: Strategy = Strategy {
    name: "lease",
    group: Group::Database,
    stores: Stores::Postgres,
    summary: "a row with an end by the database's clock, as ShedLock's; no keep-alive",
    gloss: "",
    flaw: Some(
        "A lease ends by the clock, whether or not its holder is done; the stock never asks.",
    ),
    claim: Claim::Exclusion,
    claims: PLAIN,
    remark: no_remark,
    open: database::buyer_by_lease,
    lock: Some(database::lock_by_lease),
};
