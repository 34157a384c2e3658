//! Converts numbers and moments between Rust and SQLite, whose integers are signed.

use rusqlite::Row;

use crate::clock::Moment;

pub(super) fn moment(row: &Row<'_>, column: usize) -> rusqlite::Result<Moment> {
    unsigned(row, column).map(Moment::from_nanos)
}

pub(super) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

/// Converts a moment; 2⁶³ ns are 292 years.
pub(super) fn to_sql(moment: Moment) -> i64 {
    i64::try_from(moment.as_nanos()).unwrap_or(i64::MAX)
}
