//! Processes that are killed while they hold the lock or wait first in line.

use std::time::Duration;

use crate::figures::Figures;
use crate::runs;
use crate::script::{Instruction, Role, boot_ns, ns};
use crate::stage::{Performer, Stage, wait_for};

const TTL: Duration = Duration::from_secs(2);
/// The delay that is allowed in addition to the rest of a TTL. It is generous: it bounds liveness and measures nothing.
const GRACE: Duration = Duration::from_secs(5);

/// The cost of one killed holder.
struct Cost {
    kill_to_grant_ns: u64,
    /// The rest of the lease; `None` if it was over before the test could look it up.
    rest_ns: Option<u64>,
}

pub(crate) fn a_holder() {
    let (mut waits, mut over, mut ratios) = <(Figures, Figures, Figures)>::default();
    for run in 1..=runs() {
        // At various points of a lease, renewed or not.
        let lease_used = TTL * (run as u32 / 2 % 4) / 5;
        let cost = kill_a_holder(run % 2 == 1, lease_used);
        waits.add_ns(cost.kill_to_grant_ns);
        if let Some(rest_ns) = cost.rest_ns {
            over.add_ns(cost.kill_to_grant_ns - rest_ns);
            ratios.add(cost.kill_to_grant_ns as f64 / rest_ns as f64);
        }
    }
    assert!(over.count() > 0, "no run could be measured");
    println!("kill, holder: {} runs, TTL {TTL:?}", waits.count());
    println!("  from kill to grant: {}", waits.show("ms"));
    println!(
        "  over the rest of the TTL: {} in {} runs",
        over.show("ms"),
        over.count()
    );
    println!("  as a multiple of that rest: {}", ratios.show(""));
}

fn kill_a_holder(keep_alive: bool, lease_used: Duration) -> Cost {
    let stage = Stage::new();
    let mut part = stage.part("holder", TTL);
    part.keep_alive = keep_alive;
    let mut holder = Performer::start(Role::Actor(part), &[]);
    let mut waiter = stage.actor("waiter", TTL);

    let held = holder.acquire();
    waiter.instruct(Instruction::Acquire);
    stage.wait_for_line(&["waiter"]);
    if keep_alive {
        let first_end_ns = held.granted_ns + ns(TTL);
        wait_for("a renewal", || {
            let end_ns = stage.lease_end_ns("holder").expect("a lease kept alive");
            end_ns > first_end_ns
        });
    }

    let kill_at_ns = boot_ns() + ns(lease_used);
    wait_for("some of the lease to pass", || boot_ns() >= kill_at_ns);

    let killed_ns = boot_ns();
    holder.kill();
    // The holder is dead, so this lease is not renewed any more.
    let end_ns = stage.lease_end_ns("holder");
    let next = waiter.granted(TTL + GRACE);

    assert!(
        next.fence > held.fence,
        "{} after {}",
        next.fence,
        held.fence
    );
    let kill_to_grant_ns = next.granted_ns - killed_ns;
    assert!(kill_to_grant_ns <= ns(TTL + GRACE), "{kill_to_grant_ns} ns");
    let not_before_ns = if keep_alive {
        end_ns
    } else {
        Some(held.asked_ns + ns(TTL))
    };
    if let Some(not_before_ns) = not_before_ns.max(end_ns) {
        assert!(
            next.granted_ns >= not_before_ns,
            "granted during another's lease"
        );
    }
    waiter.end();
    Cost {
        kill_to_grant_ns,
        rest_ns: end_ns.and_then(|end_ns| end_ns.checked_sub(killed_ns)),
    }
}

/// The TTL is long. The second waiter is served soon only if the line skips dead waiters.
pub(crate) fn a_waiter() {
    const LONG_TTL: Duration = Duration::from_secs(60);
    const SOON: Duration = Duration::from_secs(10);
    let mut waits = Figures::default();
    for _ in 1..=runs() {
        let stage = Stage::new();
        let actor = |label| stage.actor(label, LONG_TTL);
        let [mut holder, mut first, mut second] = ["holder", "first", "second"].map(actor);
        let held = holder.acquire();
        first.instruct(Instruction::Acquire);
        stage.wait_for_line(&["first"]);
        second.instruct(Instruction::Acquire);
        stage.wait_for_line(&["first", "second"]);

        first.kill();
        let released_ns = boot_ns();
        assert_eq!(holder.release(), "Released");
        let next = second.granted(SOON);
        assert!(next.fence > held.fence);
        waits.add_ns(next.granted_ns - released_ns);
        holder.end();
        second.end();
    }
    println!(
        "kill, first waiter: {} runs, TTL {LONG_TTL:?}",
        waits.count()
    );
    println!(
        "  from release to the grant of the second: {}",
        waits.show("ms")
    );
}
