//! `row`: locks the row of the product for the length of the transaction that sells it (`SELECT … FOR UPDATE`).

use super::database::{self, Kind};
use super::{Group, Remark, Stores, Strategy};
use crate::protocol::{Claims, Promise};

pub(super) static STRATEGY: Strategy = Strategy {
    name: "row",
    group: Group::Database,
    stores: Stores::Postgres,
    summary: "locks the product's row until its transaction commits (SELECT … FOR UPDATE)",
    gloss: "",
    flaw: None,
    claim: Promise::Exclusion,
    claims: Claims::OF_SESSION,
    remark: Remark::Nothing,
    open: |setup| database::buyer(setup, Kind::Row),
    lock: Some(|setup| database::lock(setup, Kind::Row)),
};
