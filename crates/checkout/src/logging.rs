//! Sets up logging to standard error: failures always, and every request if a format is given.

use std::io;

use tracing::Level;
use tracing_subscriber::fmt;

/// How requests are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON document for each line.
    Json,
}

/// Starts logging to standard error: warnings and errors, and with a format also every request.
pub fn install(format: Option<LogFormat>) {
    let level = match format {
        Some(_) => Level::INFO,
        None => Level::WARN,
    };
    let log = fmt()
        .with_max_level(level)
        .with_writer(io::stderr)
        // Standard error may be a closed terminal; reporting that there would panic.
        .log_internal_errors(false)
        .with_ansi(false);
    // If another subscriber was installed before, keep it.
    let _ = match format {
        Some(LogFormat::Json) => log.json().flatten_event(true).try_init(),
        _ => log.with_target(false).try_init(),
    };
}
