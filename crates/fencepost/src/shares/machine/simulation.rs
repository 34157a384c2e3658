//! Simulates clients on one record: artificial time, crashes, replacements that collide, get lost or come late, a store that loses the
//! record or starts a new era, and every order of events that proptest finds.
//!
//! The world compares what clients believe with what the rules promise. Whenever a share is granted: no more is out than there is, nobody is
//! beside a writer, slots are unique, the epoch is larger than all before it, and everybody who came earlier is called or was passed over.
//! Always: nothing that was released is in the record. At the end, everybody who waits gets its share, and nothing is left.

use std::time::Duration;

use proptest::prelude::*;

use self::world::World;
use super::{Capacity, Need};

mod world;

/// What happens next; numbers choose among those to whom it can happen.
#[derive(Debug, Clone, Copy)]
enum Event {
    Arrive {
        amount: u32,
        waits: bool,
    },
    /// A client takes its next step: it reads and decides, or sends what it has decided.
    Step(usize),
    /// A replacement is sent, and its answer gets lost. It may arrive later.
    LoseAnswer(usize),
    /// A replacement arrives whose answer was lost.
    ArriveLate(usize),
    /// A holder is done, or a waiter gives up.
    Leave(usize),
    Renew(usize),
    Downgrade(usize),
    Crash(usize),
    Resize(u32),
    /// The store loses the record.
    LoseRecord,
    /// The machine of the store and all clients starts again.
    Reboot,
    Pass {
        ms: u64,
    },
}

fn event() -> impl Strategy<Value = Event> {
    let which = 0usize..64;
    prop_oneof![
        5 => (1u32..5, prop::bool::weighted(0.8))
            .prop_map(|(amount, waits)| Event::Arrive { amount, waits }),
        30 => which.clone().prop_map(Event::Step),
        2 => which.clone().prop_map(Event::LoseAnswer),
        2 => which.clone().prop_map(Event::ArriveLate),
        4 => which.clone().prop_map(Event::Leave),
        2 => which.clone().prop_map(Event::Renew),
        1 => which.clone().prop_map(Event::Downgrade),
        1 => which.prop_map(Event::Crash),
        1 => (1u32..5).prop_map(Event::Resize),
        4 => (0u64..700).prop_map(|ms| Event::Pass { ms }),
    ]
}

/// Events that a store which forgets or starts again has, too.
fn disaster() -> impl Strategy<Value = Event> {
    prop_oneof![40 => event(), 1 => Just(Event::LoseRecord), 1 => Just(Event::Reboot)]
}

fn capacity() -> impl Strategy<Value = Capacity> {
    prop_oneof![
        (1u32..5).prop_map(Capacity::Permits),
        Just(Capacity::ReadWrite)
    ]
}

/// Returns what an arriving client wants: of a semaphore this many permits, or to write if the number is one.
fn need(capacity: Capacity, amount: u32) -> Need {
    match (capacity, amount) {
        (Capacity::Permits(_), _) => Need::Permits(amount),
        (Capacity::ReadWrite, 1) => Need::Write,
        (Capacity::ReadWrite, _) => Need::Read,
    }
}

fn run(capacity: Capacity, events: &[Event]) {
    let mut world = World::new(capacity);
    for event in events {
        match *event {
            Event::Arrive { amount, waits } => world.arrive(need(capacity, amount), waits),
            Event::Step(which) => world.step(which),
            Event::LoseAnswer(which) => world.lose_answer(which),
            Event::ArriveLate(which) => world.arrive_late(which),
            Event::Leave(which) => world.leave(which),
            Event::Renew(which) => world.renew(which),
            Event::Downgrade(which) => world.downgrade(which),
            Event::Crash(which) => world.crash(which),
            Event::Resize(permits) => world.resize(permits),
            Event::LoseRecord => world.lose_record(),
            Event::Reboot => world.reboot(),
            Event::Pass { ms } => world.pass(Duration::from_millis(ms)),
        }
        world.check();
    }
    world.let_everybody_finish();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 400 } else { 4_000 }))]

    #[test]
    fn the_rules_hold_in_every_order_of_events(
        capacity in capacity(),
        events in prop::collection::vec(event(), 0..150),
    ) {
        run(capacity, &events);
    }

    #[test]
    fn epochs_grow_and_everybody_gets_through_whatever_the_store_forgets(
        capacity in capacity(),
        events in prop::collection::vec(disaster(), 0..150),
    ) {
        run(capacity, &events);
    }

    /// All clients that read the same record at the same time see the same line, whoever looked before.
    #[test]
    fn it_makes_no_difference_who_looks_when(
        capacity in capacity(),
        events in prop::collection::vec(event(), 0..60),
        looks in prop::collection::vec(0u64..3_000, 1..6),
    ) {
        let mut world = World::new(capacity);
        for event in &events {
            match *event {
                Event::Arrive { amount, waits } => world.arrive(need(capacity, amount), waits),
                Event::Step(which) => world.step(which),
                Event::Leave(which) => world.leave(which),
                Event::Pass { ms } => world.pass(Duration::from_millis(ms)),
                _ => {}
            }
        }
        let mut looks = looks;
        looks.sort_unstable();
        let (mut often, mut once) = (world.record(), world.record());
        for ms in &looks {
            often.settle(&world.time_in(Duration::from_millis(*ms)));
        }
        once.settle(&world.time_in(Duration::from_millis(looks[looks.len() - 1])));
        prop_assert_eq!(often, once);
    }
}
