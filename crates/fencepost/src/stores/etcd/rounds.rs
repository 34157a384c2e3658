//! Which servers were asked the same in vain, and whether it is worth going on.

/// What to do after a server had no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    AskAnother,
    /// All were asked, and some wait for a leader: give them time, then ask another.
    Pause,
    GiveUp,
}

/// The servers are asked in turn.
pub(super) struct Rounds {
    servers: usize,
    asked: usize,
    /// How many in a row were gone or silent.
    missed: usize,
    is_election: bool,
}

impl Rounds {
    pub(super) fn among(servers: usize) -> Self {
        Self {
            servers,
            asked: 0,
            missed: 0,
            is_election: false,
        }
    }

    /// One more was asked, in vain. It said that it waits for a leader, or is gone. `is_late`: an election would have ended by now.
    ///
    /// While any of them waits for a leader, those that are gone are no reason to give up: in an election, one usually is.
    pub(super) fn after(&mut self, waits_for_leader: bool, is_late: bool) -> Next {
        self.asked += 1;
        self.missed = if waits_for_leader { 0 } else { self.missed + 1 };
        self.is_election |= waits_for_leader;
        // Once more than there are servers: the first connection may just have been an old one.
        let are_all_gone = self.missed > self.servers;
        if are_all_gone || (waits_for_leader && is_late) {
            return Next::GiveUp;
        }
        match self.is_election && self.asked.is_multiple_of(self.servers) {
            true => Next::Pause,
            false => Next::AskAnother,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GONE: bool = false;
    const WAITS: bool = true;

    fn told(servers: usize, answers: &[bool]) -> Vec<Next> {
        let mut rounds = Rounds::among(servers);
        let answers = answers.iter();
        answers.map(|answer| rounds.after(*answer, false)).collect()
    }

    #[test]
    fn one_that_is_gone_ends_no_election() {
        let round = [GONE, WAITS, WAITS];
        let all: Vec<bool> = round.into_iter().cycle().take(30).collect();
        let next = told(3, &all);
        assert!(!next.contains(&Next::GiveUp), "{next:?}");
        let pauses = next.iter().filter(|next| **next == Next::Pause);
        assert_eq!(pauses.count(), 10, "one in each round: {next:?}");
    }

    #[test]
    fn an_election_has_its_time() {
        let mut rounds = Rounds::among(3);
        assert_eq!(rounds.after(WAITS, false), Next::AskAnother);
        // A host that is cut off takes as long as an election to be found gone: the others may have a leader by then.
        assert_eq!(rounds.after(GONE, true), Next::AskAnother);
        assert_eq!(rounds.after(WAITS, true), Next::GiveUp);
    }

    #[test]
    fn when_all_are_gone_it_is_over() {
        use Next::{AskAnother, GiveUp};
        let next = told(3, &[GONE; 4]);
        assert_eq!(next, [AskAnother, AskAnother, AskAnother, GiveUp]);
        assert_eq!(told(1, &[GONE; 2]), [AskAnother, GiveUp]);
    }

    #[test]
    fn one_alone_is_given_time_for_its_election() {
        assert_eq!(told(1, &[WAITS; 3]), [Next::Pause; 3]);
    }
}
