//! Decides after each unanswered request whether to ask another server, to pause, or to give up.

/// What to do after a server did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    AskAnother,
    /// All servers were asked, and some wait for a leader: give them time, then ask another.
    Pause,
    GiveUp,
}

/// A series of attempts that asks the servers in turn.
pub(super) struct Rounds {
    servers: usize,
    asked: usize,
    /// How many servers in a row were gone or silent.
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

    /// Records that one more server was asked in vain: it waits for a leader, or it is gone. `is_late` means that an election would have
    /// ended by now.
    ///
    /// While any server waits for a leader, servers that are gone are no reason to give up: during an election, one usually is.
    pub(super) fn after(&mut self, waits_for_leader: bool, is_late: bool) -> Next {
        self.asked += 1;
        self.missed = if waits_for_leader { 0 } else { self.missed + 1 };
        self.is_election |= waits_for_leader;
        // One more than there are servers, because the first connection may have been an old one.
        let are_all_gone = self.missed > self.servers;
        if are_all_gone || (waits_for_leader && is_late) {
            return Next::GiveUp;
        }
        if self.is_election && self.asked.is_multiple_of(self.servers) {
            Next::Pause
        } else {
            Next::AskAnother
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
