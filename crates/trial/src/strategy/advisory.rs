//! `advisory`: a lock of the session on a number that the program makes of a name, given back after the commit.

use super::database::{self, Kind};
use super::{Group, Remark, Stores, Strategy};
use crate::protocol::{Claims, Promise};

pub(super) static STRATEGY: Strategy = Strategy {
    name: "advisory",
    group: Group::Database,
    stores: Stores::Postgres,
    summary: "a lock of the session on a number, given back after the commit (pg_advisory_lock)",
    gloss: "",
    flaw: None,
    claim: Promise::Exclusion,
    claims: Claims::OF_SESSION,
    remark: Remark::Nothing,
    open: |setup| database::buyer(setup, Kind::Advisory),
    lock: Some(|setup| database::lock(setup, Kind::Advisory)),
};
