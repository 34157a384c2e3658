//! Tests whether the user may create, list and delete the nodes of locks in ZooKeeper.

use fencepost::stores::zookeeper::client::{Acls, Client, CreateMode, Error as Cause};

use super::{said, within};

/// A version that no node has.
const NEVER: i32 = i32::MAX;

/// What the user may do with the nodes of locks.
pub(super) enum Rights {
    /// All that locks need, below this node.
    Enough(String),
    /// What the user may not do, and below which node.
    Lacking(&'static str, String),
    /// Why the rights are unknown.
    Unknown(String),
}

/// Creates and deletes a node below the deepest existing one, in a transaction whose condition does not hold, so that nothing is changed.
pub(super) async fn read(client: &Client, base: &str) -> Rights {
    let place = match deepest(client, base).await {
        Ok(place) => place,
        Err(cause) => return Rights::Unknown(said(&cause)),
    };
    match within(client.list_children(&place)).await {
        Ok(_) => {}
        Err(Cause::NoAuth) => return Rights::Lacking("list", place),
        Err(cause) => return Rights::Unknown(said(&cause)),
    }
    let node = format!("{}/fencepost-doctor", place.trim_end_matches('/'));
    let container = CreateMode::Container.with_acls(Acls::anyone_all());
    let mut writer = client.new_multi_writer();
    let added = writer
        .add_create(&node, b"", &container)
        .and_then(|()| writer.add_delete(&node, None))
        .and_then(|()| writer.add_check_version(&place, NEVER));
    if let Err(cause) = added {
        return Rights::Unknown(said(&cause));
    }
    let committing = async { writer.commit().await.map_err(Cause::from) };
    match within(committing).await {
        Err(Cause::NoAuth) => Rights::Lacking("create or delete", place),
        // The condition failed, as intended: all other steps were allowed.
        Err(Cause::BadVersion) => Rights::Enough(place),
        Ok(_) => Rights::Unknown(
            "the server executed a transaction that it should have refused".to_owned(),
        ),
        Err(cause) => Rights::Unknown(said(&cause)),
    }
}

/// Returns `base`, or its nearest ancestor that exists.
async fn deepest(client: &Client, base: &str) -> Result<String, Cause> {
    let mut path = base;
    while !path.is_empty() {
        if within(client.check_stat(path)).await?.is_some() {
            return Ok(path.to_owned());
        }
        path = path.rsplit_once('/').map_or("", |(above, _)| above);
    }
    Ok("/".to_owned())
}
