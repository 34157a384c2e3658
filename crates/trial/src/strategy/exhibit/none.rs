//! `none`: reads the stock, works, and writes it back.
//!
//! What is wrong: between the read and the write, other buyers read the same number. Two buyers take the same unit (an
//! oversell), or the write of one undoes that of the other (a lost update). Seen wherever a program subtracts in memory and
//! saves the result: the object-relational mapper's `product.stock -= 1; product.save()`.

use crate::protocol::{Claims, Promise};
use crate::strategy::direct;
use crate::strategy::{Group, Origin, Remark, Stores, Strategy, read_work_write};

/// The entry in the list of strategies.
pub static STRATEGY: Strategy = Strategy {
    name: "none",
    origin: Origin::Ours,
    group: Group::NoCoordination,
    // It uses no lock, so the sale is the same on every store.
    stores: Stores::All,
    summary: "reads the stock, works, writes it back; nothing keeps the others out",
    gloss: "no coordination",
    flaw: Some(
        "none reads the stock, works, writes it back; nothing keeps the others out meanwhile.",
    ),
    promise: Promise::Nothing,
    claims: Claims::PLAIN,
    has_line: false,
    remark: Remark::SameUnit,
    open: |setup| direct::buyer(setup, read_work_write),
    lock: None,
};
