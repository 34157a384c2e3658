//! SQLite files that cannot store locks, and files that are removed or replaced.

use std::path::Path;
use std::process::Command;

use fencepost::backend::{Release, Renewal};
use fencepost::stores::StoreAddress;
use fencepost::stores::sqlite::Sqlite;
use fencepost::{Backend, Effect, Error, ErrorKind};

use crate::stage::stage;
use crate::support::{LONG, Place, claim, renew, take, until, until_waiting, wait_for};

async fn refusal(path: impl AsRef<Path>) -> Error {
    let error = Sqlite::open(path).await.expect_err("it is not usable");
    assert_eq!(error.effect(), Effect::None);
    assert!(error.to_string().starts_with("sqlite: open: "), "{error}");
    error
}

#[track_caller]
fn assert_unusable(error: &Error, reason: &str) {
    assert_eq!(error.kind(), ErrorKind::Unusable, "{error}");
    assert_eq!(error.effect(), Effect::None, "{error}");
    assert!(error.to_string().contains(reason), "{error}");
}

#[tokio::test]
async fn what_is_no_database_is_refused_and_left_alone() {
    let place = Place::new();
    let text = "once upon a time ".repeat(500);
    std::fs::write(&place.path, &text).unwrap();
    assert_unusable(
        &refusal(&place.path).await,
        "is not an SQLite database: move it away",
    );
    assert_eq!(std::fs::read_to_string(&place.path).unwrap(), text);
}

#[tokio::test]
async fn a_damaged_database_is_refused() {
    let place = Place::new();
    drop(place.open().await);
    until(async || !place.path.with_extension("db-wal").exists()).await;
    let mut bytes = std::fs::read(&place.path).unwrap();
    let pages = bytes.len() / 4096;
    bytes[100..pages * 4096].fill(0x5a);
    std::fs::write(&place.path, bytes).unwrap();
    assert_unusable(&refusal(&place.path).await, "is damaged: move it away");
}

#[tokio::test]
async fn missing_folders_and_folders_are_refused() {
    let place = Place::new();
    let missing = place.folder.path().join("no/such/locks.db");
    assert_unusable(&refusal(missing).await, "does not exist: create it first");
    assert_unusable(&refusal(place.folder.path()).await, "is not a file");
    assert_unusable(&refusal("/").await, "is not a file");
    std::fs::write(&place.path, "").unwrap();
    let below_a_file = place.path.join("locks.db");
    assert_unusable(&refusal(below_a_file).await, "is not a folder");
}

#[tokio::test]
async fn an_empty_file_becomes_a_database() {
    let place = Place::new();
    std::fs::write(&place.path, "").unwrap();
    take(&place.open().await, &claim("one", LONG)).await;
}

#[tokio::test]
async fn tables_of_another_version_are_refused() {
    let place = Place::new();
    drop(place.open().await);
    place
        .sql()
        .execute("UPDATE fencepost_meta SET value = 3", [])
        .unwrap();
    let error = refusal(&place.path).await;
    assert_unusable(&error, "tables of version 3, this one knows 2");
}

/// The counter of version 1 came from a clock with coarser units. A program of that version that has the file open continues to
/// use the same counter.
#[tokio::test]
async fn a_file_of_version_1_becomes_one_of_version_2() {
    const COARSE: u64 = 1_450_000_000_000;
    let place = Place::new();
    drop(place.open().await);
    let as_version_1 =
        format!("UPDATE fencepost_meta SET value = 1; UPDATE fencepost_fence SET epoch = {COARSE}");
    place.sql().execute_batch(&as_version_1).unwrap();
    // What a program of version 1 does while it has the file open.
    let earlier = place.sql();
    let count = || {
        let sql = "UPDATE fencepost_fence SET epoch = epoch + 1 RETURNING epoch";
        let counted = earlier.query_row(sql, [], |row| row.get::<_, i64>(0));
        counted.unwrap().cast_unsigned()
    };
    let before = count();
    assert_eq!(before, COARSE + 1);
    let store = place.open().await;
    let version = "SELECT value FROM fencepost_meta WHERE key = 'version'";
    let version: i64 = earlier.query_row(version, [], |row| row.get(0)).unwrap();
    assert_eq!(version, 2);
    let first = take(&store, &claim("one", LONG)).await;
    assert!(first.epoch > COARSE * 7, "not lifted: {}", first.epoch);
    let theirs = count();
    assert!(theirs > first.epoch);
    let second = take(&store, &claim("two", LONG)).await;
    assert!(second.epoch > theirs, "{} after {theirs}", second.epoch);
}

#[tokio::test]
async fn a_look_changes_nothing() {
    let place = Place::new();
    let store = place.open().await;
    let held = claim("one", LONG);
    take(&store, &held).await;
    let earlier = format!("UPDATE fencepost_meta SET value = 1; {EARLIER_TABLES}");
    place.sql().execute_batch(&earlier).unwrap();
    let state = || -> (i64, i64, i64) {
        let sql = "SELECT (SELECT value FROM fencepost_meta), epoch, (SELECT count(*) FROM pragma_table_info('fencepost_lock'))
            FROM fencepost_fence";
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        place.sql().query_row(sql, [], row).unwrap()
    };
    let before = state();
    let look = Sqlite::builder(&place.path).open_read_only().await.unwrap();
    assert_eq!(look.list(None).await.unwrap().len(), 1);
    let record = look.inspect(&held.name).await.unwrap().unwrap();
    assert_eq!(record.holder.unwrap().ttl, None);
    look.try_acquire(&claim("two", LONG)).await.unwrap_err();
    assert_eq!(state(), before);
}

#[tokio::test]
async fn a_look_makes_neither_file_nor_tables() {
    let place = Place::new();
    let error = Sqlite::builder(&place.path).open_read_only().await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unavailable);
    let address = format!("sqlite:{}", place.path.display());
    let address: StoreAddress = address.parse().unwrap();
    let error = address.open_to_release().await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(!place.path.exists());
    place
        .sql()
        .execute_batch("CREATE TABLE goods (id)")
        .unwrap();
    let look = Sqlite::builder(&place.path).open_read_only().await.unwrap();
    assert_eq!(look.list(None).await.unwrap().len(), 0);
    let name = claim("one", LONG).name;
    assert_eq!(look.inspect(&name).await.unwrap(), None);
    let tables = "SELECT count(*) FROM sqlite_schema WHERE type = 'table'";
    let tables: i64 = place.sql().query_row(tables, [], |row| row.get(0)).unwrap();
    assert_eq!(tables, 1);
}

#[tokio::test]
async fn tables_that_were_tampered_with_are_reported() {
    let place = Place::new();
    let store = place.open().await;
    place
        .sql()
        .execute_batch("DELETE FROM fencepost_fence")
        .unwrap();
    let error = store.try_acquire(&claim("one", LONG)).await.unwrap_err();
    assert_unusable(&error, "are not as this program made them");
    assert_eq!(place.rows(), (0, 0), "rolled back");
    place
        .sql()
        .execute_batch("DROP TABLE fencepost_lock")
        .unwrap();
    let error = store.try_acquire(&claim("one", LONG)).await.unwrap_err();
    assert_unusable(&error, "are not as this program made them");
}

/// The tables of version 0.1.0, without the informative columns for a lease's length and a waiter's timeout.
const EARLIER_TABLES: &str = "
    ALTER TABLE fencepost_lock DROP COLUMN ttl_ns;
    ALTER TABLE fencepost_line DROP COLUMN joined_ns;";

#[tokio::test]
async fn a_file_of_an_earlier_program_is_shared_with_it() {
    let place = Place::new();
    drop(place.open().await);
    place.sql().execute_batch(EARLIER_TABLES).unwrap();
    let earlier = "
        INSERT INTO fencepost_lock (name, owner, label, boot, acquired_ns, expires_ns, epoch)
        SELECT ?1, '0123456789abcdef0123456789abcdef', 'old:1', boot, 1, 9223372036854775807, 7 FROM fencepost_fence";
    place.sql().execute(earlier, ["before"]).unwrap();
    let store = place.open().await;
    // And it continues to write as before.
    place.sql().execute(earlier, ["after"]).unwrap();
    let mine = claim("mine", LONG);
    take(&store, &mine).await;
    let listed = store.list(None).await.unwrap();
    let known: Vec<_> = listed
        .iter()
        .map(|lock| {
            let holder = lock.record.holder.as_ref().unwrap();
            (lock.name.as_str(), holder.ttl, holder.epoch.unwrap() == 7)
        })
        .collect();
    assert_eq!(
        known,
        [
            ("after", None, true),
            ("before", None, true),
            ("mine", Some(LONG), false)
        ]
    );
}

#[tokio::test]
async fn a_read_only_disk_is_refused() {
    let name = "files::a_read_only_disk_is_refused";
    let setup = "mount -t tmpfs tmpfs \"$1\"; mkdir \"$1\"/full \"$1\"/empty; cp /dev/null \"$1\"/full/locks.db";
    let Some(folder) = stage(name, setup) else {
        return;
    };
    let full = folder.join("full/locks.db");
    let store = Sqlite::open(&full).await.unwrap();
    drop(store);
    until(async || !folder.join("full/locks.db-wal").exists()).await;
    run("mount", &["-o", "remount,ro", folder.to_str().unwrap()]);
    assert_unusable(
        &refusal(&full).await,
        "can only be read: make the file and its folder writable",
    );
    let new = folder.join("empty/locks.db");
    assert_unusable(
        &refusal(&new).await,
        "may this user write to the file and its folder?",
    );
}

#[tokio::test]
async fn a_full_disk_changes_nothing_and_works_again_with_room() {
    let name = "files::a_full_disk_changes_nothing_and_works_again_with_room";
    let Some(folder) = stage(name, "mount -t tmpfs -o size=512k tmpfs \"$1\"") else {
        return;
    };
    let store = Sqlite::open(folder.join("locks.db")).await.unwrap();
    let held = claim("held", LONG);
    let epoch = take(&store, &held).await.epoch;
    let filler = folder.join("filler");
    // Until the disk is full; the last piece may fit in part.
    assert!(std::fs::write(&filler, vec![0; 1 << 20]).is_err());

    // The WAL may have some room left, but not for this many.
    let mut failed = None;
    for n in 0..1000 {
        match store.try_acquire(&claim(&format!("lock {n}"), LONG)).await {
            Ok(grant) => assert!(grant.is_some()),
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    assert_unusable(&failed.expect("the disk is full"), "full");
    assert_unusable(&refusal(folder.join("other.db")).await, "full");
    let waiter = claim("held", LONG);
    let wait = fencepost::backend::Wait::default();
    let error = store.acquire(&waiter, &wait).await.unwrap_err();
    assert_unusable(&error, "full");

    std::fs::remove_file(&filler).unwrap();
    let next = take(&store, &claim("later", LONG)).await.epoch;
    assert!(next > epoch);
    assert_eq!(store.release(&held).await.unwrap(), Release::Freed);
    assert_eq!(store.release(&waiter).await.unwrap(), Release::NotHeld);
}

#[tokio::test]
async fn a_fuse_mount_is_refused() {
    let name = "files::a_fuse_mount_is_refused";
    let setup = "mount -t tmpfs tmpfs \"$1\"; mkdir \"$1\"/a \"$1\"/b; bindfs \"$1\"/a \"$1\"/b";
    let Some(folder) = stage(name, setup) else {
        return;
    };
    let error = refusal(folder.join("b/locks.db")).await;
    assert_unusable(&error, "lies on FUSE");
    assert_unusable(&error, "put it on a local disk");
    assert!(!folder.join("a/locks.db").exists());
    drop(Sqlite::open(folder.join("a/locks.db")).await.unwrap());
    assert_unusable(&refusal(folder.join("b/locks.db")).await, "lies on FUSE");
}

#[tokio::test]
async fn a_deleted_file_takes_its_locks_along() {
    for all_of_it in [true, false] {
        let place = Place::new();
        let (a, b) = (place.open().await, place.open().await);
        let (held, waiter) = (claim("one", LONG), claim("one", LONG));
        let before = take(&a, &held).await;
        let waiting = tokio::spawn({
            let waiter = waiter.clone();
            async move { (wait_for(&b, &waiter).await, b) }
        });
        until_waiting(&a, &waiter).await;
        std::fs::remove_file(&place.path).unwrap();
        if all_of_it {
            for companion in ["locks.db-wal", "locks.db-shm"] {
                let _ = std::fs::remove_file(place.folder.path().join(companion));
            }
        }
        let (after, b) = waiting.await.unwrap();
        assert!(after.epoch > before.epoch);
        assert_eq!(renew(&a, &held).await.unwrap(), Renewal::Lost);
        assert_eq!(a.release(&held).await.unwrap(), Release::NotHeld);
        assert_eq!(a.try_acquire(&held).await.unwrap(), None);
        assert_eq!(place.rows(), (1, 0));
        assert_eq!(b.release(&waiter).await.unwrap(), Release::Freed);
        assert_eq!(place.rows(), (0, 0));
        // The old file was closed without harming the new one.
        let check: String = place
            .sql()
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(check, "ok");
    }
}

#[tokio::test]
async fn locks_exclude_each_other_also_after_the_file_was_replaced() {
    for all_of_it in [true, false] {
        let place = Place::new();
        let (a, b) = (place.open().await, place.open().await);
        for round in 0..10 {
            let other = Place::new();
            drop(other.open().await);
            until(async || !other.path.with_extension("db-wal").exists()).await;
            std::fs::rename(&other.path, &place.path).unwrap();
            if all_of_it {
                for companion in ["locks.db-wal", "locks.db-shm"] {
                    let _ = std::fs::remove_file(place.folder.path().join(companion));
                }
            }
            let (one, two) = (claim("one", LONG), claim("one", LONG));
            let (first, second) = tokio::join!(a.try_acquire(&one), b.try_acquire(&two));
            let granted = [first, second]
                .into_iter()
                .filter(|answer| answer.as_ref().unwrap().is_some());
            assert_eq!(granted.count(), 1, "round {round}");
        }
    }
}

/// The application's database, which contains the locks, is restored from a backup while the old log is still beside it.
#[tokio::test]
async fn the_log_of_a_replaced_file_is_not_written_into_the_new_one() {
    let place = Place::new();
    let (a, b) = (place.open().await, place.open().await);
    let held = claim("one", LONG);
    take(&a, &held).await;
    let backup = place.folder.path().join("backup.db");
    let restored = rusqlite::Connection::open(&backup).unwrap();
    let rows = "CREATE TABLE goods (id INTEGER PRIMARY KEY, name TEXT);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
        INSERT INTO goods SELECT i, 'something' FROM n";
    restored.execute_batch(rows).unwrap();
    drop(restored);
    std::fs::rename(&backup, &place.path).unwrap();
    assert_eq!(renew(&a, &held).await.unwrap(), Renewal::Lost);
    assert!(b.try_acquire(&held).await.unwrap().is_some());
    assert!(b.checkpoint().await.unwrap(), "nobody else reads");
    let count = |sql| -> i64 { place.sql().query_row(sql, [], |row| row.get(0)).unwrap() };
    assert_eq!(count("SELECT count(*) FROM goods"), 300);
    assert_eq!(
        count("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"),
        0
    );
    assert_eq!(place.rows(), (1, 0));
}

#[tokio::test]
async fn a_folder_that_vanishes_ends_the_waiting() {
    let place = Place::new();
    let store = place.open().await;
    let (held, waiter) = (claim("one", LONG), claim("one", LONG));
    take(&store, &held).await;
    let wait = fencepost::backend::Wait::default();
    let (waited, ()) = tokio::join!(store.acquire(&waiter, &wait), async {
        until(async || wait.was_busy()).await;
        std::fs::remove_dir_all(place.folder.path()).unwrap();
    });
    let error = waited.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unusable);
    assert!(
        error
            .to_string()
            .contains("does not exist: create it first"),
        "{error}"
    );
    std::fs::create_dir(place.folder.path()).unwrap();
    take(&store, &waiter).await;
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {complained}"
    );
}
