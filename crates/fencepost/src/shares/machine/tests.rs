//! The rules one by one, each on the smallest roster that shows it.

use std::time::Duration;

use super::{Asking, Capacity, Claimed, Impossible, Need, Place, Roster};
use crate::backend::records::StoreTime;
use crate::backend::{Release, Renewal};
use crate::claim::{Claim, LockName, OwnerId, Part};
use crate::random::SeededRandom;
use crate::stores::kit::turn_window;

const TTL: Duration = Duration::from_secs(10);
/// A time after a turn that began at zero, and before the end of the leases.
const LATER: Duration = Duration::from_secs(1);
const NEXT: Duration = turn_window::NEXT;
const FIRST: Duration = turn_window::FIRST;

fn claim(number: u64, part: Part) -> Claim {
    let owner = OwnerId::random(&SeededRandom::new(number));
    Claim::new(LockName::new("a").unwrap(), owner, TTL).with_part(part)
}

fn permits(number: u64, count: u32, of: u32) -> Claim {
    claim(number, Part::Permits { count, of })
}

/// A roster and the time.
struct Stage {
    roster: Roster,
    now: Duration,
}

impl Stage {
    fn new() -> Self {
        Self {
            roster: Roster::default(),
            now: Duration::ZERO,
        }
    }

    fn at(&mut self, now: Duration) {
        self.now = now;
        let era = "".into();
        self.roster.settle(&StoreTime { now, era });
    }

    fn ask(&mut self, claim: &Claim, asking: Asking) -> Result<Claimed, Impossible> {
        self.roster.claim(claim, asking, self.now, 0)
    }

    fn tries(&mut self, claim: &Claim) -> bool {
        matches!(self.ask(claim, Asking::Once), Ok(Claimed::Granted { .. }))
    }

    #[track_caller]
    fn granted(&mut self, claim: &Claim) -> (u64, String) {
        match self.ask(claim, Asking::InLine(None)) {
            Ok(Claimed::Granted { epoch, slots }) => (epoch, slots.to_string()),
            other => panic!("not granted: {other:?}"),
        }
    }

    #[track_caller]
    fn waits(&mut self, claim: &Claim) -> Place {
        self.waits_again(claim, None)
    }

    #[track_caller]
    fn waits_again(&mut self, claim: &Claim, place: Option<Place>) -> Place {
        match self.ask(claim, Asking::InLine(place)) {
            Ok(Claimed::Waits { place, .. }) => place,
            other => panic!("does not wait: {other:?}"),
        }
    }

    #[track_caller]
    fn freed(&mut self, claim: &Claim) {
        let (release, _) = self.roster.release(claim.owner, self.now);
        assert_eq!(release, Release::Freed);
    }

    fn called(&self) -> Vec<OwnerId> {
        let line = self.roster.line.iter();
        let called = line.filter(|waiting| waiting.called_until.is_some());
        called.map(|waiting| waiting.owner).collect()
    }

    fn in_line(&self) -> Vec<OwnerId> {
        self.roster
            .line
            .iter()
            .map(|waiting| waiting.owner)
            .collect()
    }
}

#[test]
fn permits_are_given_out_until_none_is_left() {
    let mut stage = Stage::new();
    assert_eq!(stage.granted(&permits(1, 2, 3)), (1, "0-1".into()));
    assert!(!stage.tries(&permits(2, 2, 3)));
    assert_eq!(stage.granted(&permits(3, 1, 3)), (2, "2".into()));
    assert!(!stage.tries(&permits(4, 1, 3)));
    stage.freed(&permits(1, 2, 3));
    assert_eq!(stage.granted(&permits(4, 1, 3)), (3, "0".into()));
}

#[test]
fn a_writer_is_alone_and_readers_are_together() {
    let mut stage = Stage::new();
    let readers = [claim(1, Part::Read), claim(2, Part::Read)];
    readers
        .iter()
        .for_each(|reader| drop(stage.granted(reader)));
    assert!(!stage.tries(&claim(3, Part::Write)));
    readers.iter().for_each(|reader| stage.freed(reader));
    stage.granted(&claim(3, Part::Write));
    assert!(!stage.tries(&claim(4, Part::Write)));
    assert!(!stage.tries(&claim(5, Part::Read)));
}

#[test]
fn asking_again_continues_the_same_share() {
    let mut stage = Stage::new();
    let held = permits(1, 1, 2);
    let first = stage.granted(&held);
    stage.at(LATER);
    assert_eq!(stage.granted(&held), first);
    assert_eq!(stage.roster.shares.len(), 1);
    assert_eq!(stage.roster.shares[0].ends, LATER + TTL);
}

#[test]
fn a_lease_that_is_over_cannot_be_renewed() {
    let mut stage = Stage::new();
    let held = permits(1, 1, 1);
    stage.granted(&held);
    stage.at(TTL - Duration::from_nanos(1));
    let renew = |stage: &mut Stage, ttl| stage.roster.renew(held.owner, ttl, stage.now);
    assert_eq!(renew(&mut stage, LATER), Renewal::Extended);
    assert_eq!(stage.roster.shares[0].ends, stage.now + LATER);
    assert_eq!(renew(&mut stage, Duration::ZERO), Renewal::Extended);
    assert_eq!(
        stage.roster.shares[0].ends,
        stage.now + LATER,
        "never shorter"
    );
    stage.at(stage.now + LATER);
    assert_eq!(renew(&mut stage, TTL), Renewal::Lost);
    let (release, has_changed) = stage.roster.release(held.owner, stage.now);
    assert_eq!((release, has_changed), (Release::NotHeld, false));
}

#[test]
fn an_epoch_is_larger_than_the_last_and_not_below_the_floor() {
    let mut stage = Stage::new();
    let mut epoch = |number, floor| {
        let claim = permits(number, 1, 9);
        match stage
            .roster
            .claim(&claim, Asking::Once, Duration::ZERO, floor)
        {
            Ok(Claimed::Granted { epoch, .. }) => epoch,
            other => panic!("{other:?}"),
        }
    };
    let epochs = [epoch(1, 0), epoch(2, 100), epoch(3, 7), epoch(4, 0)];
    assert_eq!(epochs, [1, 100, 101, 102]);
}

#[test]
fn nobody_overtakes_a_waiter_for_whom_there_is_no_room() {
    let mut stage = Stage::new();
    stage.granted(&permits(1, 2, 3));
    stage.waits(&permits(2, 3, 3));
    assert!(!stage.tries(&permits(3, 1, 3)), "one permit is free");
    stage.waits(&permits(4, 1, 3));
    assert!(stage.called().is_empty());
}

#[test]
fn neither_readers_nor_writers_are_overtaken() {
    let mut stage = Stage::new();
    let [reader, writer] = [claim(1, Part::Read), claim(2, Part::Write)];
    stage.granted(&reader);
    stage.waits(&writer);
    assert!(!stage.tries(&claim(3, Part::Read)));
    let late = [3, 4].map(|number| claim(number, Part::Read));
    for late in &late {
        stage.waits(late);
    }
    stage.waits(&claim(5, Part::Write));
    stage.waits(&claim(6, Part::Read));
    stage.freed(&reader);
    assert_eq!(stage.called(), [writer.owner]);
    stage.granted(&writer);
    stage.freed(&writer);
    assert_eq!(
        stage.called(),
        late.each_ref().map(|late| late.owner),
        "together"
    );
}

#[test]
fn room_is_kept_for_those_who_are_called() {
    let mut stage = Stage::new();
    let [holder, first, second] = [1, 2, 3].map(|number| permits(number, 2, 3));
    stage.granted(&holder);
    stage.waits(&first);
    stage.waits(&second);
    stage.freed(&holder);
    assert_eq!(stage.called(), [first.owner]);
    assert!(!stage.tries(&permits(4, 2, 3)));
    assert!(!stage.tries(&permits(5, 1, 3)), "the second waits for it");
    stage.roster.release(second.owner, stage.now);
    assert!(
        stage.tries(&permits(5, 1, 3)),
        "what is not kept for the first"
    );
    stage.granted(&first);
}

#[test]
fn whoever_does_not_come_in_its_turn_is_passed_over_and_gets_its_old_place_back() {
    let mut stage = Stage::new();
    let [holder, slow, next, last] = [1, 2, 3, 4].map(|number| permits(number, 1, 1));
    stage.granted(&holder);
    let place = stage.waits(&slow);
    stage.waits(&next);
    stage.waits(&last);
    stage.freed(&holder);
    stage.at(FIRST - Duration::from_nanos(1));
    assert_eq!(stage.called(), [slow.owner]);
    stage.waits(&next);
    stage.at(FIRST);
    assert_eq!(stage.called(), [next.owner], "the next in line");
    stage.granted(&next);
    assert_eq!(stage.waits_again(&slow, Some(place)), place);
    assert_eq!(stage.in_line(), [slow.owner, last.owner]);
}

#[test]
fn a_row_of_dead_waiters_takes_a_window_and_then_an_eighth_each() {
    let mut stage = Stage::new();
    let holder = permits(1, 1, 1);
    stage.granted(&holder);
    for number in 2..12 {
        stage.waits(&permits(number, 1, 1));
    }
    stage.freed(&holder);
    let free_at = FIRST + NEXT * 9;
    stage.at(free_at - Duration::from_nanos(1));
    assert!(!stage.tries(&permits(20, 1, 1)));
    stage.at(free_at);
    assert!(stage.tries(&permits(20, 1, 1)));
}

#[test]
fn a_lease_that_ends_calls_the_next_whether_or_not_anybody_looks() {
    let mut stage = Stage::new();
    stage.granted(&permits(1, 1, 1));
    let [first, second] = [2, 3].map(|number| permits(number, 1, 1));
    stage.waits(&first);
    stage.waits(&second);
    stage.at(TTL + FIRST - Duration::from_nanos(1));
    assert_eq!(stage.called(), [first.owner]);
    stage.at(TTL + FIRST);
    assert_eq!(stage.called(), [second.owner]);
}

#[test]
fn whoever_is_called_leaves_its_turn_to_the_next() {
    let mut stage = Stage::new();
    let [holder, first, second] = [1, 2, 3].map(|number| permits(number, 1, 1));
    stage.granted(&holder);
    stage.waits(&first);
    stage.waits(&second);
    stage.freed(&holder);
    let left = stage.roster.release(first.owner, stage.now);
    assert_eq!(left, (Release::NotHeld, true));
    assert_eq!(stage.called(), [second.owner]);
}

#[test]
fn a_lower_number_of_permits_takes_nothing_away() {
    let mut stage = Stage::new();
    let held = [1, 2, 3].map(|number| permits(number, 1, 3));
    held.iter().for_each(|held| drop(stage.granted(held)));
    stage.waits(&permits(4, 2, 3));
    stage.waits(&permits(5, 1, 3));
    stage.roster.resize(1, stage.now).unwrap();
    assert_eq!(stage.roster.shares.len(), 3);
    assert_eq!(stage.in_line().len(), 1, "two can never be had");
    let too_many = Impossible::TooMany {
        wanted: 2,
        permits: 1,
    };
    assert_eq!(
        stage.ask(&permits(4, 2, 3), Asking::InLine(None)),
        Err(too_many)
    );
    stage.freed(&held[0]);
    assert!(stage.called().is_empty(), "two of one are out");
    stage.freed(&held[2]);
    assert!(stage.called().is_empty());
    stage.freed(&held[1]);
    assert_eq!(stage.granted(&permits(5, 1, 3)).1, "0");
}

#[test]
fn a_higher_number_of_permits_calls_those_who_fit() {
    let mut stage = Stage::new();
    stage.granted(&permits(1, 1, 1));
    let [first, second] = [2, 3].map(|number| permits(number, 1, 1));
    stage.waits(&first);
    stage.waits(&second);
    stage.roster.resize(2, stage.now).unwrap();
    assert_eq!(stage.called(), [first.owner]);
    assert_eq!(stage.granted(&first).1, "1");
}

#[test]
fn a_reader_takes_the_place_of_its_writer_without_a_gap() {
    let mut stage = Stage::new();
    let writer = claim(1, Part::Write);
    let reader = claim(2, Part::ReadInPlaceOf(writer.owner));
    let (before, _) = stage.granted(&writer);
    let beside = claim(3, Part::Read);
    stage.waits(&beside);
    stage.waits(&claim(4, Part::Write));
    let (after, _) = stage.granted(&reader);
    assert!(after > before);
    assert_eq!(stage.roster.shares.len(), 1);
    assert_eq!(stage.roster.shares[0].need, Need::Read);
    assert_eq!(stage.called(), [beside.owner]);
    assert_eq!(stage.granted(&reader).0, after, "asked again");
    let again = claim(5, Part::ReadInPlaceOf(writer.owner));
    assert_eq!(stage.ask(&again, Asking::Once), Err(Impossible::NotWriting));
    let of_a_reader = claim(6, Part::ReadInPlaceOf(reader.owner));
    assert_eq!(
        stage.ask(&of_a_reader, Asking::Once),
        Err(Impossible::NotWriting)
    );
}

#[test]
fn what_can_never_be_granted_is_refused() {
    let mut semaphore = Stage::new();
    semaphore.granted(&permits(1, 1, 2));
    let mut refused = |claim: &Claim| semaphore.ask(claim, Asking::Once).unwrap_err();
    let kind = Impossible::OtherKind(Capacity::Permits(2));
    assert_eq!(refused(&claim(2, Part::Read)), kind);
    assert_eq!(
        refused(&claim(2, Part::ReadInPlaceOf(claim(1, Part::Whole).owner))),
        kind
    );
    assert_eq!(refused(&permits(2, 0, 2)), Impossible::Nothing);
    let too_many = Impossible::TooMany {
        wanted: 3,
        permits: 2,
    };
    assert_eq!(
        refused(&permits(2, 3, 9)),
        too_many,
        "what is stored counts"
    );
    assert_eq!(refused(&claim(2, Part::Whole)), Impossible::Whole);
    assert_eq!(
        semaphore.roster.resize(0, Duration::ZERO),
        Err(Impossible::Nothing)
    );
    let mut lock = Stage::new();
    lock.granted(&claim(1, Part::Read));
    let kind = Impossible::OtherKind(Capacity::ReadWrite);
    assert_eq!(lock.ask(&permits(2, 1, 1), Asking::Once), Err(kind));
    assert_eq!(lock.roster.resize(1, Duration::ZERO), Err(kind));
}

#[test]
fn in_another_era_everything_has_ended_but_the_counters() {
    let mut stage = Stage::new();
    let held = permits(1, 1, 1);
    stage.granted(&held);
    stage.waits(&permits(2, 1, 1));
    stage.roster.resize(2, stage.now).unwrap();
    let time = StoreTime {
        now: Duration::ZERO,
        era: "another".into(),
    };
    stage.roster.settle(&time);
    assert!(stage.roster.shares.is_empty() && stage.roster.line.is_empty());
    assert_eq!(
        stage.roster.renew(held.owner, TTL, Duration::ZERO),
        Renewal::Lost
    );
    assert_eq!(stage.granted(&permits(3, 2, 1)).0, 2);
}
