//! The conformance suite on a store that cannot renew: the requirements that depend on a renewal are not met.

use std::sync::Arc;

use fencepost::conformance::{Subject, requirements};
use fencepost::stores::memory::Memory;
use fencepost::{
    Backend, BoxFuture, Capabilities, Claim, Error, ErrorKind, Grant, Listed, LockName, Operation,
    Record, Release, Renewal, Result,
};

/// A store whose renewals all fail.
#[derive(Debug)]
struct NeverRenews(Memory);

impl Backend for NeverRenews {
    fn store_name(&self) -> &'static str {
        "never_renews"
    }
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }
    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Option<Grant>>> {
        self.0.try_acquire(claim)
    }
    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        let failed = |_| {
            let kind = ErrorKind::Unavailable;
            Err(Error::new(kind, "never_renews", Operation::Renew, "broken"))
        };
        Box::pin(async move { claims.iter().map(failed).collect() })
    }
    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Release>> {
        self.0.release(claim)
    }
    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Record>>> {
        self.0.inspect(name)
    }
    fn list<'a>(&'a self, pattern: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Listed>>> {
        self.0.list(pattern)
    }
}

async fn run(name: &str) {
    let requirement = requirements().find(|one| one.name() == name);
    let requirement = requirement.expect("a requirement of this name");
    let store = NeverRenews(Memory::new());
    requirement.run(Subject::new(Arc::new(store))).await;
}

#[tokio::test]
#[should_panic(expected = "lost its lease ten times in a row")]
async fn a_store_that_cannot_renew_does_not_keep_a_guard_alive() {
    run("a_guard_is_kept_alive_beyond_its_ttl").await;
}

#[tokio::test]
#[should_panic(expected = "did not report a forced release")]
async fn a_store_that_cannot_renew_does_not_report_a_forced_release() {
    run("a_forced_release_is_noticed").await;
}
