//! Servers that are absent, wrong, full, or silent.

use fencepost::backend::redis::Redis;
use fencepost::{Effect, ErrorKind};

use crate::support::{Server, run, soon};

/// Nothing listens there.
pub(crate) fn absent() {
    run(async {
        let server = Server::start();
        let url = server.0.url();
        drop(server);
        let error = soon("an error", Redis::open(&url)).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Unavailable, Effect::None),
            "{error}"
        );
    });
}
