//! The leaders of a [`FlakyStore`]: questions fail like reads of records, and proclamations like their replacements.

use super::FlakyStore;
use crate::backend::leaders::{Leaders, Proclamation, Standing};
use crate::claim::{Claim, LockName};
use crate::clock::BoxFuture;
use crate::error::{Operation, Result};

impl FlakyStore {
    fn kept_leaders(&self) -> &dyn Leaders {
        let leaders = self.inner.leaders();
        leaders.expect("`leaders` returns this only if the inner store has leaders")
    }
}

impl Leaders for FlakyStore {
    fn proclaim<'a>(
        &'a self,
        claim: &'a Claim,
        epoch: u64,
        value: &'a str,
    ) -> BoxFuture<'a, Result<Proclamation>> {
        let request = self.kept_leaders().proclaim(claim, epoch, value);
        Box::pin(self.meddle(Operation::ReplaceRecord, request))
    }

    fn leader<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Standing>> {
        Box::pin(self.meddle(Operation::ReadRecord, self.kept_leaders().leader(name)))
    }

    fn changed<'a>(&'a self, name: &'a LockName, seen: &'a Standing) -> BoxFuture<'a, ()> {
        self.kept_leaders().changed(name, seen)
    }
}
