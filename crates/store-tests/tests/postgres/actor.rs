//! Children of the tests of Postgres advisory locks.

use std::sync::Arc;

use fencepost::stores::postgres::Postgres;
use fencepost::{Guard, Locker};
use fencepost_store_tests::actor::{NoVerb, Opener, Wrote};
use serde::{Deserialize, Serialize};

use crate::support::{Eyes, open};

/// The address of a server. The lock protects the row `fenced` there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct At(pub(crate) String);

impl Opener for At {
    type Store = Postgres;
    type Verb = NoVerb;

    async fn open(&self) -> Arc<Postgres> {
        open(&self.0).await
    }

    async fn write(&self, _: &Arc<Postgres>, guard: &Guard) -> Wrote {
        let eyes = Eyes::open(&self.0).await;
        if write(&eyes, guard.fence().as_i64(), "late").await {
            Wrote::Through
        } else {
            Wrote::Refused
        }
    }

    async fn perform(&self, verb: &NoVerb, _: &Arc<Postgres>, _: &Locker) {
        match *verb {}
    }
}

/// Writes to the row `fenced` unless a later fence has been there. Returns whether the write was accepted.
pub(crate) async fn write(eyes: &Eyes, fence: i64, text: &str) -> bool {
    let statement = format!(
        "update fenced set fence = {fence}, text = '{text}' where fence <= {fence} returning 1"
    );
    eyes.text(&statement).await == "1"
}
