//! Tests of the SQLite store: exclusion, the line, cancellation, reboots, records, bad files, and other programs.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod cancellation;
mod exclusion;
mod files;
mod line;
mod other_programs;
mod reboot;
mod records;
mod stage;
mod support;
