//! Requirements on records: what was written is read, a version is replaced once, and different keys are different records.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::{ALWAYS, RECORDS, StoreUnderTest, fresh_name, soon, table};
use crate::backend::Backend;
use crate::backend::records::{RecordKey, RecordKind, Records, Replaced, Snapshot};
use crate::claim::LockName;
use crate::fence::Fence;
use crate::testing::poll_at_most;

table! {
    the_capabilities_say_whether_there_are_records: ALWAYS,
    the_capabilities_say_whether_there_are_semaphores: RECORDS,
    an_absent_record_has_no_value_and_no_version: RECORDS,
    a_replacement_creates_the_record: RECORDS,
    an_outdated_replacement_changes_nothing: RECORDS,
    one_of_many_replacements_of_a_version_wins: RECORDS,
    no_replacement_is_lost_under_load: RECORDS,
    a_version_never_returns: RECORDS,
    kinds_and_similar_names_are_different_records: RECORDS,
    hostile_names_are_only_names_of_records: RECORDS,
    a_record_holds_any_bytes: RECORDS,
    what_follows_a_dropped_replacement_stays: RECORDS,
    the_time_of_the_store_runs_and_never_goes_back: RECORDS,
    the_epoch_floor_never_goes_back: RECORDS,
    names_are_those_of_the_kind: RECORDS,
}

/// How long the records of a test must be kept.
pub(super) const KEEP: Duration = Duration::from_secs(60);

/// Returns a key that no other test uses.
pub(super) fn fresh_key(what: &str) -> RecordKey {
    key(RecordKind::Shares, &fresh_name(what))
}

fn key(kind: RecordKind, name: &LockName) -> RecordKey {
    RecordKey {
        kind,
        name: name.clone(),
    }
}

pub(super) fn records(backend: &Arc<dyn Backend>) -> &dyn Records {
    backend.records().expect("a store that promises records")
}

pub(super) async fn read(backend: &Arc<dyn Backend>, key: &RecordKey) -> Snapshot {
    records(backend).read(key).await.expect("an answer")
}

/// Replaces the record in `seen`.
pub(super) async fn replace(
    backend: &Arc<dyn Backend>,
    key: &RecordKey,
    seen: &Snapshot,
    value: &[u8],
) -> Replaced {
    let replaced = records(backend).replace(key, seen, value, KEEP).await;
    replaced.expect("an answer")
}

/// Replaces the record, which nobody else replaces.
pub(super) async fn put(backend: &Arc<dyn Backend>, key: &RecordKey, value: &[u8]) {
    let seen = read(backend, key).await;
    let replaced = replace(backend, key, &seen, value).await;
    assert_eq!(replaced, Replaced::Yes, "nobody else replaces {key:?}");
}

async fn the_capabilities_say_whether_there_are_records(store: StoreUnderTest) {
    for backend in [&store.one, &store.other] {
        assert_eq!(
            backend.records().is_some(),
            backend.capabilities().records,
            "records are there if they are promised"
        );
    }
}

async fn the_capabilities_say_whether_there_are_semaphores(store: StoreUnderTest) {
    let key = key(RecordKind::Shares, &fresh_name("time"));
    for value in [&b"first"[..], b"second"] {
        let seen = read(&store.other, &key).await;
        let promised = store.other.capabilities().shares;
        assert_eq!(seen.time.is_some(), promised, "semaphores need a time");
        put(&store.one, &key, value).await;
    }
}

async fn an_absent_record_has_no_value_and_no_version(store: StoreUnderTest) {
    for &kind in RecordKind::ALL {
        let key = key(kind, &fresh_name("absent"));
        let before = store.one.clock().now();
        let seen = read(&store.one, &key).await;
        assert_eq!((seen.value, seen.version), (None, 0), "nothing is there");
        assert!(
            seen.asked_at >= before && seen.asked_at <= store.one.clock().now(),
            "the snapshot was asked for during the call"
        );
    }
}

async fn a_replacement_creates_the_record(store: StoreUnderTest) {
    let key = fresh_key("created");
    let seen = read(&store.one, &key).await;
    let replaced = replace(&store.one, &key, &seen, b"first").await;
    assert_eq!(replaced, Replaced::Yes);
    let [here, there] = [read(&store.one, &key).await, read(&store.other, &key).await];
    assert_eq!(here.value.as_deref(), Some(&b"first"[..]), "it is there");
    assert!(
        here.version != 0,
        "its version is not that of an absent one"
    );
    assert_eq!((there.value, there.version), (here.value, here.version));
}

async fn an_outdated_replacement_changes_nothing(store: StoreUnderTest) {
    let key = fresh_key("outdated");
    let absent = read(&store.one, &key).await;
    put(&store.other, &key, b"first").await;
    let first = read(&store.one, &key).await;
    put(&store.other, &key, b"second").await;
    let second = read(&store.one, &key).await;
    for outdated in [absent, first] {
        for backend in [&store.one, &store.other] {
            let replaced = replace(backend, &key, &outdated, b"late").await;
            assert_eq!(replaced, Replaced::Outdated, "it was replaced before");
            let now = read(backend, &key).await;
            assert_eq!(
                (now.value, now.version),
                (second.value.clone(), second.version),
                "an outdated replacement changes nothing"
            );
        }
    }
}

async fn one_of_many_replacements_of_a_version_wins(store: StoreUnderTest) {
    const RIVALS: u8 = 16;
    let key = fresh_key("rivals");
    for round in 0..5 {
        let seen = read(&store.one, &key).await;
        let rivals: Vec<_> = (0..RIVALS)
            .map(|rival| {
                let (key, seen) = (key.clone(), seen.clone());
                let backend = [&store.one, &store.other][usize::from(rival % 2)].clone();
                tokio::spawn(async move {
                    let replaced = replace(&backend, &key, &seen, &[round, rival]).await;
                    (rival, replaced)
                })
            })
            .collect();
        let mut winners = Vec::new();
        for rival in rivals {
            let (rival, replaced) = soon("all rivals", rival).await.expect("no panic");
            winners.extend((replaced == Replaced::Yes).then_some(rival));
        }
        assert_eq!(winners.len(), 1, "one rival wins, and not {winners:?}");
        let now = read(&store.other, &key).await;
        assert_eq!(now.value.as_deref(), Some(&[round, winners[0]][..]));
    }
}

async fn no_replacement_is_lost_under_load(store: StoreUnderTest) {
    const TASKS: usize = 6;
    const TURNS: u32 = 8;
    let key = fresh_key("counter");
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let key = key.clone();
            let backend = [&store.one, &store.other][task % 2].clone();
            tokio::spawn(async move {
                for _ in 0..TURNS {
                    while !count_up(&backend, &key).await {}
                }
            })
        })
        .collect();
    for task in tasks {
        soon("all turns", task).await.expect("no panic");
    }
    let counted = number(&read(&store.one, &key).await);
    assert_eq!(counted, TASKS as u32 * TURNS, "no replacement is lost");
}

/// Adds one to the number in the record. Returns whether nobody else was faster.
async fn count_up(backend: &Arc<dyn Backend>, key: &RecordKey) -> bool {
    let seen = read(backend, key).await;
    let next = number(&seen) + 1;
    replace(backend, key, &seen, &next.to_be_bytes()).await == Replaced::Yes
}

fn number(seen: &Snapshot) -> u32 {
    let bytes = seen.value.as_deref().unwrap_or(&[0; 4]);
    u32::from_be_bytes(bytes.try_into().expect("four bytes"))
}

async fn a_version_never_returns(store: StoreUnderTest) {
    let key = fresh_key("versions");
    let mut seen = vec![read(&store.one, &key).await];
    for turn in 0..6 {
        let backend = [&store.one, &store.other][turn % 2];
        put(backend, &key, [b"A", b"B"][turn % 2]).await;
        seen.push(read(&store.one, &key).await);
    }
    let versions: BTreeSet<u128> = seen.iter().map(|seen| seen.version).collect();
    assert_eq!(versions.len(), seen.len(), "each version is a new one");
    let last = seen.pop().expect("the last one");
    for outdated in seen {
        let replaced = replace(&store.one, &key, &outdated, b"late").await;
        assert_eq!(replaced, Replaced::Outdated, "its content has returned");
    }
    let now = read(&store.other, &key).await;
    assert_eq!((now.value, now.version), (last.value, last.version));
}

/// Writes a record of its own for each key, and reads them all.
async fn assert_apart(store: &StoreUnderTest, keys: &[RecordKey]) {
    for (number, key) in keys.iter().enumerate() {
        let seen = read(&store.one, key).await;
        assert_eq!(seen.value, None, "{key:?}: mixed up with another one");
        let value = number.to_string();
        let replaced = replace(&store.one, key, &seen, value.as_bytes()).await;
        assert_eq!(replaced, Replaced::Yes, "{key:?}");
    }
    for (number, key) in keys.iter().enumerate() {
        let value = read(&store.other, key).await.value;
        let expected = number.to_string();
        assert_eq!(value.as_deref(), Some(expected.as_bytes()), "{key:?}");
    }
}

async fn kinds_and_similar_names_are_different_records(store: StoreUnderTest) {
    let base = fresh_name("apart");
    let names: Vec<LockName> = ["", "x", "X", "x ", ":x", "/x", "x/y"]
        .iter()
        .map(|end| LockName::new(&format!("{base}{end}")).expect("a valid name"))
        .collect();
    let keys: Vec<RecordKey> = names
        .iter()
        .flat_map(|name| RecordKind::ALL.iter().map(|kind| key(*kind, name)))
        .collect();
    assert_apart(&store, &keys).await;
}

async fn hostile_names_are_only_names_of_records(store: StoreUnderTest) {
    let base = fresh_name("hostile").to_string();
    let long = "x".repeat(LockName::MAX_BYTES - base.len() - 2);
    let [long_a, long_b] = ["a", "b"].map(|end| format!("{long}{end}"));
    let hostile = [
        "'; DROP TABLE fencepost_record; --",
        "\" OR 1=1",
        "../../etc/passwd",
        "..",
        "{a}{b}",
        "}:runs:",
        "%s%n",
        "*",
        "a b",
        "a  b",
        "A B",
        "ключ",
        "é",
        "e\u{301}",
        "🔒",
        "trailing ",
        "trailing",
        &long_a,
        &long_b,
    ];
    let keys = hostile.map(|text| {
        let name = LockName::new(&format!("{base}:{text}")).expect("a valid name");
        key(RecordKind::Runs, &name)
    });
    assert_apart(&store, &keys).await;
}

async fn a_record_holds_any_bytes(store: StoreUnderTest) {
    let key = fresh_key("bytes");
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let many: Vec<u8> = (0..200_000_u32).map(|at| (at * 7 % 251) as u8).collect();
    for value in [&[], &all[..], &many, b" ", b"\n", &[]] {
        put(&store.one, &key, value).await;
        let read = read(&store.other, &key).await.value;
        let read = read.expect("a record");
        assert!(*read == *value, "{} bytes are read back", value.len());
    }
}

async fn what_follows_a_dropped_replacement_stays(store: StoreUnderTest) {
    const A_MOMENT: Duration = Duration::from_millis(30);
    for polls in 1.. {
        let key = fresh_key("dropped");
        put(&store.one, &key, b"before").await;
        let seen = read(&store.one, &key).await;
        let dropped = records(&store.one).replace(&key, &seen, b"dropped", KEEP);
        let done = soon("a replacement", poll_at_most(polls, dropped)).await;
        // The dropped one may take effect until another one does.
        loop {
            let seen = read(&store.other, &key).await;
            if replace(&store.other, &key, &seen, b"after").await == Replaced::Yes {
                break;
            }
        }
        tokio::time::sleep(A_MOMENT).await;
        for backend in [&store.one, &store.other] {
            let value = read(backend, &key).await.value;
            assert_eq!(value.as_deref(), Some(&b"after"[..]), "what follows stays");
        }
        if done.is_some() {
            break;
        }
    }
}

async fn the_time_of_the_store_runs_and_never_goes_back(store: StoreUnderTest) {
    /// How far two clocks may differ during the test.
    const TOLERANCE: Duration = Duration::from_millis(20);
    for &kind in RecordKind::ALL {
        let key = key(kind, &fresh_name("time"));
        let clock = store.one.clock();
        let before_first = clock.now();
        let Some(first) = read(&store.one, &key).await.time else {
            let other = read(&store.other, &key).await.time;
            assert_eq!(other, None, "both connections have the time");
            continue;
        };
        let after_first = clock.now();
        let mut last = first.clone();
        for turn in 0..20 {
            let backend = [&store.other, &store.one][turn % 2];
            if turn % 5 == 0 {
                put(backend, &key, b"any").await;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
            let time = read(backend, &key).await.time.expect("the time");
            assert_eq!(time.era, first.era, "all clients see the same clock");
            assert!(time.now >= last.now, "{time:?} after {last:?}");
            last = time;
        }
        let before_last = clock.now();
        let time = read(&store.one, &key).await.time.expect("the time");
        let passed = time.now.saturating_sub(first.now);
        let at_least = before_last.saturating_duration_since(after_first);
        let at_most = clock.now().saturating_duration_since(before_first);
        assert!(
            passed + TOLERANCE >= at_least && passed <= at_most + TOLERANCE,
            "{passed:?} have passed at the store, and {at_least:?} to {at_most:?} here"
        );
    }
}

async fn the_epoch_floor_never_goes_back(store: StoreUnderTest) {
    let key = fresh_key("floor");
    let mut last = 0;
    for turn in 0..10 {
        let backend = [&store.one, &store.other][turn % 2];
        let seen = read(backend, &key).await;
        let floor = seen.epoch_floor;
        assert!(floor >= last, "the floor is {floor} after {last}");
        assert!(floor < Fence::EPOCH_END, "{floor} is no epoch");
        last = floor;
        replace(backend, &key, &seen, b"any").await;
    }
}

async fn names_are_those_of_the_kind(store: StoreUnderTest) {
    let base = fresh_name("names");
    let names: Vec<LockName> = ["", "}:runs:*", "/ü %2F"]
        .iter()
        .map(|end| LockName::new(&format!("{base}{end}")).expect("a valid name"))
        .collect();
    for name in &names {
        put(&store.one, &key(RecordKind::Runs, name), b"any").await;
        put(&store.one, &key(RecordKind::Runs, name), b"again").await;
    }
    // Tests share a store, so there may be other names, too.
    let listed = async |kind| {
        let all = records(&store.other).names(kind).await;
        let mut all = all.expect("an answer");
        all.retain(|name| name.as_str().starts_with(base.as_str()));
        all.sort();
        all
    };
    let mut expected = names.clone();
    expected.sort();
    assert_eq!(listed(RecordKind::Runs).await, expected, "each name once");
    assert_eq!(listed(RecordKind::Leader).await, [], "none of this kind");
}
