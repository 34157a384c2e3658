//! Visits every state, breadth first, so that the first conviction has the shortest story.

use std::collections::HashSet;
use std::rc::Rc;

use crate::moves::{Move, after, enabled, next_event, take_step, tick};
use crate::promises::{Broken, LEFT_BEHIND, STARVED};
use crate::setup::Setup;
use crate::world::{Aim, World};

/// In how many rounds everybody who is alive must be done. In a round, each takes its steps, and then time passes.
const ROUNDS: usize = 60;

pub(crate) struct Outcome {
    pub(crate) states: usize,
    /// The promise that is broken and the steps that led there, if there are any.
    pub(crate) story: Option<String>,
}

/// A state, and the state and the step that it was first reached by.
struct Visited {
    world: Rc<World>,
    from: Option<(usize, Move)>,
}

/// Visits every state that the setup can reach, and then lets everybody finish from each. Stops at the first broken promise.
pub(crate) fn search(setup: &Setup) -> Outcome {
    let (visited, broken) = visit(setup);
    let broken = broken.or_else(|| first_that_does_not_end(&visited, setup));
    Outcome {
        states: visited.len(),
        story: broken.map(|(at, step, broken)| story(&visited, at, step, broken)),
    }
}

/// A promise that is broken in this state, or by this step from it.
type Conviction = (usize, Option<Move>, Broken);

fn visit(setup: &Setup) -> (Vec<Visited>, Option<Conviction>) {
    let first = Rc::new(World::new(setup));
    let mut known = HashSet::from([first.clone()]);
    let mut visited = vec![Visited {
        world: first,
        from: None,
    }];
    let mut at = 0;
    while let Some(Visited { world, .. }) = visited.get(at) {
        let world = world.clone();
        for step in enabled(&world) {
            let next = match after(&world, setup, step) {
                Ok(next) => Rc::new(next),
                Err(broken) => return (visited, Some((at, Some(step), broken))),
            };
            if known.insert(next.clone()) {
                let from = Some((at, step));
                visited.push(Visited { world: next, from });
            }
        }
        at += 1;
    }
    (visited, None)
}

/// Only where nothing can go wrong any more: before that, everybody who could finish may yet be kept from it. And only where no more time
/// may pass: from every other state, finishing leads to such a state.
fn first_that_does_not_end(visited: &[Visited], setup: &Setup) -> Option<Conviction> {
    visited.iter().enumerate().find_map(|(at, one)| {
        let world = &one.world;
        let is_late = world.ticks == 0 || next_event(world).is_none();
        let is_calm = is_late && world.crashes == 0 && world.losses == 0 && world.disasters == 0;
        let broken = is_calm.then(|| let_everybody_finish(world, setup).err())??;
        Some((at, None, broken))
    })
}

/// Lets everybody who is alive take its steps in turn, and time pass, until nobody is left.
fn let_everybody_finish(world: &World, setup: &Setup) -> Result<(), Broken> {
    let mut world = world.clone();
    for _ in 0..ROUNDS {
        for at in 0..world.clients.len() {
            // Read, send, and once more for what the replacement has changed.
            for _ in 0..3 {
                match world.clients[at].aim {
                    Aim::Gone => {}
                    Aim::Hold => {
                        let sent = world.clients[at].leave();
                        world.late.extend(sent);
                    }
                    _ => take_step(&mut world, setup, at)?,
                }
            }
        }
        let is_over = world.clients.iter().all(|client| !client.is_alive());
        if is_over && next_event(&world).is_none() {
            let left = world.settled();
            let is_empty = left.shares.is_empty() && left.line.is_empty();
            return if is_empty { Ok(()) } else { Err(LEFT_BEHIND) };
        }
        tick(&mut world);
    }
    Err(STARVED)
}

fn story(visited: &[Visited], last: usize, step: Option<Move>, broken: Broken) -> String {
    let mut steps: Vec<Move> = step.into_iter().collect();
    let mut at = last;
    while let Some((before, step)) = visited[at].from {
        steps.push(step);
        at = before;
    }
    steps.reverse();
    let record = visited[last].world.record.as_ref();
    let record = record.map(|record| record.to_text()).unwrap_or_default();
    format!("{broken}\n    {steps:?}\n{record}")
}
