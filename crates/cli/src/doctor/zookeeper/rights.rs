//! Whether the nodes of locks may be made, seen and removed.

use fencepost::stores::zookeeper::client::{Acls, Client, CreateMode, Error as Cause};

use super::super::finding::{Finding, Harm};
use super::{said, within};

/// Nobody counts that far.
const NEVER: i32 = i32::MAX;

/// Makes and removes a node below the deepest one that is there, under a condition that does not hold: nothing comes of it but an answer.
pub(super) async fn judge(client: &Client, base: &str) -> Finding {
    let place = match deepest(client, base).await {
        Ok(place) => place,
        Err(cause) => return Finding::unknown("rights", said(&cause)),
    };
    let denied = |what: &str| {
        Finding::danger(
            "rights",
            Harm::NoLocks,
            format!("this user may not {what} nodes below {place}"),
        )
        .means("No lock can be taken here.")
        .advice("zk://USER:PASSWORD@HOST, or setAcl with the rights c, d, r and w on that node")
    };
    match within(client.list_children(&place)).await {
        Ok(_) => {}
        Err(Cause::NoAuth) => return denied("list"),
        Err(cause) => return Finding::unknown("rights", said(&cause)),
    }
    let node = format!("{}/fencepost-doctor", place.trim_end_matches('/'));
    let container = CreateMode::Container.with_acls(Acls::anyone_all());
    let mut writer = client.new_multi_writer();
    let added = writer
        .add_create(&node, b"", &container)
        .and_then(|()| writer.add_delete(&node, None))
        .and_then(|()| writer.add_check_version(&place, NEVER));
    if let Err(cause) = added {
        return Finding::unknown("rights", said(&cause));
    }
    let committing = async { writer.commit().await.map_err(Cause::from) };
    match within(committing).await {
        Err(Cause::NoAuth) => denied("make or remove"),
        // As it was meant to be.
        Err(Cause::BadVersion) => Finding::fine("rights", format!("rights below {place}")),
        Ok(_) => Finding::unknown("rights", "the server carried out what it had to refuse"),
        Err(cause) => Finding::unknown("rights", said(&cause)),
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
