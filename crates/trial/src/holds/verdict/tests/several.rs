//! Trials in which several names are held, several turns taken, or several processes wait.

mod deadline;
mod names;
mod reentry;
mod same_pid;
mod turns;
mod waiters;

use super::*;
