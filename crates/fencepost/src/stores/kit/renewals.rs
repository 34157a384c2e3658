//! Renewals of many claims: in batches that are sent at once, and the answers if a whole batch fails.

use crate::backend::Renewal;
use crate::claim::Claim;
use crate::error::{Error, Result};

/// Returns the same error for every claim, because their common request failed.
pub(crate) fn all_failed(claims: &[Claim], error: &Error) -> Vec<Result<Renewal>> {
    claims.iter().map(|_| Err(error.clone())).collect()
}

/// Renews batches of at most `size` claims side by side. Returns the answers in the order of the claims.
#[cfg(any(feature = "redis", feature = "postgres", feature = "zookeeper"))]
pub(crate) async fn in_batches<'a, F>(
    claims: &'a [Claim],
    size: usize,
    renew_batch: impl Fn(&'a [Claim]) -> F,
) -> Vec<Result<Renewal>>
where
    F: Future<Output = Vec<Result<Renewal>>>,
{
    let batches = claims.chunks(size).map(renew_batch);
    let renewals = futures_util::future::join_all(batches).await;
    renewals.into_iter().flatten().collect()
}
