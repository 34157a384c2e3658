//! Reads whether the nodes of locks may be made, seen and removed.

use fencepost::stores::zookeeper::client::{Acls, Client, CreateMode, Error as Cause};

use super::{said, within};

/// Nobody counts that far.
const NEVER: i32 = i32::MAX;

/// What the user may do with the nodes of locks.
pub(super) enum Rights {
    /// All that is needed, below this node.
    Enough(String),
    /// Not this, below that node.
    Lacking(&'static str, String),
    /// Why it cannot be told.
    Unknown(String),
}

/// Makes and removes a node below the deepest one that is there, under a condition that does not hold: nothing comes of it but an answer.
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
        Err(Cause::NoAuth) => Rights::Lacking("make or remove", place),
        // As it was meant to be.
        Err(Cause::BadVersion) => Rights::Enough(place),
        Ok(_) => Rights::Unknown("the server carried out what it had to refuse".to_owned()),
        Err(cause) => Rights::Unknown(said(&cause)),
    }
}

/// `base`, or the nearest node above it that is there.
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
