//! A reboot of the machine ends the leases and tickets in a SQLite file and raises its fence.

use fencepost::Backend;
use fencepost::backend::{Release, Renewal};
use fencepost::stores::sqlite::Sqlite;

use crate::support::{LONG, Place, claim, renew, stand_and_freeze, take};

#[tokio::test]
async fn a_reboot_voids_leases_and_tickets_and_raises_the_fence() {
    let place = Place::new();
    let booted = |id: &'static str| {
        Sqlite::builder(&place.path)
            .boot_id(id)
            .first_epoch(1)
            .open()
    };
    let before = booted("first").await.unwrap();
    let held = claim("one", LONG);
    assert_eq!(take(&before, &held).await.epoch, 1);
    stand_and_freeze(&before, &claim("one", LONG)).await;
    assert_eq!(place.rows(), (1, 1));

    let after = booted("second").await.unwrap();
    assert_eq!(place.rows(), (0, 0));
    let mine = claim("one", LONG);
    assert_eq!(take(&after, &mine).await.epoch, 1_000_002);
    assert_eq!(renew(&before, &held).await.unwrap(), Renewal::Lost);
    assert_eq!(before.release(&held).await.unwrap(), Release::NotHeld);
    assert_eq!(after.release(&mine).await.unwrap(), Release::Freed);

    // Once per boot, not once per program.
    let again = booted("second").await.unwrap();
    assert_eq!(take(&again, &mine).await.epoch, 1_000_003);
}

#[tokio::test]
async fn rows_of_another_boot_count_for_nothing_even_when_they_appear_later() {
    let place = Place::new();
    let store = place.open().await;
    let sql = place.sql();
    sql.execute_batch(
        "INSERT INTO fencepost_lock VALUES ('one', 'x', 'x', 'other', 0, 9223372036854775807, 1, 0);
         INSERT INTO fencepost_line (name, owner, label, boot) VALUES ('one', 'y', 'y', 'other');",
    )
    .unwrap();
    let mine = claim("one", LONG);
    assert_eq!(store.inspect(&mine.name).await.unwrap(), None);
    take(&store, &mine).await;
    assert_eq!(store.release(&mine).await.unwrap(), Release::Freed);
}
