//! What is written is read again, and what a person or another program has changed is not misread.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::claim::OwnerId;
use crate::random::SeededRandom;
use crate::shares::machine::slots::Slots;

fn owner(number: u64) -> OwnerId {
    OwnerId::random(&SeededRandom::new(number))
}

fn semaphore() -> Roster {
    let share = Share {
        owner: owner(1),
        need: Need::Permits(2),
        slots: Slots::lowest_free(2, 3, []),
        epoch: 17,
        since: Duration::from_millis(1_763_583_422_500),
        ends: Duration::from_millis(1_763_583_432_500),
        ttl: Duration::from_secs(10),
        label: "web-1:2210".into(),
    };
    let waiting = Waiting {
        owner: owner(2),
        need: Need::Permits(2),
        ticket: 4,
        since: Duration::from_nanos(1_763_583_424_000_000_001),
        called_until: None,
        label: "two words\nand 100 %".into(),
    };
    Roster {
        capacity: Some(Capacity::Permits(3)),
        era: "8c1d41f2".into(),
        last_epoch: 17,
        last_ticket: 4,
        shares: vec![share],
        line: vec![waiting],
    }
}

/// The layout is stored: a change of this text needs a new version.
#[test]
fn a_semaphore_is_readable() {
    let [first, second] = [owner(1), owner(2)];
    let text = format!(
        "fencepost shares 1\n\
         era 8c1d41f2\n\
         capacity permits=3\n\
         last epoch=17 ticket=4\n\
         share owner={first} permits=2 slots=0-1 epoch=17 since=1763583422.5 ends=1763583432.5 ttl=10 label=web-1:2210\n\
         waits owner={second} permits=2 ticket=4 since=1763583424.000000001 label=two words%0aand 100 %25\n"
    );
    assert_eq!(semaphore().to_text(), text);
    assert_eq!(Roster::from_text(text.as_bytes()), Ok(semaphore()));
}

#[test]
fn a_read_write_lock_is_readable() {
    let [reader, writer] = [owner(1), owner(2)];
    let text = format!(
        "fencepost shares 1\n\
         era \n\
         capacity read-write\n\
         last epoch=3 ticket=1\n\
         share owner={reader} read epoch=3 since=0 ends=10 ttl=10 label=\n\
         waits owner={writer} write ticket=1 since=0.25 called=10.5 label=b\n"
    );
    let roster = Roster::from_text(text.as_bytes()).unwrap();
    assert_eq!(roster.capacity, Some(Capacity::ReadWrite));
    assert_eq!(
        roster.line[0].called_until,
        Some(Duration::from_millis(10_500))
    );
    assert_eq!(roster.to_text(), text);
}

#[test]
fn a_newer_layout_is_refused() {
    let newer = Roster::from_text(b"fencepost shares 2\nanything\n");
    assert_eq!(newer, Err(Unreadable::Newer(2)));
}

#[test]
fn what_is_not_a_record_is_refused_with_its_line() {
    let good = semaphore().to_text();
    for (from, to, line) in [
        ("fencepost shares 1", "fencepost shares 0", 1),
        ("fencepost shares 1", "fencepost shares one", 1),
        ("fencepost shares 1", "{}", 1),
        ("permits=3", "permits=three", 3),
        ("permits=3", "permits=+3", 3),
        ("capacity permits=3", "capacity read-write", 5),
        ("capacity permits=3", "capacity unknown", 5),
        ("last epoch=17", "last  epoch=17", 4),
        ("ticket=4\nshare", "ticket=4 more=1\nshare", 4),
        ("share owner=", "share owner=0", 5),
        ("slots=0-1", "slots=0-2", 5),
        (
            "epoch=17 since=1763583422.5",
            "since=1763583422.5 epoch=17",
            5,
        ),
        ("ends=1763583432.5", "ends=-1", 5),
        ("ends=1763583432.5", "ends=1.0000000001", 5),
        ("%0a", "%zz", 6),
        ("waits ", "guest ", 6),
    ] {
        assert!(good.contains(from), "{from}");
        let wrong = Roster::from_text(good.replacen(from, to, 1).as_bytes());
        assert_eq!(wrong, Err(Unreadable::Line(line)), "{to}");
    }
    assert_eq!(Roster::from_text(&[0xff]), Err(Unreadable::Line(1)));
    assert_eq!(Roster::from_text(b""), Err(Unreadable::Line(1)));
}

fn time() -> impl Strategy<Value = Duration> {
    (any::<u64>(), 0u32..1_000_000_000).prop_map(|(seconds, nanos)| Duration::new(seconds, nanos))
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        label in any::<String>(),
        era in any::<String>(),
        times in prop::array::uniform4(time()),
        called in prop::option::of(time()),
        (epoch, ticket) in any::<(u64, u64)>(),
    ) {
        let mut roster = semaphore();
        roster.era = era.as_str().into();
        (roster.last_epoch, roster.last_ticket) = (epoch, ticket);
        let share = &mut roster.shares[0];
        [share.since, share.ends, share.ttl, roster.line[0].since] = times;
        share.label = label.as_str().into();
        roster.line[0].called_until = called;
        roster.line[0].label = label.as_str().into();
        let text = roster.to_text();
        prop_assert!(!text.contains('\r') && text.lines().count() == 6, "{text:?}");
        prop_assert_eq!(Roster::from_text(text.as_bytes()), Ok(roster));
    }
}
