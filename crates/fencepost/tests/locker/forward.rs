//! [`forward`]: for stores that change one request of the store in their field `inner` and pass on the others.

/// Implements these methods of `Backend` by those of the field `inner`.
macro_rules! forward {
    ($($method:ident),+) => {
        $(crate::forward::forward!(@ $method);)+
    };
    (@ capabilities) => {
        fn capabilities(&self) -> fencepost::backend::Capabilities {
            self.inner.capabilities()
        }

        fn records(&self) -> Option<&dyn fencepost::backend::records::Records> {
            self.inner.records()
        }
    };
    (@ try_acquire) => {
        fn try_acquire<'a>(
            &'a self,
            claim: &'a fencepost::Claim,
        ) -> fencepost::clock::BoxFuture<'a, fencepost::Result<Option<fencepost::Grant>>> {
            self.inner.try_acquire(claim)
        }
    };
    (@ acquire) => {
        fn acquire<'a>(
            &'a self,
            claim: &'a fencepost::Claim,
            wait: &'a fencepost::backend::Wait,
        ) -> fencepost::clock::BoxFuture<'a, fencepost::Result<fencepost::Grant>> {
            self.inner.acquire(claim, wait)
        }
    };
    (@ renew) => {
        fn renew<'a>(
            &'a self,
            claims: &'a [fencepost::Claim],
        ) -> fencepost::clock::BoxFuture<'a, Vec<fencepost::Result<fencepost::backend::Renewal>>> {
            self.inner.renew(claims)
        }
    };
    (@ release) => {
        fn release<'a>(
            &'a self,
            claim: &'a fencepost::Claim,
        ) -> fencepost::clock::BoxFuture<'a, fencepost::Result<fencepost::backend::Release>> {
            self.inner.release(claim)
        }
    };
    (@ inspect) => {
        fn inspect<'a>(
            &'a self,
            name: &'a fencepost::LockName,
        ) -> fencepost::clock::BoxFuture<'a, fencepost::Result<Option<fencepost::backend::Record>>> {
            self.inner.inspect(name)
        }
    };
    (@ list) => {
        fn list<'a>(
            &'a self,
            pattern: Option<&'a str>,
        ) -> fencepost::clock::BoxFuture<'a, fencepost::Result<Vec<fencepost::backend::Listed>>> {
            self.inner.list(pattern)
        }
    };
}

pub(crate) use forward;
