//! The log: what went wrong, always; every request as well, where that is asked for.

use std::io;

use tracing::Level;
use tracing_subscriber::fmt;

/// How requests are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Log {
    /// A line for people.
    Text,
    /// A JSON document on a line.
    Json,
}

/// Writes to standard error, from now on: warnings and errors, and with a format also every request.
pub fn install(format: Option<Log>) {
    let level = match format {
        Some(_) => Level::INFO,
        None => Level::WARN,
    };
    let log = fmt()
        .with_max_level(level)
        .with_writer(io::stderr)
        // Standard error may be a terminal that was closed: complaining there about that would panic.
        .log_internal_errors(false)
        .with_ansi(false);
    // Somebody else may have installed one before: theirs it is.
    let _ = match format {
        Some(Log::Json) => log.json().flatten_event(true).try_init(),
        _ => log.with_target(false).try_init(),
    };
}
