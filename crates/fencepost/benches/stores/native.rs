//! The locks that stores or their Rust clients provide themselves, used as their users do.

use std::sync::Arc;

use etcd_client::{Client as EtcdClient, LockOptions};
use tokio_postgres::{Client, NoTls, Statement};

use crate::lock::Lock;

/// Postgres' advisory locks. They belong to a session, so each seat has its own connection.
#[derive(Clone)]
pub(crate) struct Advisory(Arc<Vec<Session>>);

struct Session {
    client: Client,
    lock: Statement,
    unlock: Statement,
}

impl Advisory {
    pub(crate) async fn open(address: &str, seats: usize) -> Self {
        let mut sessions = Vec::new();
        for _ in 0..seats {
            let connected = tokio_postgres::connect(address, NoTls).await;
            let (client, connection) = connected.expect("a session");
            tokio::spawn(connection);
            let lock = client.prepare("SELECT pg_advisory_lock($1)").await;
            let unlock = client.prepare("SELECT pg_advisory_unlock($1)").await;
            sessions.push(Session {
                client,
                lock: lock.expect("a statement"),
                unlock: unlock.expect("a statement"),
            });
        }
        Self(Arc::new(sessions))
    }
}

impl Lock for Advisory {
    type Held = (usize, i64);

    async fn lock(&self, seat: usize, name: usize) -> (usize, i64) {
        let session = &self.0[seat];
        let name = name as i64;
        let taken = session.client.query_one(&session.lock, &[&name]).await;
        taken.expect("the lock");
        (seat, name)
    }

    async fn unlock(&self, (seat, name): (usize, i64)) {
        let session = &self.0[seat];
        let freed = session.client.query_one(&session.unlock, &[&name]).await;
        assert!(
            freed.expect("an answer").get::<_, bool>(0),
            "held until now"
        );
    }
}

/// etcd's `Lock` service, through `etcd-client`; each seat has an existing lease.
#[derive(Clone)]
pub(crate) struct EtcdLock {
    client: EtcdClient,
    leases: Arc<Vec<i64>>,
}

/// A lease that is longer than any run.
const LEASE_SECONDS: i64 = 3_600;

impl EtcdLock {
    pub(crate) async fn open(address: &str, seats: usize) -> Self {
        let host = address.trim_start_matches("etcd://");
        let client = EtcdClient::connect([host], None).await;
        let mut client = client.expect("a connection");
        let mut leases = Vec::new();
        for _ in 0..seats {
            let lease = client.lease_grant(LEASE_SECONDS, None).await;
            leases.push(lease.expect("a lease").id());
        }
        Self {
            client,
            leases: Arc::new(leases),
        }
    }
}

impl Lock for EtcdLock {
    type Held = Vec<u8>;

    async fn lock(&self, seat: usize, name: usize) -> Vec<u8> {
        let options = LockOptions::new().with_lease(self.leases[seat]);
        let name = format!("native-{name}");
        let locked = self.client.lock_client().lock(name, Some(options)).await;
        locked.expect("the lock").key().to_vec()
    }

    async fn unlock(&self, key: Vec<u8>) {
        let freed = self.client.lock_client().unlock(key).await;
        freed.expect("an answer");
    }
}
