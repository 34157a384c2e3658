//! Examines a Postgres server, for advisory locks or for leases in a table.

use std::time::Duration;

use fencepost::Error;
use fencepost::stores::postgres::Postgres;

use super::pace::{self, CLOCK_CHECKS, Clock, ROUND_TRIP_CHECKS};
use super::reach::{refused, until_it_answers};
use super::rules::apply;
use super::{ANSWER_TIMEOUT, Examination};
use crate::command_error::CommandError;
use crate::store::LockStore;

mod facts;
mod pooler;
mod readings;
mod rules;

use facts::Facts;
use readings::{Kind, Readings};
pub(super) use rules::CHECKS;

pub(super) async fn examine(
    store: &LockStore,
    address: &str,
    slow: Duration,
) -> Result<Examination, CommandError> {
    let failed = |error: Error| refused(store, &error);
    let connection = until_it_answers(|| Postgres::visit(address, ANSWER_TIMEOUT)).await;
    let connection = connection.map_err(failed)?;
    let readings = Readings::of(&connection, address).await.map_err(failed)?;
    let mut findings = apply(CHECKS, &readings);
    let times = pace::times(&readings.samples, slow);
    findings.extend(apply(ROUND_TRIP_CHECKS, &Ok(times)));
    // Advisory locks end with their sessions, and setting the server's clock does not affect when those end.
    let keeper = (readings.kind == Kind::Table).then_some("The table");
    let clock = Clock::of(&readings.samples, keeper);
    findings.extend(apply(CLOCK_CHECKS, &clock));
    Ok(Examination {
        address: store.place(),
        server: describe(&readings.facts),
        findings,
    })
}

fn describe(facts: &Facts) -> String {
    let role = if facts.is_standby() {
        "a standby"
    } else {
        "a primary"
    };
    format!(
        "Postgres {}, {role}, up {}, as user {}",
        facts.version(),
        super::uptime(facts.number("uptime").unwrap_or_default()),
        facts.user()
    )
}
