//! `unique-index`: whoever can insert the row has the lock, and deletes the row at the end.
//!
//! What is wrong: the row outlives its holder. Nothing in it says until when it counts, and nobody else may delete it.

use super::database;
use super::{Claim, Group, PLAIN, Stores, Strategy};
use crate::protocol::Claims;
use crate::verdict::Outcome;

pub(super) static STRATEGY: Strategy = Strategy {
    name: "unique-index",
    group: Group::Database,
    stores: Stores::Postgres,
    summary: "inserts a row under a unique index, deletes it at the end",
    gloss: "",
    flaw: Some("unique-index leaves its row behind when its holder dies: nobody ever deletes it."),
    claim: Claim::Exclusion,
    claims: Claims {
        untimed: true,
        ..PLAIN
    },
    remark: |_, outcome| match outcome {
        Outcome::Held => "flaw not met: see crash".into(),
        _ => String::new(),
    },
    open: database::buyer_by_row,
    lock: Some(database::lock_by_row),
};
