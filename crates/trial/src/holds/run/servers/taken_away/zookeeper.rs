//! A ZooKeeper server at which every node of a session is deleted. The sessions live on.

use std::time::Duration;

use fencepost::stores::kinds::ZOOKEEPER;
use fencepost_rig::Zookeeper;
use zookeeper_client::{Client, Error};

use super::{Keeper, Watched};
use crate::protocol::Failure;
use crate::store::TrialStore;

/// How long the session of the lab lasts. It ends sooner if nothing is wrong.
const SESSION: Duration = Duration::from_secs(20);
/// The folder of the server itself.
const OWN: &str = "zookeeper";

/// One server.
pub(super) struct Unlinked(Zookeeper);

impl Unlinked {
    pub(super) fn start() -> Result<Self, Failure> {
        Zookeeper::start().map(Self).map_err(Failure::definite)
    }
}

impl Keeper for Unlinked {
    fn store(&self) -> TrialStore {
        TrialStore::private(&ZOOKEEPER).at(format!("zk://{}", self.0.address()))
    }

    fn take_away(&self, _: &Watched<'_>) -> Result<bool, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Failure::definite)?;
        let deleted = runtime.block_on(delete_nodes(&self.0.address().to_string()));
        deleted
            .map(|nodes| nodes > 0)
            .map_err(|error| Failure::definite(format!("zookeeper: {error}")))
    }
}

/// Deletes every node that belongs to a session. Returns how many there were. What others delete meanwhile is gone as well.
async fn delete_nodes(address: &str) -> Result<usize, Error> {
    let client = Client::connector().with_session_timeout(SESSION);
    let client = client.connect(address).await?;
    let mut deleted = 0;
    let mut folders = vec![String::from("/")];
    while let Some(folder) = folders.pop() {
        let children = match client.list_children(&folder).await {
            Err(Error::NoNode) => continue,
            children => children?,
        };
        for child in children {
            if folder == "/" && child == OWN {
                continue;
            }
            let path = format!("{}/{child}", folder.trim_end_matches('/'));
            match client.check_stat(&path).await? {
                Some(stat) if stat.ephemeral_owner != 0 => match client.delete(&path, None).await {
                    Ok(()) => deleted += 1,
                    Err(Error::NoNode) => {}
                    Err(error) => return Err(error),
                },
                Some(_) => folders.push(path),
                None => {}
            }
        }
    }
    Ok(deleted)
}
