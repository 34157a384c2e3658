//! The embedded store: exclusion, the line, cancellation, reboots, bad files, other programs.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod cancellation;
mod exclusion;
mod files;
mod line;
mod other_programs;
mod reboot;
mod stage;
mod support;
