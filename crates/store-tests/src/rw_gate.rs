//! What every gate for read-write locks must do, wherever it remembers its fences.

use fencepost::random::SeededRandom;
use fencepost::resource::Credential;
use fencepost::{Fence, OwnerId};

/// One who comes to the gate.
#[derive(Debug, Clone, Copy)]
pub struct Visit {
    /// Whether it wants to write, or only to read.
    pub writes: bool,
    /// Its fence and its owner.
    pub credential: Credential,
    /// The fence in its way, or `None` if it is admitted.
    pub refused_by: Option<Fence>,
}

/// Returns visits in their order, with what becomes of each at a gate that has seen nobody before.
pub fn visits() -> Vec<Visit> {
    const READS: bool = false;
    const WRITES: bool = true;
    let visit = |writes, owner, epoch, in_the_way: Option<u64>| Visit {
        writes,
        credential: credential(owner, epoch),
        refused_by: in_the_way.map(fence),
    };
    vec![
        visit(READS, 1, 5, None),
        // An earlier reader is right: nobody has written.
        visit(READS, 2, 3, None),
        // An earlier writer would change what the reader has read.
        visit(WRITES, 3, 4, Some(5)),
        visit(WRITES, 4, 6, None),
        visit(WRITES, 4, 6, None),
        visit(READS, 4, 6, None),
        // An earlier reader has lost its lock.
        visit(READS, 1, 5, Some(6)),
        // Only a store that lost its counter gives the same fence to two.
        visit(READS, 5, 6, Some(6)),
        visit(READS, 6, 7, None),
        visit(READS, 7, 9, None),
        visit(READS, 6, 7, None),
        visit(WRITES, 4, 6, Some(9)),
        visit(WRITES, 8, 8, Some(9)),
        visit(WRITES, 8, 9, Some(9)),
        // A reader that becomes a writer at the same fence is the holder that was seen.
        visit(WRITES, 7, 9, None),
        visit(WRITES, 9, 10, None),
        visit(READS, 7, 9, Some(10)),
    ]
}

fn fence(epoch: u64) -> Fence {
    Fence::new(epoch, 0).expect("a small epoch")
}

fn credential(owner: u64, epoch: u64) -> Credential {
    Credential::new(fence(epoch), OwnerId::random(&SeededRandom::new(owner)))
}
