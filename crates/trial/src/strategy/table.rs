//! `table`: locks the whole table for the length of the transaction that sells (`LOCK TABLE … IN EXCLUSIVE MODE`).

use super::database::{self, Kind};
use super::{Claim, Group, OF_SESSION, Stores, Strategy};

pub(super) static STRATEGY: Strategy = Strategy {
    name: "table",
    group: Group::Database,
    stores: Stores::Postgres,
    summary: "locks the whole table until its transaction commits (LOCK TABLE)",
    gloss: "",
    flaw: None,
    claim: Claim::Exclusion,
    claims: OF_SESSION,
    remark: |_, _| "every product waits".into(),
    open: |setup| database::buyer(setup, Kind::Table),
    lock: Some(|setup| database::lock(setup, Kind::Table)),
};
