//! Enters the line with one node per owner, and finds that node again if the answer to its creation was lost.

use futures_util::future::{OptionFuture, join, join3};
use zookeeper_client::{CreateMode, Error as Cause};

use super::failure;
use super::keys::Contender;
use super::note::content_of;
use super::owners::{Node, OwnNode, Owner};
use super::session::{Request, Session};
use crate::claim::Claim;
use crate::clock::{BootClock, Clock, Moment};
use crate::error::{Operation, Result};
use crate::fence::Fence;

/// How often a folder may vanish between its creation and its use.
const VANISHING_FOLDERS_MAX: u32 = 20;

/// The position of an owner at one moment.
pub(super) enum Position {
    /// Ahead of all others.
    First {
        node: Node,
        /// When the request that created the node was sent, if this is its answer; then nothing is left to prove.
        made_at: Option<Moment>,
    },
    /// Behind others.
    Behind {
        /// The node just ahead of ours.
        before: String,
    },
}

/// Makes sure that this owner has a node in line, and returns its position.
pub(super) async fn position(request: &Request, claim: &Claim) -> Result<Position> {
    let mut vanished = 0;
    loop {
        let looked = match request.owner.known() {
            OwnNode::Nothing => enter(request, claim, vanished > 0).await,
            OwnNode::Unsure => find(request).await.map(|()| None),
            OwnNode::Node(node) => look(request, node).await,
        };
        match looked {
            Ok(Some(position)) => return Ok(position),
            Ok(None) => {}
            Err(LineError::NoFolder) if vanished < VANISHING_FOLDERS_MAX => vanished += 1,
            Err(LineError::NoFolder) => {
                return Err(failure::no_folder(
                    Operation::Acquire,
                    &request.owner.folder,
                ));
            }
            Err(LineError::Lost) if !request.session.is_down() => {}
            Err(LineError::Lost) => return Err(failure::session_ended(Operation::Acquire)),
            Err(LineError::Failed(error)) => return Err(error),
        }
    }
}

/// Why a look at the line failed.
enum LineError {
    /// The folder of the line does not exist.
    NoFolder,
    /// An answer was lost. It is worth asking again, which waits for the connection.
    Lost,
    Failed(crate::Error),
}

impl LineError {
    fn of(session: &Session, cause: Cause) -> Self {
        match cause {
            Cause::NoNode => Self::NoFolder,
            cause if failure::is_lost_answer(&cause) => Self::Lost,
            cause => Self::Failed(session.failed(Operation::Acquire, cause)),
        }
    }
}

/// Creates a node, and the folder if it does not exist, and reads the line in the same round trip.
async fn enter(
    request: &Request,
    claim: &Claim,
    folder_is_missing: bool,
) -> Result<Option<Position>, LineError> {
    let (session, owner) = (&request.session, &request.owner);
    let (prefix, content) = (request.prefix(), content_of(claim, claim.ttl));
    let how = CreateMode::EphemeralSequential.with_acls(session.acls);
    // If the future is dropped from here on, it leaves a node that can only be found by its owner's name.
    owner.set_known(OwnNode::Unsure);
    let asked_at = BootClock.now();
    let making_folder = folder_is_missing.then(|| session.make_folder(&owner.folder));
    let making = session.client.create(&prefix, &content, &how);
    let looking = session.line(&owner.folder);
    let making_folder = OptionFuture::from(making_folder);
    let (made_folder, made, line) = join3(making_folder, making, looking).await;
    let (stat, sequence) = match made {
        Ok(made) => made,
        Err(cause) => {
            if !failure::is_lost_answer(&cause) {
                owner.set_known(OwnNode::Nothing);
            }
            // The nodes above the folder are missing, too.
            if let (Some(Err(Cause::NoNode)), Cause::NoNode) = (&made_folder, &cause) {
                let made = session.make_base().await;
                made.map_err(|cause| LineError::of(session, cause))?;
            }
            if let Some(Err(cause)) = made_folder {
                return Err(LineError::of(session, cause));
            }
            return Err(LineError::of(session, cause));
        }
    };
    // The server's counter wraps around to negative numbers, which then say nothing about who came first.
    let sequence = u32::try_from(sequence.into_i64()).ok();
    let (Some(sequence), Ok(epoch)) = (sequence, epoch_of(stat.czxid)) else {
        // It stays unknown whether there is a node, and the expiry task removes whatever there is.
        return Err(LineError::Failed(match sequence {
            None => failure::sequence_exhausted(&owner.folder),
            Some(_) => failure::fence_exhausted(stat.czxid),
        }));
    };
    let name = format!("{}{sequence:010}", &prefix[owner.folder.len() + 1..]);
    let node = Node { name, epoch };
    owner.set_known(OwnNode::Node(node.clone()));
    let line = line.map_err(|cause| LineError::of(session, cause))?;
    judge(request, line, node, Some(asked_at)).await
}

/// Reads the line.
async fn look(request: &Request, node: Node) -> Result<Option<Position>, LineError> {
    let line = request.session.line(&request.owner.folder).await;
    let line = line.map_err(|cause| LineError::of(&request.session, cause))?;
    judge(request, line, node, None).await
}

/// Returns `None` if the line has to be read again.
async fn judge(
    request: &Request,
    line: Vec<Contender>,
    node: Node,
    made_at: Option<Moment>,
) -> Result<Option<Position>, LineError> {
    let (session, owner) = (&request.session, &request.owner);
    let mut before: Option<&Contender> = None;
    for contender in &line {
        if contender.node == node.name {
            return Ok(Some(match before {
                Some(before) => Position::Behind {
                    before: before.node.clone(),
                },
                None => Position::First { node, made_at },
            }));
        }
        if contender.is_of(owner.id) {
            // An earlier session of ours left this node. It does not belong to this session, and we would wait for ourselves.
            remove(session, &request.path(&contender.node)).await?;
            return Ok(None);
        }
        before = Some(contender);
    }
    // Somebody has deleted the node.
    owner.set_known(OwnNode::Nothing);
    Ok(None)
}

/// Finds out whether this owner has a node from a request whose answer was lost.
async fn find(request: &Request) -> Result<(), LineError> {
    let (session, owner) = (&request.session, &request.owner);
    let mut known = OwnNode::Nothing;
    for name in nodes_of(session, owner)
        .await
        .map_err(|cause| LineError::of(session, cause))?
    {
        let path = request.path(&name);
        let stat = session.client.check_stat(&path).await;
        let stat = stat.map_err(|cause| LineError::of(session, cause))?;
        let is_this_session =
            stat.is_some_and(|stat| stat.ephemeral_owner == session.client.session_id().0);
        match stat.map(|stat| epoch_of(stat.czxid)) {
            Some(Ok(epoch)) if is_this_session && known == OwnNode::Nothing => {
                known = OwnNode::Node(Node { name, epoch });
            }
            Some(_) => remove(session, &path).await?,
            None => {}
        }
    }
    owner.set_known(known);
    Ok(())
}

/// Returns the nodes of this owner, as the leader knows them; a follower may not yet know a node whose answer was lost.
pub(super) async fn nodes_of(session: &Session, owner: &Owner) -> Result<Vec<String>, Cause> {
    let synced = session.client.sync(&owner.folder);
    let line = session.line(&owner.folder);
    let (synced, line) = join(synced, line).await;
    synced?;
    let ours = line?.into_iter().filter(|one| one.is_of(owner.id));
    Ok(ours.map(|one| one.node).collect())
}

/// Removes this owner's node, whatever its state. Returns whether there was one.
pub(super) async fn remove_all(session: &Session, owner: &Owner) -> Result<bool, Cause> {
    let names = match owner.known() {
        OwnNode::Node(node) => vec![node.name],
        OwnNode::Unsure | OwnNode::Nothing => nodes_of(session, owner).await?,
    };
    let mut was_there = false;
    for name in names {
        match session
            .client
            .delete(&format!("{}/{name}", owner.folder), None)
            .await
        {
            Ok(()) => was_there = true,
            Err(Cause::NoNode) => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(was_there)
}

async fn remove(session: &Session, path: &str) -> Result<(), LineError> {
    match session.client.delete(path, None).await {
        Ok(()) | Err(Cause::NoNode) => Ok(()),
        Err(cause) => Err(LineError::of(session, cause)),
    }
}

/// Returns the number of the transaction that created a node, if it fits in a fence.
fn epoch_of(czxid: i64) -> std::result::Result<u64, ()> {
    let epoch = u64::try_from(czxid).map_err(|_| ())?;
    if (1..Fence::EPOCH_END).contains(&epoch) {
        Ok(epoch)
    } else {
        Err(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_number_beyond_the_fence_is_refused() {
        assert_eq!(epoch_of(0x7fff_ffff_ffff), Ok(0x7fff_ffff_ffff));
        for czxid in [0x8000_0000_0000, i64::MAX, 0, -1] {
            assert_eq!(epoch_of(czxid), Err(()), "{czxid:#x}");
        }
    }
}
