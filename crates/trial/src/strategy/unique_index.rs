//! `unique-index`: whoever can insert the row has the lock, and deletes the row at the end.
//!
//! What is wrong: the row outlives its holder. Nothing in it says until when it counts, and nobody else may delete it.

use super::database;
use super::{Group, Remark, Stores, Strategy};
use crate::protocol::{Claims, Promise};

pub(super) static STRATEGY: Strategy = Strategy {
    name: "unique-index",
    group: Group::Database,
    stores: Stores::Postgres,
    summary: "inserts a row under a unique index, deletes it at the end",
    gloss: "",
    flaw: Some("unique-index leaves its row behind when its holder dies: nobody ever deletes it."),
    claim: Promise::Exclusion,
    claims: Claims {
        untimed: true,
        ..Claims::PLAIN
    },
    remark: Remark::FlawShowsIn("crash"),
    open: database::buyer_by_row,
    lock: Some(database::lock_by_row),
};
