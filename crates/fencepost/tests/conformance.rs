//! Every backend × every trial it promises to pass, each as a test of its own.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;

use fencepost::Backend;
use fencepost::backend::Capabilities;
use fencepost::backend::memory::Memory;
use fencepost::backend::redis::Redis;
#[cfg(feature = "redlock")]
use fencepost::backend::redlock::Redlock;
use fencepost::backend::sqlite::Sqlite;
use fencepost::conformance::{Subject, trials};
use libtest_mimic::{Arguments, Trial};
use tempfile::TempDir;

/// A store for one trial, and the folder or server that must live as long.
type Stage = (Subject, Box<dyn Any>);

fn main() {
    let arguments = Arguments::from_args();
    let mut tests = Vec::new();
    tests.extend(tests_of("memory", Memory::new().capabilities(), memory));
    tests.extend(tests_of("sqlite", Sqlite::CAPABILITIES, sqlite));
    tests.extend(tests_of("redis", Redis::CAPABILITIES, redis));
    #[cfg(feature = "redlock")]
    tests.extend(tests_of("redlock", Redlock::CAPABILITIES, redlock));
    libtest_mimic::run(&arguments, tests).exit();
}

async fn memory() -> Stage {
    (Subject::new(Arc::new(Memory::new())), Box::new(()))
}

/// One file through two connections, as two processes would have it.
async fn sqlite() -> Stage {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("locks.db");
    let [one, other] =
        [(), ()].map(|()| Arc::new(Sqlite::open_blocking(&path).expect("a new file")));
    let subject = Subject::with_two_connections(one, other);
    (subject, Box::new(folder))
}

/// A server of its own through two connections.
async fn redis() -> Stage {
    let server = fencepost_rig::Redis::start().expect("a private redis-server");
    let connect = async || Redis::open(&server.url()).await.expect("a connection");
    let (one, other) = (connect().await, connect().await);
    let subject = Subject::with_two_connections(Arc::new(one), Arc::new(other));
    (subject, Box::new(server))
}

/// Three servers of its own through two connections to each.
#[cfg(feature = "redlock")]
async fn redlock() -> Stage {
    let servers = [(); 3].map(|()| fencepost_rig::Redis::start().expect("a private redis-server"));
    let addresses = servers
        .each_ref()
        .map(|server| server.address().to_string());
    let address = format!("redlock://{}", addresses.join(","));
    let connect = async || Redlock::open(&address).await.expect("a connection");
    let (one, other) = (connect().await, connect().await);
    let subject = Subject::with_two_connections(Arc::new(one), Arc::new(other));
    (subject, Box::new(servers))
}

fn tests_of<F>(store: &'static str, capabilities: Capabilities, stage: fn() -> F) -> Vec<Trial>
where
    F: Future<Output = Stage> + 'static,
{
    let applicable = trials().filter(|trial| trial.applies_to(capabilities));
    let test = |trial: &'static fencepost::conformance::Trial| {
        Trial::test(format!("{store}::{}", trial.name()), move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                let (subject, _store) = stage().await;
                trial.run(subject).await;
            });
            Ok(())
        })
    };
    applicable.map(test).collect()
}
