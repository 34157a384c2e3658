//! The leaders of elections in etcd. The value of a candidate is the content of its key, where `etcdctl elect` looks for it.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{GetOptions, KeyValue, WatchOptions};

use super::hub::{ANSWER_TIMEOUT, Hub};
use super::keys::{Keys, Value, is_of_line, line_of};
use super::line;
use super::turns::in_turn;
use crate::backend::leaders::{LeaderEntry, Proclamation, Standing};
use crate::claim::{Claim, LockName};
use crate::clock::{BootClock, Clock, within};
use crate::error::{Effect, Operation, Result};

/// For how long a change is waited for before the observer looks anyway.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// The pause before another look if the servers cannot be asked.
const PAUSE: Duration = Duration::from_secs(1);

/// Replaces the content of the leader's key, after all earlier requests of the same owner.
pub(super) async fn proclaim(
    hub: &Arc<Hub>,
    claim: &Claim,
    epoch: u64,
    value: &str,
) -> Result<Proclamation> {
    let (operation, value) = (Operation::ReplaceRecord, value.to_owned());
    // Epochs are below 2^47, so the cast is safe.
    let since = epoch.cast_signed();
    let written = in_turn(hub, claim, operation, move |hub, claim, _| async move {
        let keys = Keys::of(&hub.prefix, &claim);
        line::overwrite(&hub, operation, &keys, since, &value).await
    });
    Ok(if written.await? {
        Proclamation::Made
    } else {
        Proclamation::NotLeading
    })
}

pub(super) async fn leader(hub: &Hub, name: &LockName) -> Result<Standing> {
    let operation = Operation::ReadRecord;
    let line = &line_of(&hub.prefix, name.as_str());
    let asked = hub.ask(operation, ANSWER_TIMEOUT, |mut client| async move {
        let whole_line = GetOptions::new().with_prefix();
        client.get(line.clone(), Some(whole_line)).await
    });
    let answer = asked.await;
    let answer = answer.map_err(|failed| failed.into_error(operation).with_effect(Effect::None))?;
    let revision = answer.header().map_or(0, |header| header.revision());
    let candidates = answer.kvs().iter().filter(|kv| is_of_line(line, kv.key()));
    let first = candidates.min_by_key(|kv| kv.create_revision());
    let version = u64::try_from(revision).unwrap_or(0).into();
    Ok(Standing::new(first.and_then(leader_of), version))
}

/// Returns the leader, unless the first in line holds a lock of this library.
fn leader_of(first: &KeyValue) -> Option<LeaderEntry> {
    if Value::read(first.value()).is_some() {
        return None;
    }
    let epoch = u64::try_from(first.create_revision()).ok()?;
    let value: Arc<str> = String::from_utf8_lossy(first.value()).into();
    Some(LeaderEntry::new(epoch, value))
}

/// Waits for the next write below the name since the standing was read.
pub(super) async fn changed(hub: &Hub, name: &LockName, seen: &Standing) {
    let until = BootClock.now() + LOOK_EVERY;
    let line = line_of(&hub.prefix, name.as_str());
    within(&BootClock, until, async {
        if !until_written(hub, &line, seen).await {
            BootClock.sleep_until(BootClock.now() + PAUSE).await;
        }
    })
    .await;
}

/// Returns `false` if the line cannot be watched.
async fn until_written(hub: &Hub, line: &[u8], seen: &Standing) -> bool {
    let Ok(connection) = hub.connection(Operation::ReadRecord).await else {
        return false;
    };
    let next = i64::try_from(seen.version).unwrap_or(0) + 1;
    let options = WatchOptions::new().with_prefix().with_start_revision(next);
    let mut client = connection.client.clone();
    let watching = async {
        let Ok(mut events) = client.watch(line, Some(options)).await else {
            return false;
        };
        while let Ok(Some(news)) = events.message().await {
            let mut written = news.events().iter().filter_map(|event| event.kv());
            // The watch is cancelled if the events since that revision were compacted away.
            if news.canceled() || written.any(|kv| is_of_line(line, kv.key())) {
                return true;
            }
        }
        false
    };
    tokio::select! {
        written = watching => written,
        () = connection.until_given_up() => true,
    }
}
