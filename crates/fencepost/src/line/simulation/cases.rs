//! Single cases of the line, written by hand.

use std::sync::Arc;
use std::time::Duration;

use super::store::grant;
use super::{Event, SHORT, State, TTL, World, new_claim};
use crate::clock::Moment;
use crate::lease::{Lease, LostReason};
use crate::line::{Done, HandOver, Joined, Line, Manner};
use crate::random::SeededRandom;

#[test]
fn a_lease_that_ends_in_line_is_not_handed_over() {
    let mut world = World::new(HandOver::new().max_time(TTL * 10).min_valid_percent(0));
    world.happen(Event::Arrive {
        process: 0,
        manner: Manner::Wait,
    });
    world.happen(Event::Arrive {
        process: 0,
        manner: Manner::Wait,
    });
    world.happen(Event::StoreWorks);
    world.happen(Event::Answer { which: 0 });
    world.now = world.now + TTL;
    world.happen(Event::Finish { which: 0 });
    assert!(
        matches!(world.tasks[1].state, State::Asking(..)),
        "the next asks the store anew"
    );
    world.serve_all();
    world.nothing_is_left();
}

#[test]
fn the_first_reason_of_a_loss_stays() {
    let claim = new_claim(&SeededRandom::new(1));
    let lease = Lease::new(claim, grant(1, Moment::ZERO + TTL, TTL), Moment::ZERO);
    assert_eq!(lease.lose(LostReason::Gone), LostReason::Gone);
    assert_eq!(lease.lose(LostReason::Expired), LostReason::Gone);
    let lost = lease.lost_at(Moment::FAR).expect("lost");
    assert_eq!(lost.reason(), LostReason::Gone);
}

/// A lease that was cut short is measured against what was granted; one that was renewed, for however long, against the TTL.
#[test]
fn a_short_lease_is_handed_on_while_half_of_it_is_left() {
    let now = Moment::ZERO + TTL;
    let limits = HandOver::new().max_time(TTL);
    let finish_after = |granted, passed: Duration, renewed: Option<Duration>| {
        let random = SeededRandom::new(1);
        let mut line: Line<usize> = Line::default();
        let Joined::Ask(request) = line.join(Manner::Wait, 1, || new_claim(&random), || 1) else {
            unreachable!("nobody is before it")
        };
        let joined = line.join(Manner::Wait, 2, || new_claim(&random), || 2);
        assert!(matches!(joined, Joined::Queued));
        let lease = Lease::new(request.claim, grant(1, now, granted), now);
        let lease = Arc::new(lease);
        line.granted(&lease, now).expect("the line asks");
        if let Some(renewed) = renewed {
            assert!(lease.renewed(now, renewed, now));
        }
        let done = line.done(lease.claim.owner, now + passed, &limits, || {
            new_claim(&random)
        });
        matches!(done, Done::HandOver { .. })
    };
    assert!(finish_after(SHORT, SHORT / 3, None));
    assert!(!finish_after(SHORT, SHORT * 2 / 3, None));
    assert!(finish_after(TTL, TTL / 3, None));
    assert!(!finish_after(TTL, TTL * 2 / 3, None));
    assert!(finish_after(SHORT, SHORT * 2 / 3, Some(TTL)));
    // Half of a TTL, whatever was asked for last.
    assert!(!finish_after(TTL, TTL * 2 / 3, Some(SHORT)));
    assert!(finish_after(TTL, TTL * 2 / 3, Some(TTL * 10)));
}
