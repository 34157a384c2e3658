//! The parameters of an address that concern locks: `requeue_after` and `fence`, and those of leases in a table, which are refused here.

use std::time::Duration;

use super::STORE;
use super::address::Parameters;
use super::fence::Source;
use crate::error::{Error, Result};
use crate::stores::kit::times;

/// The names of these parameters.
pub(super) const NAMES: &[&str] = &["requeue_after", "fence", "table", "create"];

/// Refuses the parameters of `stores::postgres_table`, and says what to do instead.
pub(super) fn refuse_those_of_a_table(parameters: &Parameters) -> Result<()> {
    let has = |name| value(parameters, name).is_some();
    if has("table") {
        return Err(invalid(
            "table is about leases in a table: open the address with PostgresTable or stores::open",
        ));
    }
    if has("create") {
        return Err(invalid(
            "create is about the table, and the address names none: ?table=shedlock&create=true",
        ));
    }
    Ok(())
}

/// Parses `requeue_after=10s`, `requeue_after=500ms` or `requeue_after=never`.
pub(super) fn requeue_after(parameters: &Parameters) -> Result<Option<Duration>> {
    let Some(value) = value(parameters, "requeue_after") else {
        return Ok(None);
    };
    let duration = match value {
        "never" => Some(Duration::MAX),
        time => times::parse(time),
    };
    let message = "requeue_after in the address is a time such as 10s or 500ms, or never";
    duration.map(Some).ok_or_else(|| invalid(message))
}

/// Parses `fence=sequence` or `fence=transaction-id`.
pub(super) fn source(parameters: &Parameters, create: bool) -> Result<Source> {
    match value(parameters, "fence") {
        None | Some("sequence") => Ok(Source::Sequences { create }),
        Some("transaction-id") => Ok(Source::TransactionIds),
        Some(_) => Err(invalid(
            "fence in the address is sequence (the default) or transaction-id",
        )),
    }
}

/// Returns the value of a parameter. If it occurs several times, the last one counts.
fn value<'a>(parameters: &'a Parameters, name: &str) -> Option<&'a str> {
    let mut named = parameters.iter().rev().filter(|(own, _)| own == name);
    named.next().map(|(_, value)| value.as_str())
}

fn invalid(message: &'static str) -> Error {
    Error::invalid_settings(STORE, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::stores::postgres::{Postgres, PostgresBuilder};

    fn requeues_after(builder: PostgresBuilder) -> Result<Duration> {
        builder.hub().map(|hub| hub.settings.requeue_after)
    }

    #[test]
    fn what_is_about_a_table_is_refused_with_advice() {
        for (query, advice) in [
            ("?table=shedlock", "PostgresTable"),
            ("?create=true", "?table=shedlock&create=true"),
        ] {
            let builder = Postgres::builder(&format!("postgres://u:hunter2@h/d{query}"));
            let error = builder.hub().err().expect(query);
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            assert!(error.to_string().contains(advice), "{error}");
        }
    }

    #[test]
    fn the_bound_of_a_wait_is_in_the_address_or_set() {
        let of = |query: &str| Postgres::builder(&format!("postgres://u@h/d{query}"));
        let seconds = |seconds| Duration::from_secs(seconds);
        assert_eq!(requeues_after(of("")).unwrap(), seconds(10));
        for (query, expected) in [
            ("?requeue_after=3s", seconds(3)),
            ("?requeue_after=500ms", Duration::from_millis(500)),
            ("?requeue_after=never&connect_timeout=3", Duration::MAX),
            ("?requeue_after=3s&fence=sequence", seconds(3)),
        ] {
            assert_eq!(requeues_after(of(query)).unwrap(), expected, "{query}");
        }
        let set = of("?requeue_after=3s").requeue_after(seconds(7));
        assert_eq!(requeues_after(set).unwrap(), seconds(7));
        for wrong in ["", "10", "s", "-1s", "0s", "soon"] {
            let error = requeues_after(of(&format!("?requeue_after={wrong}"))).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{wrong}");
        }
    }
}
