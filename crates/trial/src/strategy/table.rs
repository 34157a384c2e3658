//! `table`: locks the whole table for the length of the transaction that sells (`LOCK TABLE … IN EXCLUSIVE MODE`).

use super::database::{self, Kind};
use super::{Group, Remark, Stores, Strategy};
use crate::protocol::{Claims, Promise};

pub(super) static STRATEGY: Strategy = Strategy {
    name: "table",
    group: Group::Database,
    stores: Stores::Postgres,
    summary: "locks the whole table until its transaction commits (LOCK TABLE)",
    gloss: "",
    flaw: None,
    claim: Promise::Exclusion,
    claims: Claims::OF_SESSION,
    remark: Remark::Always("every product waits"),
    open: |setup| database::buyer(setup, Kind::Table),
    lock: Some(|setup| database::lock(setup, Kind::Table)),
};
