//! Searches all states of the Postgres fence model, breadth first, so that the first conviction has the shortest story.

use std::collections::{HashMap, VecDeque};

use crate::moves::{Move, World, after, enabled};
use crate::setup::Setup;

pub(crate) struct Outcome {
    pub(crate) states: usize,
    /// The steps that led to a fence that is not larger than all before, if there is one.
    pub(crate) story: Option<String>,
}

/// Visits every state that the setup can reach, or stops at the first fence that does not increase.
pub(crate) fn search(setup: &Setup) -> Outcome {
    let first = World::new(setup);
    let mut parents: HashMap<World, Option<(World, Move)>> = HashMap::from([(first, None)]);
    let mut queue = VecDeque::from([first]);
    while let Some(world) = queue.pop_front() {
        for taken in enabled(&world, setup) {
            let next = after(&world, setup, taken);
            if parents.contains_key(&next) {
                continue;
            }
            parents.insert(next, Some((world, taken)));
            if next.has_fallen {
                return Outcome {
                    states: parents.len(),
                    story: Some(tell(&parents, next)),
                };
            }
            queue.push_back(next);
        }
    }
    Outcome {
        states: parents.len(),
        story: None,
    }
}

fn tell(parents: &HashMap<World, Option<(World, Move)>>, end: World) -> String {
    let mut lines = Vec::new();
    let mut world = end;
    while let Some((before, taken)) = parents[&world] {
        let server = &world.server;
        let what = match taken {
            Move::Step(at) => format!(
                "session {at}: {:?}, then {:?}",
                before.sessions[at].phase, world.sessions[at].phase
            ),
            other => format!("{other:?}"),
        };
        lines.push(format!(
            "    {what} (clock {}, lift {}, count {}, highest told {})\n",
            world.clock, server.lift, server.count, world.highest
        ));
        world = before;
    }
    lines.reverse();
    lines.concat()
}
