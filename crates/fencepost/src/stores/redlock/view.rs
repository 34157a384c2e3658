//! Inspects and lists locks: what a majority of the servers agrees on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::asking::OpenRequests;
use super::failure;
use super::hub::Hub;
use super::server::Server;
use crate::backend::{Holder, Listed, Record};
use crate::claim::LockName;
use crate::clock::{BootClock, Clock};
use crate::error::{Operation, Result};
use crate::stores::redis::for_redlock::{
    STEP, Session, lock_of, look_closely, name_of_quorum, scan, scan_for,
};

/// How long a list may take. It needs a step for every thousand keys.
const LONGEST_LIST: Duration = Duration::from_secs(30);

pub(super) async fn inspect(hub: &Hub, name: &LockName) -> Result<Option<Record>> {
    let name: Arc<str> = name.as_str().into();
    let seen = ask_each(hub, hub.settings.server_timeout, move |server| {
        look_at(server, name.clone())
    })
    .await?;
    let holder = held_by_a_majority(seen.answers.into_iter().flatten().collect(), seen.needed);
    Ok(holder.map(record))
}

pub(super) async fn list(hub: &Hub, pattern: Option<&str>) -> Result<Vec<Listed>> {
    let pattern: Option<Arc<str>> = pattern.map(Into::into);
    let seen = ask_each(hub, LONGEST_LIST, move |server| {
        list_at(server, pattern.clone())
    })
    .await?;
    let mut names = BTreeSet::new();
    for some in &seen.answers {
        names.extend(some.iter().map(|(name, _)| name.clone()));
    }
    let held = names.into_iter().filter_map(|name| {
        let of_name = seen.answers.iter().flatten().filter(|(of, _)| *of == name);
        let keys = of_name.map(|(_, key)| key.clone());
        let holder = held_by_a_majority(keys.collect(), seen.needed)?;
        lock_of(&name, record(holder))
    });
    Ok(held.collect())
}

/// Asks every server. A majority must answer within the longest time; the others get a moment more.
async fn ask_each<T, F>(
    hub: &Hub,
    longest: Duration,
    ask: impl Fn(Arc<Server>) -> F,
) -> Result<Answers<T>>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let mut failures = hub.failures(Operation::Inspect);
    let mut asking = OpenRequests::new();
    for (at, server) in hub.servers.iter().enumerate() {
        asking.ask(at, server, |server, _| ask(server));
    }
    let mut answers = Vec::new();
    let mut until = BootClock.now() + longest;
    loop {
        let is_enough = answers.len() >= hub.majority();
        let Some((at, answer)) = asking.next(until, is_enough).await else {
            break;
        };
        match answer {
            Ok(answer) => answers.push(answer),
            Err(error) => failures.add(&hub.servers[at].address, error),
        }
        if answers.len() >= hub.majority() {
            until = until.min(BootClock.now() + hub.settings.server_timeout);
        }
    }
    let silent: Vec<usize> = asking.silent().collect();
    for at in silent {
        failures.add(
            &hub.servers[at].address,
            failure::unanswered(Operation::Inspect),
        );
    }
    asking.leave();
    if answers.len() >= hub.majority() {
        Ok(Answers {
            // Servers that did not answer may agree.
            needed: hub.majority() + answers.len() - hub.servers.len(),
            answers,
        })
    } else {
        Err(failures.into_error())
    }
}

/// The answers of the servers, and how many of them have to agree.
struct Answers<T> {
    answers: Vec<T>,
    needed: usize,
}

/// The lock's key on one server.
#[derive(Debug, Clone)]
struct Key {
    holder: Holder,
    /// The content of the key if it is not ours. Nothing else distinguishes the clients of other programs.
    token: Option<String>,
}

async fn look_at(server: Arc<Server>, name: Arc<str>) -> Result<Option<Key>> {
    let session = server.session(Operation::Inspect).await?;
    key_at(&session, &name).await
}

async fn key_at(session: &Arc<Session>, name: &str) -> Result<Option<Key>> {
    let seen = look_closely(session, name).await?;
    Ok(seen.and_then(|(record, value)| {
        let holder = record.holder?;
        let token = value.filter(|_| holder.owner.is_none());
        Some(Key { holder, token })
    }))
}

async fn list_at(server: Arc<Server>, pattern: Option<Arc<str>>) -> Result<Vec<(String, Key)>> {
    let session = server.session(Operation::Inspect).await?;
    let pattern = pattern.as_deref();
    let counters = format!("fp:{{*}}:quorum:{}", pattern.unwrap_or("*"));
    let mut names: BTreeSet<String> = BTreeSet::new();
    // Counters of this layout and of the one before.
    for key in scan_for(&session, Operation::Inspect, &counters, None).await? {
        names.extend(name_of_quorum(&key).map(str::to_owned));
    }
    if let Some(pattern) = pattern {
        let strings = scan(&session, Operation::Inspect, pattern).await?;
        let strings = strings.into_iter();
        names.extend(strings.filter(|key| !key.starts_with("fp:{")));
    }
    keys(&session, names.into_iter().collect()).await
}

async fn keys(session: &Arc<Session>, names: Vec<String>) -> Result<Vec<(String, Key)>> {
    let mut listed = Vec::new();
    for some in names.chunks(STEP) {
        let keys = join_all(some.iter().map(|name| key_at(session, name))).await;
        for (name, key) in some.iter().zip(keys) {
            listed.extend(key?.map(|key| (name.clone(), key)));
        }
    }
    Ok(listed)
}

/// Returns the holder whose key is on at least this many servers.
fn held_by_a_majority(mut keys: Vec<Key>, needed: usize) -> Option<Holder> {
    while let Some(first) = keys.first().cloned() {
        let is_same =
            |key: &Key| key.holder.owner == first.holder.owner && key.token == first.token;
        let (same, others): (Vec<_>, Vec<_>) = keys.into_iter().partition(is_same);
        if same.len() >= needed {
            let mut same: Vec<Holder> = same.into_iter().map(|key| key.holder).collect();
            // A majority lasts until the first of its keys ends.
            same.sort_by_key(|holder| {
                std::cmp::Reverse(holder.ttl_left.map_or(u128::MAX, |left| left.as_millis()))
            });
            let epoch = same.iter().map(|holder| holder.epoch).find(|epoch| {
                same.iter().filter(|holder| holder.epoch == *epoch).count() >= needed
            });
            // A key that a renewal created is younger than the lease.
            let since = same.iter().filter_map(|holder| holder.since).min();
            let last = same.swap_remove(needed - 1);
            // Before an epoch is accepted, the counts of the servers differ.
            let epoch = epoch.flatten();
            return Some(Holder {
                epoch,
                since,
                ..last
            });
        }
        keys = others;
    }
    None
}

fn record(holder: Holder) -> Record {
    Record::new(Some(holder), Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::OwnerId;
    use crate::random::SeededRandom;

    fn key(seed: u64, epoch: u64, left_ms: u64) -> Key {
        let holder = Holder {
            owner: Some(OwnerId::random(&SeededRandom::new(seed))),
            epoch: Some(epoch),
            ttl_left: Some(Duration::from_millis(left_ms)),
            ..Holder::new("test")
        };
        Key {
            holder,
            token: None,
        }
    }

    #[test]
    fn other_programs_are_told_apart_by_what_they_wrote() {
        let other_program = |token: &str| Key {
            holder: Holder {
                owner: None,
                epoch: None,
                ..key(1, 0, 90).holder
            },
            token: Some(token.to_owned()),
        };
        let two = vec![other_program("one"), other_program("other")];
        assert_eq!(held_by_a_majority(two, 2), None);
        let one = vec![
            other_program("one"),
            other_program("other"),
            other_program("one"),
        ];
        assert!(held_by_a_majority(one, 2).is_some());
    }

    #[test]
    fn a_majority_holds_and_a_minority_does_not() {
        let both = held_by_a_majority(vec![key(1, 7, 90), key(2, 9, 50), key(1, 7, 80)], 2);
        let both = both.unwrap();
        assert_eq!(both.owner, key(1, 0, 0).holder.owner);
        assert_eq!(both.epoch, Some(7));
        assert_eq!(both.ttl_left, Some(Duration::from_millis(80)));
        assert_eq!(
            held_by_a_majority(vec![key(1, 7, 90), key(2, 9, 50)], 2),
            None
        );
    }

    #[test]
    fn the_epoch_is_the_one_that_a_majority_has() {
        let seen = vec![key(1, 9, 90), key(1, 7, 90), key(1, 7, 80)];
        assert_eq!(held_by_a_majority(seen, 2).unwrap().epoch, Some(7));
        let undecided = vec![key(1, 9, 90), key(1, 7, 90)];
        assert_eq!(held_by_a_majority(undecided, 2).unwrap().epoch, None);
    }
}
