//! Replaces the Postgres support in builds without it: such a build can judge a history from Postgres, but cannot run a trial
//! there.

use std::time::Duration;

use super::not_reached::NotReached;
use crate::protocol::Failure;
use crate::store::latch::Latches;
use crate::store::stock::Stock;

const ABSENT: &str = "the lab was built without Postgres (cargo feature postgres)";

fn absent<T>() -> Result<T, Failure> {
    Err(Failure::definite(ABSENT))
}

pub(crate) fn prepare(_endpoint: &str) -> Result<(), Failure> {
    absent()
}

pub(crate) fn clear(_endpoint: &str) -> Result<(), Failure> {
    absent()
}

pub(crate) fn stock(_endpoint: &str) -> Result<Box<dyn Stock>, Failure> {
    absent()
}

pub(crate) fn latches(_endpoint: &str) -> Result<Box<dyn Latches>, Failure> {
    absent()
}

pub(crate) fn reach(_url: &str, _timeout: Duration) -> Result<(), NotReached> {
    Err(NotReached::Refuses(ABSENT.into()))
}

pub(crate) fn is_address(_: &str) -> bool {
    true
}
