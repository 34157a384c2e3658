//! The embedded store: exclusion, the line, cancellation, reboots, bad files, other programs.
#![cfg(all(feature = "sqlite", target_os = "linux"))]
#![allow(clippy::unwrap_used)]

mod cancellation;
mod exclusion;
mod files;
mod line;
mod other_programs;
mod reboot;
mod stage;
mod support;
