//! Trials in which several names are held, several turns taken, or several processes wait.

mod deadline;
mod names;
mod reentry;
mod turns;
mod waiters;

use super::*;
