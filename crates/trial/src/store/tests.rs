//! The grounds that tests use, on every store of this machine, and the tests of what all grounds have in common.

use std::path::Path;

use super::*;
use fencepost::stores::kinds::{POSTGRES, REDIS};
use fencepost_rig::{Redis, ServerError};

/// Starts a private server. If none is installed, says so and returns `None`.
pub(crate) fn redis() -> Option<Redis> {
    match Redis::start() {
        Ok(server) => Some(server),
        Err(ServerError::NotInstalled { .. }) => {
            println!("skipped: no redis-server ({})", Redis::INSTALL);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A Postgres server for a test: the one that all tests share, or a private one that lives as long as its keeper.
pub(crate) struct SomePostgres {
    url: String,
    _keeper: Option<fencepost_rig::Postgres>,
}

impl SomePostgres {
    pub(crate) fn store(&self) -> TrialStore {
        TrialStore::private(&POSTGRES).at(self.url.clone())
    }
}

/// Returns `None` if none is installed, and says so, or if this build does not support Postgres.
pub(crate) fn postgres() -> Option<SomePostgres> {
    use fencepost_rig::{Postgres, ServerError};
    if !cfg!(feature = "postgres") {
        return None;
    }
    if let Ok(url) = std::env::var("FENCEPOST_SHARED_POSTGRES") {
        return Some(SomePostgres { url, _keeper: None });
    }
    match Postgres::start() {
        Ok(server) => Some(SomePostgres {
            url: server.url(),
            _keeper: Some(server),
        }),
        Err(error @ ServerError::NotInstalled { .. }) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Clears its grounds when dropped: schemas on a server that others also use.
struct Cleared(Vec<Ground>);

impl Drop for Cleared {
    fn drop(&mut self) {
        for ground in &self.0 {
            let _ = ground.clear();
        }
    }
}

/// The servers that are available on this machine.
pub(crate) struct Servers {
    redis: Option<Redis>,
    postgres: Option<SomePostgres>,
}

pub(crate) fn servers() -> Servers {
    Servers {
        redis: redis(),
        postgres: postgres(),
    }
}

impl Servers {
    /// Returns every store that is available on this machine.
    pub(crate) fn stores(&self) -> Vec<TrialStore> {
        let redis = self.redis.as_ref();
        let redis = redis.map(|server| TrialStore::private(&REDIS).at(server.url()));
        let postgres = self.postgres.as_ref().map(SomePostgres::store);
        let all = [Some(TrialStore::sqlite()), redis, postgres];
        all.into_iter().flatten().collect()
    }

    /// Returns fresh grounds, which exist as long as their keeper.
    pub(crate) fn grounds(&self, stores: &[TrialStore]) -> (impl Sized + use<>, Vec<Ground>) {
        let folder = tempfile::tempdir().unwrap();
        let grounds = stores.iter().map(|store| store.ground(folder.path()));
        let grounds: Vec<Ground> = grounds.collect();
        for ground in &grounds {
            ground.prepare().unwrap();
        }
        ((Cleared(grounds.clone()), folder), grounds)
    }
}

/// Returns every ground that is available on this machine, each freshly prepared, together with their keeper.
pub(crate) fn grounds() -> (impl Sized, Vec<Ground>) {
    let servers = servers();
    let (keeper, grounds) = servers.grounds(&servers.stores());
    ((keeper, servers), grounds)
}

#[test]
fn an_endpoint_names_its_ground() {
    for endpoint in [
        "sqlite:/tmp/run.db",
        "redis://127.0.0.1:6379#a",
        "postgres://127.0.0.1/shop#a",
    ] {
        assert_eq!(Ground::parse(endpoint).unwrap().to_string(), endpoint);
    }
    assert_eq!(Ground::parse("mysql://x"), None);
}

#[test]
fn servers_for_locks_come_with_a_file() {
    let store = TrialStore::named("etcd://127.0.0.1:2379,127.0.0.1:2479").unwrap();
    let ground = store.ground(Path::new("/tmp"));
    let endpoints = ground.endpoints();
    assert_eq!(endpoints[1], "sqlite:/tmp/run.db");
    assert_eq!(Ground::among(&endpoints), Ok(ground));
    assert!(Ground::among(&endpoints[..1]).is_err());
}

#[test]
fn each_trial_has_a_ground_of_its_own_and_leaves_nothing() {
    if let Some(server) = redis() {
        apart_and_nothing_left(&TrialStore::private(&REDIS).at(server.url()));
    }
    if let Some(database) = postgres() {
        apart_and_nothing_left(&database.store());
    }
}

fn apart_and_nothing_left(store: &TrialStore) {
    let [one, two] = [(); 2].map(|()| store.ground(Path::new("")));
    one.prepare().unwrap();
    two.prepare().unwrap();
    one.stock().unwrap().write("product_A", 1).unwrap();
    two.stock().unwrap().write("product_A", 2).unwrap();
    assert_eq!(one.stock().unwrap().read("product_A").unwrap(), 1);
    one.clear().unwrap();
    assert!(one.stock().unwrap().read("product_A").is_err());
    assert_eq!(two.stock().unwrap().read("product_A").unwrap(), 2);
    two.clear().unwrap();
}

#[test]
fn a_server_that_is_not_there_is_a_certain_failure() {
    let mut nowhere = vec![Ground::Redis("redis://127.0.0.1:1".into())];
    if cfg!(feature = "postgres") {
        nowhere.push(Ground::Postgres("postgres://u@127.0.0.1:1/d#x".into()));
    }
    for ground in nowhere {
        let failure = ground.prepare().unwrap_err();
        assert!(failure.definite, "{failure}");
        assert!(failure.message.contains("no connection"), "{failure}");
    }
}

/// The server of a user may have millions of keys.
#[test]
fn a_trial_on_redis_begins_without_a_look_at_the_keys_of_others() {
    let Some(server) = redis() else { return };
    let scans = || {
        let client = ::redis::Client::open(server.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        let asked = ::redis::cmd("INFO").arg("commandstats").clone();
        let stats: String = asked.query(&mut connection).unwrap();
        stats.matches("cmdstat_scan:").count()
    };
    let store = TrialStore::private(&REDIS).at(server.url());
    let ground = store.ground(Path::new("unused"));
    ground.prepare().unwrap();
    assert_eq!(scans(), 0, "before the trial");
    ground.stock().unwrap().write("lamp", 1).unwrap();
    ground.clear().unwrap();
    assert_eq!(scans(), 1, "to clear up, once");
}
