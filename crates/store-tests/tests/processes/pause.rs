//! A holder that is stopped for longer than its TTL, while another process takes the lock, and then continues.

use std::time::Duration;

use rusqlite::Connection;

use crate::actor::STEP_PAUSE;
use crate::figures::Figures;
use crate::runs;
use crate::script::{Granted, Instruction, Report, boot_ns, ns};
use crate::stage::{LONG, Performer, Stage, wait_for};

const TTL: Duration = Duration::from_secs(1);
const GRACE: Duration = Duration::from_secs(5);

/// The result of one pause.
struct Pause {
    lasted_ns: u64,
    waking_to_stop_ns: u64,
    steps: usize,
}

pub(crate) fn a_stopped_holder_is_shut_out() {
    let (mut lasted, mut stops, mut steps) = <(Figures, Figures, usize)>::default();
    for run in 1..=runs() {
        // A read by the new holder must be enough to shut out the old holder's writes.
        let first_use = if run % 2 == 1 {
            Instruction::Read
        } else {
            Instruction::Write(20)
        };
        let pause = pause_a_holder(first_use);
        lasted.add_ns(pause.lasted_ns);
        stops.add_ns(pause.waking_to_stop_ns);
        steps += pause.steps;
    }
    println!(
        "pause: {} runs, TTL {TTL:?}, {steps} steps while held, none after waking",
        lasted.count()
    );
    println!("  stopped for: {}", lasted.show("ms"));
    println!("  from waking to the end of the work: {}", stops.show("ms"));
}

fn pause_a_holder(first_use: Instruction) -> Pause {
    let stage = Stage::new();
    let mut old = stage.actor("old", TTL);
    let mut new = stage.actor("new", TTL);
    let held = old.acquire();
    assert_eq!(used(&mut old, Instruction::Write(10)), Ok(10));
    new.instruct(Instruction::Acquire);
    stage.wait_for_line(&["new"]);

    old.instruct(Instruction::Work);
    let (stopped_ns, steps) = stop_at_rest(&stage, &mut old);
    let taken = new.granted(TTL + GRACE);
    assert!(taken.fence > held.fence);
    let value = if let Instruction::Write(value) = first_use {
        value
    } else {
        10
    };
    assert_eq!(used(&mut new, first_use), Ok(value));

    wait_for("its TTL to be over", || boot_ns() > stopped_ns + ns(TTL));

    // The first instructions it finds when it continues.
    old.instruct(Instruction::Write(11));
    old.instruct(Instruction::Read);
    old.instruct(Instruction::Look);
    let waking_ns = boot_ns();
    old.go_on();
    let stop_ns = check_what_it_did(&mut old, stopped_ns, held, taken);

    assert_eq!(old.release(), "AlreadyLost");
    let holder = stage
        .record()
        .holder
        .expect("the new holder keeps its lease alive");
    assert_eq!(
        &*holder.label, "new",
        "the old holder's release hit the new one"
    );
    assert_eq!(
        used(&mut new, Instruction::Read),
        Ok(value),
        "the old holder reached the resource"
    );
    assert_eq!(new.release(), "Released");
    old.end();
    new.end();
    Pause {
        lasted_ns: waking_ns - stopped_ns,
        waking_to_stop_ns: stop_ns - waking_ns,
        steps,
    }
}

/// Stops a working child between two of its steps and outside of a transaction. Returns when, and how many steps it took.
///
/// A child that is stopped *within* a step completes that step when it continues, which no lock can prevent. One that is
/// stopped within a transaction locks everybody out of the file. This test is about neither, so it continues such a child and
/// tries again.
fn stop_at_rest(stage: &Stage, child: &mut Performer) -> (u64, usize) {
    let probe = Connection::open(stage.locks()).unwrap();
    probe.busy_timeout(Duration::from_millis(100)).unwrap();
    let mut steps = 0;
    // Lets some renewals happen first.
    let work_until_ns = boot_ns() + ns(TTL);
    loop {
        let Report::Step { at_ns } = child.hear(LONG) else {
            panic!("stopped working while it held the lock");
        };
        steps += 1;
        if at_ns < work_until_ns {
            continue;
        }
        child.stop();
        let stopped_ns = boot_ns();
        let rests = stopped_ns < at_ns + ns(STEP_PAUSE);
        if rests && probe.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok() {
            return (stopped_ns, steps);
        }
        child.go_on();
    }
}

/// Checks the reports after the child continues: two refusals, the loss, and a stop without a further step. Returns when it
/// stopped.
fn check_what_it_did(old: &mut Performer, stopped_ns: u64, held: Granted, taken: Granted) -> u64 {
    let (mut refusals, mut lost, mut stop_ns) = (0, false, None);
    while refusals < 2 || !lost || stop_ns.is_none() {
        match old.hear(LONG) {
            Report::Refused { offered, highest } => {
                assert_eq!((offered, highest), (held.fence, taken.fence));
                refusals += 1;
            }
            Report::Looked(looked) => {
                assert!(looked.is_lost, "it believes in a lock that is not its own");
                lost = true;
            }
            Report::Stopped { at_ns, reason } => {
                assert!(["Expired", "Gone"].contains(&&*reason), "{reason}");
                stop_ns = Some(at_ns);
            }
            Report::Step { at_ns } if at_ns < stopped_ns => {}
            other => panic!("after waking up: {other:?}"),
        }
    }
    stop_ns.unwrap()
}

/// Uses the fenced register. Returns its value, or the refusal.
fn used(actor: &mut Performer, instruction: Instruction) -> Result<i64, String> {
    actor.instruct(instruction);
    match actor.hear(LONG) {
        Report::Admitted(value) => Ok(value),
        other => Err(format!("{other:?}")),
    }
}
