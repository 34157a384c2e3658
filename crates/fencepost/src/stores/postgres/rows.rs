//! Sends a statement as text, and reads the rows of its answer.

use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow};

use super::connect::Connection;
use super::{STORE, failure};
use crate::error::{Operation, Result};

/// Sends the statement, and returns the rows of its answer.
pub(super) async fn rows(
    connection: &Connection,
    operation: Operation,
    statement: &str,
) -> Result<Vec<SimpleQueryRow>> {
    let answer = connection.client.simple_query(statement).await;
    let messages = answer.map_err(|cause| {
        let said = if cause.is_closed() {
            connection.last_words()
        } else {
            None
        };
        match said {
            Some(said) => failure::of_ending(STORE, operation, said),
            None => failure::of_statement(STORE, operation, cause),
        }
    })?;
    let rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    Ok(rows.collect())
}

/// Returns the number in this column, or `None` if there is none.
pub(super) fn number<T: std::str::FromStr>(row: &SimpleQueryRow, column: usize) -> Option<T> {
    row.try_get(column).ok().flatten()?.parse().ok()
}

/// Returns the text in this column, which is empty if there is none.
pub(super) fn text(row: &SimpleQueryRow, column: usize) -> &str {
    row.try_get(column).ok().flatten().unwrap_or_default()
}
