//! Writes that come late: on their way for too long, or after somebody else has read.

use super::*;

mod late_write;
mod write_only_fence;
