//! Describes a run of the quorum model in words.

use crate::moves::Move;
use crate::state::{NODES, Phase, Request, State, Vote};

/// Returns one line of a story: what happened, and its result.
pub(crate) fn line(before: &State, step: Move, after: &State) -> String {
    format!("    {}\n", what(before, step, after))
}

fn what(before: &State, step: Move, after: &State) -> String {
    match step {
        Move::Ask(client) => format!("{} asks every node for the key", who(client)),
        Move::AskAgain(client) => format!("{} asks again with the same claim", who(client)),
        Move::Serve { client, node } => {
            format!("n{node} {}", served(before, after, client, node))
        }
        Move::Propose { client, heard } => {
            let nodes: Vec<String> = (0..NODES)
                .filter(|node| heard & 1 << node != 0)
                .map(|node| format!("n{node}"))
                .collect();
            let nodes = nodes.join(" and ");
            match after.clients[client].phase {
                Phase::Agreed(epoch) => {
                    format!("{} has heard {nodes}: {epoch} is its epoch", who(client))
                }
                Phase::Accepting(epoch) => {
                    format!("{} has heard {nodes}, and proposes {epoch}", who(client))
                }
                _ => unreachable!("a proposal leads to these"),
            }
        }
        Move::Keep(client) => match after.clients[client].phase {
            Phase::Kept(epoch) => format!(
                "{} had the lock all the time: it keeps {epoch}",
                who(client)
            ),
            _ => unreachable!("what is kept leads to this"),
        },
        Move::Raise(client) => match after.clients[client].phase {
            Phase::Accepting(epoch) => format!("{} proposes {epoch} instead", who(client)),
            _ => unreachable!("a proposal leads to this"),
        },
        Move::Conclude(client) => match after.clients[client].phase {
            Phase::Holding(epoch) => format!("{} HOLDS the lock with epoch {epoch}", who(client)),
            _ => format!("{} is too late, and gives up", who(client)),
        },
        Move::GiveUp(client) => format!("{} gives up and releases", who(client)),
        Move::Done(client) => format!("{} is done and releases", who(client)),
        Move::Extend(client) => format!("{} asks for an extension", who(client)),
        Move::Extended(client) => format!("{} has its extension", who(client)),
        Move::Lose(client) => format!("{} finds its lease lost", who(client)),
        Move::OwedTaken { client, node } => {
            format!("n{node} releases what {} took in vain", who(client))
        }
        Move::Owed { client, node } => {
            format!(
                "n{node} carries out a release that {} sends anew",
                who(client)
            )
        }
        Move::Tick => "time passes".to_owned(),
        Move::Cut { client, node } => {
            format!("the connection of {} to n{node} breaks", who(client))
        }
        Move::Restart(node) => format!("n{node} restarts with its data"),
        Move::RestartEmpty(node) => format!("n{node} restarts EMPTY"),
        Move::Flushed(node) => format!("n{node} loses ALL its keys"),
        Move::KeyLost(node) => format!("n{node} loses the key before its time"),
        Move::Die(client) => format!("{} dies", who(client)),
    }
}

fn served(before: &State, after: &State, client: usize, node: usize) -> String {
    let who = who(client);
    let vote = after.clients[client].votes[node];
    let counter = after.nodes[node].counter;
    match before.wires[client][node].requests[0] {
        Some(Request::Lock { .. }) => match vote {
            Vote::No(_) => format!("refuses the key to {who}"),
            _ => format!("gives the key to {who}; its counter is {counter}"),
        },
        Some(Request::Accept { epoch, .. }) => match vote {
            Vote::No(_) => format!("refuses {epoch} of {who}; its counter is {counter}"),
            _ => format!("accepts {epoch} of {who}"),
        },
        Some(Request::Extend { .. }) => match vote {
            Vote::No(_) if is_new_key(before, after, node) => {
                format!("gives the key to {who}, which does not vote yet; its counter is {counter}")
            }
            Vote::No(_) => format!("does not extend for {who}"),
            _ => format!("extends for {who}"),
        },
        Some(Request::Release { .. }) => format!("releases the key of {who}"),
        None => unreachable!("there is something to serve"),
    }
}

fn is_new_key(before: &State, after: &State, node: usize) -> bool {
    before.nodes[node].key.is_none() && after.nodes[node].key.is_some()
}

fn who(client: usize) -> char {
    ['A', 'B', 'C'][client]
}
