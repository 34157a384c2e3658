//! Breaches in what records contain, and in who may replace them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fencepost::LockName;
use fencepost::backend::records::{RecordKey, RecordKind, Replaced, Snapshot};

use crate::breach::{Answer, Breach, Store, kept, lock};

/// Promises records, and has none.
#[derive(Debug)]
pub(crate) struct HasNoRecords;

impl Breach for HasNoRecords {
    fn has_records(&self) -> bool {
        false
    }
}

/// Changes everything that is read.
#[derive(Debug)]
pub(crate) struct Reading(pub(crate) fn(Snapshot) -> Snapshot);

pub(crate) fn empty_if_absent(mut seen: Snapshot) -> Snapshot {
    seen.value.get_or_insert_default();
    seen
}

pub(crate) fn as_text(mut seen: Snapshot) -> Snapshot {
    let text = seen
        .value
        .map(|value| String::from_utf8_lossy(&value).into_owned());
    seen.value = text.map(|text| text.into_bytes().into());
    seen
}

pub(crate) fn at_most_64_kib(mut seen: Snapshot) -> Snapshot {
    const LONGEST: usize = 64 * 1024;
    seen.value = seen
        .value
        .map(|value| value[..value.len().min(LONGEST)].into());
    seen
}

/// As if somebody took milliseconds for microseconds.
pub(crate) fn with_a_slow_clock(mut seen: Snapshot) -> Snapshot {
    if let Some(time) = &mut seen.time {
        time.now /= 1000;
    }
    seen
}

impl Breach for Reading {
    fn read_record<'a>(&'a self, store: &'a Store, key: &'a RecordKey) -> Answer<'a, Snapshot> {
        Box::pin(async move { Ok((self.0)(kept(store).read(key).await?)) })
    }
}

/// Reads and replaces another record than the one that it was asked for.
#[derive(Debug)]
pub(crate) struct Finding(pub(crate) fn(RecordKey) -> RecordKey);

pub(crate) fn of_one_kind(mut key: RecordKey) -> RecordKey {
    key.kind = RecordKind::Shares;
    key
}

pub(crate) fn of_a_lower_case_name(mut key: RecordKey) -> RecordKey {
    let name = key.name.as_str().to_lowercase();
    key.name = LockName::new(&name).expect("a valid name");
    key
}

pub(crate) fn of_one_name(mut key: RecordKey) -> RecordKey {
    key.name = LockName::new("one").expect("a valid name");
    key
}

pub(crate) fn of_a_short_name(mut key: RecordKey) -> RecordKey {
    let name: String = key.name.as_str().chars().take(150).collect();
    key.name = LockName::new(&name).expect("a valid name");
    key
}

impl Breach for Finding {
    fn read_record<'a>(&'a self, store: &'a Store, key: &'a RecordKey) -> Answer<'a, Snapshot> {
        Box::pin(async move { kept(store).read(&(self.0)(key.clone())).await })
    }

    fn replace_record<'a>(
        &'a self,
        store: &'a Store,
        key: &'a RecordKey,
        seen: &'a Snapshot,
        value: &'a [u8],
    ) -> Answer<'a, Replaced> {
        Box::pin(async move {
            let key = (self.0)(key.clone());
            kept(store).replace(&key, seen, value, Duration::MAX).await
        })
    }
}

/// Says that it has created a record, and has not.
#[derive(Debug)]
pub(crate) struct CreatesNothing;

impl Breach for CreatesNothing {
    fn replace_record<'a>(
        &'a self,
        store: &'a Store,
        key: &'a RecordKey,
        seen: &'a Snapshot,
        value: &'a [u8],
    ) -> Answer<'a, Replaced> {
        if seen.version == 0 {
            return Box::pin(async { Ok(Replaced::Yes) });
        }
        kept(store).replace(key, seen, value, Duration::MAX)
    }
}

/// Replaces a record whatever its version is.
async fn overwrite(store: &Store, key: &RecordKey, value: &[u8]) {
    loop {
        let now = kept(store).read(key).await.expect("an answer");
        let replaced = kept(store).replace(key, &now, value, Duration::MAX).await;
        if replaced.expect("an answer") == Replaced::Yes {
            return;
        }
    }
}

/// Reads the version, lets others act, and then replaces whatever is there.
#[derive(Debug)]
pub(crate) struct ChecksFirst;

impl Breach for ChecksFirst {
    fn replace_record<'a>(
        &'a self,
        store: &'a Store,
        key: &'a RecordKey,
        seen: &'a Snapshot,
        value: &'a [u8],
    ) -> Answer<'a, Replaced> {
        Box::pin(async move {
            let now = kept(store).read(key).await?;
            if now.version != seen.version {
                return Ok(Replaced::Outdated);
            }
            tokio::task::yield_now().await;
            overwrite(store, key, value).await;
            Ok(Replaced::Yes)
        })
    }
}

/// Says that a replacement was outdated, and carries it out.
#[derive(Debug)]
pub(crate) struct OutdatedTakesEffect;

impl Breach for OutdatedTakesEffect {
    fn replace_record<'a>(
        &'a self,
        store: &'a Store,
        key: &'a RecordKey,
        seen: &'a Snapshot,
        value: &'a [u8],
    ) -> Answer<'a, Replaced> {
        Box::pin(async move {
            let replaced = kept(store).replace(key, seen, value, Duration::MAX).await?;
            if replaced == Replaced::Outdated {
                overwrite(store, key, value).await;
            }
            Ok(replaced)
        })
    }
}

/// Takes the content for the version.
#[derive(Debug)]
pub(crate) struct VersionIsTheContent;

fn with_version_of_content(mut seen: Snapshot) -> Snapshot {
    if let Some(value) = &seen.value {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        seen.version = u128::from(hasher.finish());
    }
    seen
}

impl Breach for VersionIsTheContent {
    fn read_record<'a>(&'a self, store: &'a Store, key: &'a RecordKey) -> Answer<'a, Snapshot> {
        Box::pin(async move { Ok(with_version_of_content(kept(store).read(key).await?)) })
    }

    fn replace_record<'a>(
        &'a self,
        store: &'a Store,
        key: &'a RecordKey,
        seen: &'a Snapshot,
        value: &'a [u8],
    ) -> Answer<'a, Replaced> {
        Box::pin(async move {
            let now = kept(store).read(key).await?;
            if with_version_of_content(now.clone()).version != seen.version {
                return Ok(Replaced::Outdated);
            }
            kept(store).replace(key, &now, value, Duration::MAX).await
        })
    }
}

/// Executes a replacement whose future was dropped a little later, whatever was written in between.
#[derive(Debug)]
pub(crate) struct DroppedReplacementsOverwrite;

/// Carries out the replacement if the request is dropped.
struct Unfinished<'a> {
    store: &'a Store,
    key: &'a RecordKey,
    value: &'a [u8],
    is_over: bool,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let (store, key, value) = (self.store.clone(), self.key.clone(), self.value.to_vec());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(10)).await;
                overwrite(&store, &key, &value).await;
            });
        }
    }
}

impl Breach for DroppedReplacementsOverwrite {
    fn replace_record<'a>(
        &'a self,
        store: &'a Store,
        key: &'a RecordKey,
        seen: &'a Snapshot,
        value: &'a [u8],
    ) -> Answer<'a, Replaced> {
        Box::pin(async move {
            let mut unfinished = Unfinished {
                store,
                key,
                value,
                is_over: false,
            };
            tokio::task::yield_now().await;
            let replaced = kept(store).replace(key, seen, value, Duration::MAX).await;
            unfinished.is_over = true;
            replaced
        })
    }
}

/// Counts the reads, and takes something from every other one.
#[derive(Debug)]
pub(crate) struct EveryOtherRead {
    reads: AtomicU64,
    change: fn(&mut Snapshot),
}

impl EveryOtherRead {
    pub(crate) fn with(change: fn(&mut Snapshot)) -> Self {
        Self {
            reads: AtomicU64::new(0),
            change,
        }
    }
}

pub(crate) fn a_second_earlier(seen: &mut Snapshot) {
    if let Some(time) = &mut seen.time {
        time.now = time.now.saturating_sub(Duration::from_secs(1));
    }
}

pub(crate) fn without_time(seen: &mut Snapshot) {
    seen.time = None;
}

pub(crate) fn with_a_floor(seen: &mut Snapshot) {
    seen.epoch_floor = 1000;
}

impl Breach for EveryOtherRead {
    fn read_record<'a>(&'a self, store: &'a Store, key: &'a RecordKey) -> Answer<'a, Snapshot> {
        Box::pin(async move {
            let mut seen = kept(store).read(key).await?;
            if self.reads.fetch_add(1, Ordering::Relaxed) % 2 == 1 {
                (self.change)(&mut seen);
            }
            Ok(seen)
        })
    }
}

/// Lists the names of all kinds.
#[derive(Debug)]
pub(crate) struct NamesOfAllKinds;

impl Breach for NamesOfAllKinds {
    fn record_names<'a>(&'a self, store: &'a Store, _: RecordKind) -> Answer<'a, Vec<LockName>> {
        Box::pin(async move {
            let mut names = Vec::new();
            for &kind in RecordKind::ALL {
                names.extend(kept(store).names(kind).await?);
            }
            Ok(names)
        })
    }
}

/// Lists the name of every replacement.
#[derive(Debug, Default)]
pub(crate) struct NamesOfReplacements(Mutex<Vec<LockName>>);

impl Breach for NamesOfReplacements {
    fn replace_record<'a>(
        &'a self,
        store: &'a Store,
        key: &'a RecordKey,
        seen: &'a Snapshot,
        value: &'a [u8],
    ) -> Answer<'a, Replaced> {
        lock(&self.0).push(key.name.clone());
        kept(store).replace(key, seen, value, Duration::MAX)
    }

    fn record_names<'a>(&'a self, _: &'a Store, _: RecordKind) -> Answer<'a, Vec<LockName>> {
        Box::pin(async move { Ok(lock(&self.0).clone()) })
    }
}
