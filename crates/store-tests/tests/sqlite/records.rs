//! The records of a SQLite file: where their epochs begin, and files that were made without them.

use std::time::Duration;

use fencepost::ErrorKind;
use fencepost::backend::records::{RecordKind, Replaced, Snapshot};
use fencepost::stores::sqlite::Sqlite;
use fencepost_store_tests::records::{grant, key, read, records, replace, try_replace};

use crate::support::{LONG, Place, claim, take};

#[tokio::test]
async fn epochs_of_records_and_of_locks_come_from_one_counter() {
    let place = Place::new();
    let builder = Sqlite::builder(&place.path).first_epoch(7);
    let store = builder.open().await.unwrap();
    assert_eq!(grant(&store).await, 7);
    assert_eq!(take(&store, &claim("one", LONG)).await.epoch, 8);
    assert_eq!(grant(&store).await, 9);
    let outdated = Snapshot::absent(read(&store).await.asked_at);
    let replaced = replace(&store, &outdated, b"late").await;
    assert_eq!(replaced, Replaced::Outdated);
    assert_eq!(grant(&store).await, 10, "nothing was replaced");
}

/// A power cut takes the last commits, here all but the first grant. Nobody granted a lock, so only the records raised the counter.
#[tokio::test]
async fn epochs_that_a_power_cut_took_from_a_record_are_not_granted_again() {
    let place = Place::new();
    let booted = |id: &'static str| {
        let builder = Sqlite::builder(&place.path).first_epoch(1);
        builder.boot_id(id).open()
    };
    let before = booted("first").await.unwrap();
    let first = grant(&before).await;
    assert!(before.checkpoint().await.unwrap());
    let survives = std::fs::read(&place.path).unwrap();
    let era = read(&before).await.time.unwrap().era;
    let mut last = first;
    for _ in 0..2000 {
        last = grant(&before).await;
    }
    drop(before);
    crate::support::until(async || !place.path.with_extension("db-wal").exists()).await;
    std::fs::write(&place.path, survives).unwrap();

    let after = booted("second").await.unwrap();
    assert_ne!(read(&after).await.time.unwrap().era, era);
    let next = grant(&after).await;
    assert!(next > last, "{next} after {last}");
}

#[tokio::test]
async fn a_new_file_does_not_believe_what_was_read_in_the_one_before_it() {
    let place = Place::new();
    let (ours, theirs) = (place.open().await, place.open().await);
    let ours_saw = read(&ours).await;
    let granted = grant(&theirs).await;
    std::fs::remove_file(&place.path).unwrap();
    let replaced = replace(&ours, &ours_saw, b"an epoch of the old file").await;
    assert_eq!(replaced, Replaced::Outdated);
    assert_eq!(read(&theirs).await.value, None, "nothing was created");
    let next = grant(&ours).await;
    assert!(next > granted, "{next} after {granted}");
}

#[tokio::test]
async fn those_who_wait_for_a_change_learn_that_the_file_was_replaced() {
    let place = Place::new();
    let store = place.open().await;
    grant(&store).await;
    let seen = read(&store).await;
    let key = key();
    let changed = records(&store).changed(&key, &seen);
    let replace = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        std::fs::remove_file(&place.path).unwrap();
    };
    let (told, ()) = tokio::join!(tokio::time::timeout(LONG, changed), replace);
    told.expect("told");
    assert_eq!(read(&store).await.version, 0);
}

/// A file of a program that knew no records: it has no table for them.
async fn without_table(place: &Place) {
    drop(place.open().await);
    let sql = place.sql();
    sql.execute_batch("DROP TABLE fencepost_record").unwrap();
}

#[tokio::test]
async fn a_file_of_an_earlier_program_gets_the_table() {
    let place = Place::new();
    without_table(&place).await;
    let store = place.open().await;
    grant(&store).await;
    let version = "SELECT value FROM fencepost_meta WHERE key = 'version'";
    let version = place.sql().query_row(version, [], |row| row.get(0));
    // An earlier program still opens the file.
    assert_eq!(version, Ok(2));
}

#[tokio::test]
async fn a_look_at_a_file_of_an_earlier_program_finds_no_records() {
    let place = Place::new();
    without_table(&place).await;
    let look = Sqlite::builder(&place.path).open_read_only().await.unwrap();
    let seen = read(&look).await;
    assert_eq!((seen.value.as_deref(), seen.version), (None, 0));
    let names = records(&look).names(RecordKind::Shares).await.unwrap();
    assert_eq!(names, []);
    let replaced = try_replace(&look, &seen, b"any").await;
    assert_eq!(replaced.unwrap_err().kind(), ErrorKind::Unusable);
    let tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'fencepost_record'";
    let tables = place.sql().query_row(tables, [], |row| row.get(0));
    assert_eq!(tables, Ok(0), "a look changes nothing");
}

#[tokio::test]
async fn a_look_sees_records_and_changes_none() {
    let place = Place::new();
    let store = place.open().await;
    let granted = grant(&store).await;
    let look = Sqlite::builder(&place.path).open_read_only().await.unwrap();
    let seen = read(&look).await;
    assert_eq!(seen.value.as_deref(), Some(&granted.to_be_bytes()[..]));
    let replaced = try_replace(&look, &seen, b"any").await;
    assert_eq!(replaced.unwrap_err().kind(), ErrorKind::Unusable);
    assert_eq!(read(&store).await.version, seen.version);
}
