//! A lock on ZooKeeper: everybody creates a node in a folder, and the first of them has the lock.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use zookeeper_client::{Acls, Client, CreateMode, Error};

use crate::flaw::Flaw;
use crate::remote::Remote;

/// How long a busy server may take to let a process in.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The lock from the point of view of one process.
pub(crate) struct ZookeeperLatch {
    runtime: Runtime,
    client: Client,
    address: String,
    space: String,
    ttl: Duration,
    flaw: Option<Flaw>,
    /// The path of the node of each token.
    nodes: HashMap<String, String>,
}

impl ZookeeperLatch {
    pub(crate) fn at(address: &str, space: &str, ttl: Duration, flaw: Option<Flaw>) -> Self {
        // Its thread keeps the session alive.
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let address = address.trim_end_matches('/');
        let client = connect(&runtime, address, ttl);
        Self {
            client,
            runtime,
            address: address.into(),
            space: space.into(),
            ttl,
            flaw,
            nodes: HashMap::new(),
        }
    }

    fn folder(&self, key: &str) -> String {
        let digits: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
        format!("/{}-{digits}", self.space)
    }

    /// Returns the names of the nodes, in the order in which they were created.
    fn line(&mut self, folder: &str) -> Vec<String> {
        let mut listed = self.runtime.block_on(self.client.list_children(folder));
        if listed.is_err() {
            self.connect_again();
            listed = self.runtime.block_on(self.client.list_children(folder));
        }
        let mut line = listed.unwrap_or_default();
        line.sort();
        line
    }

    /// Begins another session, when the last one is over.
    fn connect_again(&mut self) {
        self.client = connect(&self.runtime, &self.address, self.ttl);
    }

    /// Creates a node in line. Returns its path.
    fn stand_in_line(&mut self, folder: &str) -> Option<String> {
        let everybody = Acls::anyone_all();
        let lasting = CreateMode::Persistent.with_acls(everybody);
        let mode = match self.flaw {
            Some(Flaw::LastingNode) => CreateMode::PersistentSequential,
            _ => CreateMode::EphemeralSequential,
        };
        let made = self.runtime.block_on(async {
            match self.client.create(folder, b"", &lasting).await {
                Ok(_) | Err(Error::NodeExists) => {}
                Err(error) => return Err(error),
            }
            let path = format!("{folder}/n-");
            let options = mode.with_acls(everybody);
            let (_, number) = self.client.create(&path, b"", &options).await?;
            Ok(format!("{path}{number}"))
        });
        if made.is_err() {
            self.connect_again();
        }
        made.ok()
    }

    /// Deletes a node. Returns whether it was there.
    fn delete(&mut self, path: &str) -> bool {
        let deleted = self.runtime.block_on(self.client.delete(path, None));
        match deleted {
            Ok(()) => true,
            Err(Error::NoNode) => false,
            Err(_) => {
                self.connect_again();
                let deleted = self.runtime.block_on(self.client.delete(path, None));
                deleted.is_ok()
            }
        }
    }
}

fn connect(runtime: &Runtime, address: &str, ttl: Duration) -> Client {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let connector = Client::connector().with_session_timeout(ttl);
        match runtime.block_on(connector.connect(address)) {
            Ok(client) => return client,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    }
}

impl Remote for ZookeeperLatch {
    fn take(&mut self, key: &str, token: &str) -> bool {
        let folder = self.folder(key);
        let path = match self.nodes.get(token) {
            Some(path) => path.clone(),
            None => match self.stand_in_line(&folder) {
                Some(path) => path,
                None => return false,
            },
        };
        self.nodes.insert(token.into(), path.clone());
        let line = self.line(&folder);
        let holder = match self.flaw {
            Some(Flaw::LastNode) => line.last(),
            _ => line.first(),
        };
        holder.is_some_and(|holder| path.ends_with(holder.as_str()))
    }

    fn give_up(&mut self, _key: &str, token: &str) {
        let path = self.nodes.remove(token);
        if let Some(path) = path
            && self.flaw != Some(Flaw::KeepsNode)
        {
            self.delete(&path);
        }
    }

    fn give_back(&mut self, key: &str, token: &str) -> bool {
        let own = self.nodes.remove(token);
        let path = match self.flaw {
            Some(Flaw::DeletesFirstNode) => {
                let folder = self.folder(key);
                let line = self.line(&folder);
                line.first().map(|first| format!("{folder}/{first}"))
            }
            _ => own,
        };
        path.is_some_and(|path| self.delete(&path))
    }

    fn is_untimed(&self) -> bool {
        true
    }
}
