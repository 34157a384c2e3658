//! Verdicts on servers that are out of action for a while, and come back with everything that they had.

use super::*;

mod deposed;
mod majority_down;
mod server_stall;
