//! The line of a lock: the keys below its name, in the order in which they were created. The first one has the lock.

use etcd_client::{
    Compare, CompareOp, GetOptions, GetResponse, PutOptions, Txn, TxnOp, TxnOpResponse, TxnResponse,
};

use super::failure;
use super::hub::{ANSWER_TIMEOUT, Failed, Hub};
use super::keys::{Keys, is_of_line};
use crate::error::{Effect, Operation, Result};

/// The line at one moment.
#[derive(Debug)]
pub(super) struct LineSnapshot {
    /// The revision of the whole store at that moment.
    pub(super) revision: i64,
    /// The term of the leader that answered.
    pub(super) term: u64,
    own: Option<OwnKey>,
    /// All keys except ours, in order.
    others: Vec<OtherKey>,
}

/// A key of ours.
#[derive(Debug, Clone)]
pub(super) struct OwnKey {
    /// The revision that created it, which is the fence.
    pub(super) since: i64,
    pub(super) lease: i64,
    /// The content, or `None` if it was not read.
    pub(super) content: Option<Vec<u8>>,
}

/// A key of somebody else.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OtherKey {
    /// The revision that created it. A client that comes back to the line has the same key, but at another place.
    pub(super) since: i64,
    pub(super) key: Vec<u8>,
}

/// The place of an owner in the line.
pub(super) enum Position<'a> {
    /// It is first, and has the lock.
    First(&'a OwnKey),
    /// It is behind this key.
    Behind(&'a OwnKey, &'a OtherKey),
    /// It is not in line; `is_free` if nobody is.
    Absent { is_free: bool },
}

impl LineSnapshot {
    pub(super) fn position(&self) -> Position<'_> {
        let Some(own) = &self.own else {
            let is_free = self.others.is_empty();
            return Position::Absent { is_free };
        };
        let before = self.others.iter().rfind(|other| other.since < own.since);
        match before {
            Some(other) => Position::Behind(own, other),
            None => Position::First(own),
        }
    }

    pub(super) fn own(&self) -> Option<&OwnKey> {
        self.own.as_ref()
    }

    fn read(
        operation: Operation,
        keys: &Keys,
        answer: &TxnResponse,
        line: &GetResponse,
        own: Option<&GetResponse>,
    ) -> Result<Self> {
        let header = answer.header();
        let header = header.ok_or_else(|| failure::unexpected(operation, "no header"))?;
        let of_line = line
            .kvs()
            .iter()
            .filter(|kv| is_of_line(&keys.line, kv.key()));
        let (own_key, others): (Vec<_>, Vec<_>) = of_line.partition(|kv| kv.key() == keys.own);
        let content = own.and_then(|own| Some(own.kvs().first()?.value().to_vec()));
        let own = own_key.first().map(|kv| OwnKey {
            since: kv.create_revision(),
            lease: kv.lease(),
            content,
        });
        let other = |kv: &&etcd_client::KeyValue| OtherKey {
            since: kv.create_revision(),
            key: kv.key().to_vec(),
        };
        let mut others: Vec<_> = others.iter().map(other).collect();
        others.sort_unstable();
        Ok(Self {
            revision: header.revision(),
            term: header.raft_term(),
            own,
            others,
        })
    }
}

fn look(keys: &Keys) -> [TxnOp; 2] {
    let line = GetOptions::new().with_prefix().with_keys_only();
    [
        TxnOp::get(keys.own.clone(), None),
        TxnOp::get(keys.line.clone(), Some(line)),
    ]
}

/// Reads the line, as the majority knows it.
pub(super) async fn read(hub: &Hub, operation: Operation, keys: &Keys) -> Result<LineSnapshot> {
    let asked = hub.ask(operation, ANSWER_TIMEOUT, |mut client| async move {
        client.txn(Txn::new().and_then(look(keys))).await
    });
    let answer = asked.await;
    // Reading changes nothing.
    let answer = answer.map_err(|failed| failed.into_error(operation).with_effect(Effect::None))?;
    match answer.op_responses().as_slice() {
        [TxnOpResponse::Get(own), TxnOpResponse::Get(line)] => {
            LineSnapshot::read(operation, keys, &answer, line, Some(own))
        }
        _ => Err(failure::unexpected(operation, "not what was asked for")),
    }
}

/// The result of creating a key.
pub(super) enum KeyCreation {
    /// The key was created; this is the line with it.
    Yes(LineSnapshot),
    /// The key was not created, because the line is not as expected.
    No,
    /// The key was not created, because its lease has ended.
    LeaseEnded,
}

/// Creates our key in a line that was found empty, unless somebody has come since.
pub(super) async fn enter_empty(
    hub: &Hub,
    keys: &Keys,
    empty: &LineSnapshot,
    content: Vec<u8>,
    lease: i64,
) -> Result<KeyCreation> {
    // Nothing below the name was created since then. Keys that existed before belong to locks whose names begin with this name.
    let nobody_came =
        Compare::create_revision(keys.line.clone(), CompareOp::Less, empty.revision + 1);
    enter(hub, keys, nobody_came.with_prefix(), content, lease).await
}

/// Creates our key at the end of the line, unless it exists.
pub(super) async fn enter_behind(
    hub: &Hub,
    keys: &Keys,
    content: Vec<u8>,
    lease: i64,
) -> Result<KeyCreation> {
    let is_absent = Compare::create_revision(keys.own.clone(), CompareOp::Equal, 0);
    enter(hub, keys, is_absent, content, lease).await
}

async fn enter(
    hub: &Hub,
    keys: &Keys,
    condition: Compare,
    content: Vec<u8>,
    lease: i64,
) -> Result<KeyCreation> {
    let operation = Operation::Acquire;
    let put = put(keys, content, lease);
    let [_, line] = look(keys);
    let transaction = Txn::new().when([condition]).and_then([put, line]);
    let answer = match transact(hub, operation, transaction).await? {
        Some(answer) => answer,
        None => return Ok(KeyCreation::LeaseEnded),
    };
    match answer.op_responses().as_slice() {
        [TxnOpResponse::Put(_), TxnOpResponse::Get(line)] if answer.succeeded() => {
            LineSnapshot::read(operation, keys, &answer, line, None).map(KeyCreation::Yes)
        }
        _ => Ok(KeyCreation::No),
    }
}

/// Writes to our key, created at `since`, and attaches it to `lease`. Returns whether the key still existed.
pub(super) async fn rewrite(
    hub: &Hub,
    operation: Operation,
    keys: &Keys,
    since: i64,
    content: Vec<u8>,
    lease: i64,
) -> Result<bool> {
    let transaction = Txn::new()
        .when([held_condition(keys.own.clone(), since)])
        .and_then([put(keys, content, lease)]);
    let answer = transact(hub, operation, transaction).await?;
    Ok(answer.is_some_and(|answer| answer.succeeded()))
}

/// Returns the condition that the key created at `since` still exists.
pub(super) fn held_condition(key: Vec<u8>, since: i64) -> Compare {
    Compare::create_revision(key, CompareOp::Equal, since)
}

/// Removes our key from the line if no lease would.
pub(super) async fn leave(
    hub: &Hub,
    operation: Operation,
    keys: &Keys,
    since: i64,
) -> Result<bool> {
    let transaction = Txn::new()
        .when([held_condition(keys.own.clone(), since)])
        .and_then([TxnOp::delete(keys.own.clone(), None)]);
    let answer = transact(hub, operation, transaction).await?;
    Ok(answer.is_some_and(|answer| answer.succeeded()))
}

fn put(keys: &Keys, content: Vec<u8>, lease: i64) -> TxnOp {
    let options = PutOptions::new().with_lease(lease);
    TxnOp::put(keys.own.clone(), content, Some(options))
}

/// Writes to our key, created at `since`, which stays attached to its lease. Returns whether the key still existed.
pub(super) async fn overwrite(
    hub: &Hub,
    operation: Operation,
    keys: &Keys,
    since: i64,
    content: &str,
) -> Result<bool> {
    let options = PutOptions::new().with_ignore_lease();
    let put = TxnOp::put(keys.own.clone(), content, Some(options));
    let transaction = Txn::new()
        .when([held_condition(keys.own.clone(), since)])
        .and_then([put]);
    let answer = transact(hub, operation, transaction).await?;
    Ok(answer.is_some_and(|answer| answer.succeeded()))
}

/// Returns `None` if the lease to which a key was to be attached has ended.
async fn transact(
    hub: &Hub,
    operation: Operation,
    transaction: Txn,
) -> Result<Option<TxnResponse>> {
    let transaction = &transaction;
    let asked = hub.ask(operation, ANSWER_TIMEOUT, |mut client| async move {
        client.txn(transaction.clone()).await
    });
    match asked.await {
        Ok(answer) => Ok(Some(answer)),
        Err(Failed::Refused { cause, .. }) if failure::is_unknown_lease(&cause) => Ok(None),
        Err(failed) => Err(failed.into_error(operation)),
    }
}
