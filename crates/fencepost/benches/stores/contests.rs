//! The workloads W1 to W4, each run with all parties at one store.

use std::cell::RefCell;
use std::time::Duration;

use crate::Bench;
use crate::lock::Play;
use crate::measure::{Contender, Samples, rounds_of};
use crate::mutex::time_per_turn;
use crate::player::{Player, try_take_turns};
use crate::raw::Limit;
use crate::report::{Against, Contest, OURS, Row, Shown};

/// A participant.
pub(crate) struct Party {
    pub(crate) name: String,
    pub(crate) play: Box<dyn Play>,
    /// Starts a process of it, or `None` if it does not take part with sixteen processes.
    pub(crate) process: Option<Box<dyn Fn() -> Player>>,
}

/// All participants at one store.
pub(crate) struct Parties {
    /// The limit, or `None` if the first of the others is 1.
    pub(crate) limit: Option<Box<dyn Limit>>,
    /// The participants, ours first.
    pub(crate) list: Vec<Party>,
}

pub(crate) struct Contests<'a> {
    pub(crate) store: &'static str,
    /// What 1 stands for in W1.
    pub(crate) one_is: &'static str,
    pub(crate) bench: &'a Bench,
}

type Workload<'a> = fn(&Contests<'a>, &mut Parties) -> Vec<Row>;

const TASKS: usize = 16;
const NAMES: usize = 64;

impl<'a> Contests<'a> {
    pub(crate) fn all(&self, parties: &mut Parties, is_wanted: &dyn Fn(&str) -> bool) -> Vec<Row> {
        let workloads: [(&str, Workload<'a>); 5] = [
            ("W1", Self::alone),
            ("W2", Self::many),
            ("W3", Self::turns),
            ("W3p", Self::processes),
            ("W4", Self::queue),
        ];
        let mut rows = Vec::new();
        for (name, workload) in workloads {
            if is_wanted(name) {
                eprintln!("measuring {name} in {}", self.store);
                rows.extend(workload(self, parties));
            }
        }
        rows
    }

    fn alone(&self, parties: &mut Parties) -> Vec<Row> {
        let pairs = self.bench.effort.pick(40, 2);
        let what = "one task acquires and releases";
        let rounds = self.bench.effort.pick(21, 1);
        self.speed(
            "W1",
            what,
            self.one_is,
            parties,
            rounds,
            Shown::Time("per pair"),
            |play| play.pairs(pairs),
            |limit| limit.pairs(pairs),
        )
    }

    fn many(&self, parties: &mut Parties) -> Vec<Row> {
        let pairs = self.bench.effort.pick(4, 1);
        let what = "64 tasks, a name each";
        let rounds = self.bench.effort.pick(11, 1);
        let one_is = match parties.limit {
            Some(_) => "the same requests for all names at once",
            None => self.one_is,
        };
        self.speed(
            "W2",
            what,
            one_is,
            parties,
            rounds,
            Shown::Time("per pair"),
            |play| play.many(NAMES, pairs),
            |limit| limit.many(NAMES, pairs),
        )
    }

    fn turns(&self, parties: &mut Parties) -> Vec<Row> {
        let time = Duration::from_millis(self.bench.effort.pick(400, 120) as u64);
        let pairs = self.bench.effort.pick(40, 2);
        let what = "16 tasks of one process take turns";
        let rounds = self.bench.effort.pick(7, 1);
        let one_is = self.one_is_a_pair(parties);
        self.speed(
            "W3",
            what,
            one_is,
            parties,
            rounds,
            Shown::Rate,
            |play| play.turns(TASKS, time),
            |limit| limit.pairs(pairs),
        )
    }

    fn processes(&self, parties: &mut Parties) -> Vec<Row> {
        let count = self.bench.effort.pick(TASKS, 2);
        let time = Duration::from_millis(self.bench.effort.pick(1_000, 200) as u64);
        let pairs = self.bench.effort.pick(40, 2);
        let rounds = self.bench.effort.pick(5, 1);
        let Parties { limit, list } = parties;
        let failed: RefCell<Vec<String>> = RefCell::default();
        let mut names = Vec::new();
        let mut contenders: Vec<Contender<'_>> = Vec::new();
        let has_limit = limit.is_some();
        if let Some(limit) = limit {
            contenders.push(Box::new(move || limit.pairs(pairs)));
        }
        for party in list.iter() {
            let Some(process) = &party.process else {
                continue;
            };
            let mut players: Vec<Player> = (0..count).map(|_| process()).collect();
            let (name, failed) = (party.name.clone(), &failed);
            names.push(name.clone());
            // The first round, which does not count, makes them connect.
            contenders.push(Box::new(move || {
                if players.is_empty() {
                    return time;
                }
                let turns = try_take_turns(&mut players, 1, time);
                turns.unwrap_or_else(|error| {
                    eprintln!("W3p: {name}: {error}");
                    failed.borrow_mut().push(name.clone());
                    players.clear();
                    time
                })
            }));
        }
        let samples = rounds_of(rounds, &mut contenders);
        let one_is = match has_limit {
            true => "a pair of W1 by the bare client",
            false => self.one_is,
        };
        let against = Against::speed_of(one_is);
        let rows = self.rows(
            "W3p",
            "16 processes take turns",
            against,
            Shown::Rate,
            &names,
            has_limit,
            &samples,
        );
        drop(contenders);
        // A participant that did not finish has no figure.
        let failed = failed.into_inner();
        let is_whole = |row: &Row| !failed.contains(&row.contender);
        rows.into_iter().filter(is_whole).collect()
    }

    fn queue(&self, parties: &mut Parties) -> Vec<Row> {
        let waiters = self.bench.effort.pick(200, 10);
        let rounds = self.bench.effort.pick(5, 1);
        let names: Vec<String> = parties
            .list
            .iter()
            .map(|party| party.name.clone())
            .collect();
        let floor: Contender<'_> = Box::new(|| self.mutex(waiters));
        let turns = parties.list.iter_mut().map(|party| {
            let play = &mut party.play;
            Box::new(move || play.queue(waiters)) as Contender<'_>
        });
        let mut contenders: Vec<Contender<'_>> = std::iter::once(floor).chain(turns).collect();
        let samples = rounds_of(rounds, &mut contenders);
        let against = Against::time_of("tokio's mutex");
        let what = "200 wait, each holds for 1 ms";
        self.rows(
            "W4",
            what,
            against,
            Shown::Time("per hold"),
            &names,
            true,
            &samples,
        )
    }

    fn one_is_a_pair(&self, parties: &Parties) -> &'static str {
        match parties.limit {
            Some(_) => "a pair of W1 by the bare client",
            None => self.one_is,
        }
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "each differs from workload to workload"
    )]
    fn speed(
        &self,
        workload: &str,
        what: &str,
        one_is: &'static str,
        parties: &mut Parties,
        rounds: usize,
        shown: Shown,
        play: impl Fn(&mut dyn Play) -> Duration,
        of_limit: impl Fn(&mut dyn Limit) -> Duration,
    ) -> Vec<Row> {
        let Parties { limit, list } = parties;
        let names: Vec<String> = list.iter().map(|party| party.name.clone()).collect();
        let limit = RefCell::new(limit.as_mut());
        let has_limit = limit.borrow().is_some();
        let play = &play;
        let mut contenders: Vec<Contender<'_>> = Vec::new();
        if has_limit {
            contenders.push(Box::new(|| {
                let mut limit = limit.borrow_mut();
                of_limit(limit.as_mut().expect("there is one").as_mut())
            }));
        }
        for party in list.iter_mut() {
            contenders.push(Box::new(move || play(party.play.as_mut())));
        }
        let samples = rounds_of(rounds, &mut contenders);
        let against = Against::speed_of(one_is);
        self.rows(workload, what, against, shown, &names, has_limit, &samples)
    }

    #[allow(clippy::too_many_arguments, reason = "what a table has")]
    fn rows(
        &self,
        workload: &str,
        what: &str,
        against: Against,
        shown: Shown,
        names: &[String],
        has_limit: bool,
        samples: &[Samples],
    ) -> Vec<Row> {
        let Some((limit, others)) = samples.split_first() else {
            return Vec::new();
        };
        let (names, others) = match has_limit {
            true => (names, others),
            false => (names.get(1..).unwrap_or_default(), others),
        };
        let workload = format!("{workload} {}", self.store);
        let contest = Contest {
            workload: &workload,
            what,
            against,
            goal: None,
            shown,
        };
        let both = names.iter().zip(others);
        both.map(|(name, own)| contest.row(name, own, limit))
            .collect()
    }

    fn mutex(&self, waiters: usize) -> Duration {
        self.bench.runtime.block_on(time_per_turn(waiters))
    }
}

/// Returns the name of ours in a list.
pub(crate) fn ours() -> String {
    OURS.to_owned()
}
