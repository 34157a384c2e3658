//! Counts votes: whether there is a majority, and whether there can still be one. Has no clock, tasks or servers.

/// Returns how many servers are more than half.
pub(super) fn majority(servers: usize) -> usize {
    servers / 2 + 1
}

/// The state of a vote of all servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VoteState {
    Won,
    /// Too few servers are left that could still vote yes.
    Lost,
    Open,
}

/// Returns the state of a vote with this many yes votes and this many open ones.
pub(super) fn vote_state(yes: usize, open: usize, servers: usize) -> VoteState {
    let needed = majority(servers);
    match (yes >= needed, yes + open >= needed) {
        (true, _) => VoteState::Won,
        (false, true) => VoteState::Open,
        (false, false) => VoteState::Lost,
    }
}

/// Returns the epoch to propose after these counts were drawn, and whether it needs no further round. Equal counts of a majority are
/// accepted as they are, because each server gives a count to only one owner.
pub(super) fn proposal(counts: &[u64], servers: usize) -> Option<(u64, bool)> {
    let epoch = *counts.iter().max()?;
    let agreeing = counts.iter().filter(|count| **count == epoch).count();
    Some((epoch, agreeing >= majority(servers)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_is_more_than_half() {
        assert_eq!([3, 4, 5, 7].map(majority), [2, 3, 3, 4]);
        assert_eq!(vote_state(2, 1, 3), VoteState::Won);
        assert_eq!(vote_state(1, 1, 3), VoteState::Open);
        assert_eq!(vote_state(1, 0, 3), VoteState::Lost);
        assert_eq!(vote_state(2, 0, 4), VoteState::Lost);
    }

    #[test]
    fn equal_counts_of_a_majority_need_no_second_round() {
        assert_eq!(proposal(&[7, 7], 3), Some((7, true)));
        assert_eq!(proposal(&[7, 7, 3], 3), Some((7, true)));
        assert_eq!(
            proposal(&[7, 8, 7], 3),
            Some((8, false)),
            "the largest decides"
        );
        assert_eq!(proposal(&[7, 6], 3), Some((7, false)));
        assert_eq!(proposal(&[7, 7], 5), Some((7, false)));
        assert_eq!(proposal(&[], 3), None);
    }
}
