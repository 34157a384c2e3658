//! The plan of a storm: which fault is injected into which process, when, and for how long. A value, drawn from a seed, that can be run
//! again and made smaller.

use std::time::Duration;

use crate::history::{FaultKind, FaultKinds, StormSettings};
use crate::holds::run::chance::{Chance, milliseconds};
use crate::holds::storm::PROCESSES;
use crate::text::numbers::{decimal, plural};

/// The faults of a storm, and how long it lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// How long processes take locks.
    pub for_ms: u64,
    /// The faults, in the order of their times.
    pub faults: Vec<Planned>,
}

/// One fault of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// When it begins, counted from the beginning of the storm.
    pub at_ms: u64,
    /// The index of the process that it hits; `None` for a server.
    pub process: Option<usize>,
    /// What happens.
    pub fault: PlannedFault,
    /// How long it lasts.
    pub for_ms: u64,
}

/// What happens to a process or to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlannedFault {
    /// The process is killed, and started again afterwards.
    Kill,
    /// The process is stopped.
    Pause,
    /// The process is cut off from its store.
    Cut,
    /// Every message between the process and its store takes this much longer, in each direction.
    Delay {
        /// How much longer.
        each_way_ms: u64,
    },
    /// A server is stopped.
    StopServer,
    /// A server is killed, and started again with its data afterwards.
    RestartServer,
    /// The time of day of the process is an hour ahead.
    ClockAhead,
    /// The time of day of the process is an hour behind.
    ClockBehind,
}

impl Planned {
    /// Returns words such as "a pause of B at 1.2 s for 0.8 s".
    pub fn words(&self) -> String {
        let seconds = |ms: u64| decimal(ms as f64 / 1e3);
        let what = match self.fault {
            PlannedFault::StopServer => "a stop",
            PlannedFault::RestartServer => "a restart",
            PlannedFault::Kill => "a kill",
            PlannedFault::Pause => "a pause",
            PlannedFault::Cut => "a cut",
            PlannedFault::Delay { .. } => "a delay",
            PlannedFault::ClockAhead | PlannedFault::ClockBehind => "a clock jump",
        };
        let whom = match self.process.and_then(|index| PROCESSES.get(index)) {
            Some(process) => process,
            None => "a server",
        };
        let (at, lasts) = (seconds(self.at_ms), seconds(self.for_ms));
        format!("{what} of {whom} at {at} s for {lasts} s")
    }
}

impl PlannedFault {
    /// Returns the kind that it belongs to.
    pub fn kind(self) -> FaultKind {
        match self {
            Self::Kill => FaultKind::Kill,
            Self::Pause => FaultKind::Pause,
            Self::Cut => FaultKind::Cut,
            Self::Delay { .. } => FaultKind::Delay,
            Self::StopServer | Self::RestartServer => FaultKind::Server,
            Self::ClockAhead | Self::ClockBehind => FaultKind::Clock,
        }
    }

    /// Returns its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Pause => "pause",
            Self::Cut => "cut",
            Self::Delay { .. } => "delay",
            Self::StopServer => "stop_server",
            Self::RestartServer => "restart_server",
            Self::ClockAhead => "clock_ahead",
            Self::ClockBehind => "clock_behind",
        }
    }
}

/// How many TTLs lie between two outages of servers at least.
const EXCUSED_AFTER: u32 = 6;

/// What may be drawn: a fault, how often, and its shortest and longest duration in tenths of a TTL.
const DRAWN: [(PlannedFault, usize, [u32; 2]); 10] = [
    (PlannedFault::Kill, 2, [0, 10]),
    (PlannedFault::Pause, 1, [1, 5]),
    (PlannedFault::Pause, 2, [11, 20]),
    (PlannedFault::Cut, 1, [1, 5]),
    (PlannedFault::Cut, 2, [11, 20]),
    (PlannedFault::Delay { each_way_ms: 0 }, 1, [5, 20]),
    // Shorter than a lease: what a lock does in a longer outage is for `server-stall` to judge.
    (PlannedFault::StopServer, 1, [1, 5]),
    (PlannedFault::RestartServer, 1, [0, 3]),
    (PlannedFault::ClockAhead, 1, [5, 20]),
    (PlannedFault::ClockBehind, 1, [5, 20]),
];

impl Plan {
    /// Draws the plan that belongs to this seed. The first faults are one of each kind, so that a short storm lacks none.
    pub(crate) fn draw(seed: u64, settings: StormSettings, ttl: Duration) -> Self {
        let mut draw = Draw {
            chance: Chance::new(seed),
            ttl,
            busy_until: vec![Duration::ZERO; settings.processes],
            server_until: Duration::ZERO,
            last_of_server: None,
        };
        let mut faults = Vec::new();
        let mut missing: Vec<FaultKind> = settings.faults.iter().collect();
        let mut at = draw.chance.between(Duration::ZERO, ttl);
        while at < Duration::from_millis(settings.for_ms) && !settings.faults.is_empty() {
            let kinds = if missing.is_empty() {
                settings.faults
            } else {
                let place = draw.chance.below(missing.len());
                [missing[place]].into_iter().collect()
            };
            let fault = draw.fault(at, kinds);
            // If no process could be hit at this time, the kind is still missing.
            missing.retain(|&kind| fault.is_none_or(|planned| planned.fault.kind() != kind));
            faults.extend(fault);
            at += draw.chance.between(ttl / 4, ttl + ttl / 2);
        }
        Self {
            for_ms: settings.for_ms,
            faults,
        }
    }

    /// Returns the kinds of its faults.
    pub fn kinds(&self) -> FaultKinds {
        self.faults
            .iter()
            .map(|planned| planned.fault.kind())
            .collect()
    }

    /// Returns the same plan with the faults of these kinds alone.
    #[must_use]
    pub fn only(&self, kinds: FaultKinds) -> Self {
        let faults = self.faults.iter().copied();
        Self {
            faults: faults
                .filter(|planned| kinds.has(planned.fault.kind()))
                .collect(),
            ..*self
        }
    }

    /// Returns the same plan without `count` of its faults, from this one on.
    #[must_use]
    pub fn without(&self, from: usize, count: usize) -> Self {
        let faults = self.faults.iter().copied().enumerate();
        let rest = faults.filter(|(place, _)| !(from..from + count).contains(place));
        Self {
            faults: rest.map(|(_, planned)| planned).collect(),
            ..*self
        }
    }

    /// Returns the beginning of the plan up to this time.
    #[must_use]
    pub fn until(&self, for_ms: u64) -> Self {
        let for_ms = for_ms.min(self.for_ms);
        let faults = self.faults.iter().copied();
        Self {
            for_ms,
            faults: faults.filter(|planned| planned.at_ms < for_ms).collect(),
        }
    }

    /// Returns the same plan without the time after its last fault, except for so much.
    #[must_use]
    pub fn trimmed(&self, rest_ms: u64) -> Self {
        let ends = self
            .faults
            .iter()
            .map(|planned| planned.at_ms + planned.for_ms);
        match ends.max() {
            Some(end_ms) => self.until(end_ms + rest_ms),
            None => self.clone(),
        }
    }

    /// Returns words such as "4 kills, 1 pause"; "no faults" if there are none.
    pub fn words(&self) -> String {
        let kinds = self.kinds().iter();
        let words: Vec<String> = kinds
            .map(|kind| {
                let own = self
                    .faults
                    .iter()
                    .filter(|planned| planned.fault.kind() == kind);
                plural(own.count(), kind.one(), kind.plural())
            })
            .collect();
        if words.is_empty() {
            "no faults".into()
        } else {
            words.join(", ")
        }
    }
}

/// A plan while it is drawn.
struct Draw {
    chance: Chance,
    ttl: Duration,
    /// Until when each process is not well, according to the plan.
    busy_until: Vec<Duration>,
    server_until: Duration,
    /// The last fault of a server. The next one is of the other kind, so that a storm with two of them has both.
    last_of_server: Option<PlannedFault>,
}

impl Draw {
    /// Draws a fault of one of these kinds. `None` if it hits nobody: too many are not well, or a server is out of action already.
    fn fault(&mut self, at: Duration, kinds: FaultKinds) -> Option<Planned> {
        let fits = |(fault, ..): &&(PlannedFault, usize, [u32; 2])| kinds.has(fault.kind());
        let mut all = DRAWN.iter().filter(fits);
        let mut chosen = self
            .chance
            .below(all.clone().map(|(_, often, _)| often).sum());
        let mut drawn = all.find(|(_, often, _)| {
            let is_chosen = chosen < *often;
            chosen = chosen.saturating_sub(*often);
            is_chosen
        })?;
        if self.last_of_server == Some(drawn.0) {
            let is_other = |(fault, ..): &&(PlannedFault, usize, [u32; 2])| {
                fault.kind() == FaultKind::Server && *fault != drawn.0
            };
            drawn = DRAWN.iter().find(is_other)?;
        }
        let (fault, _, [least, most]) = *drawn;
        let [least, most] = [least, most].map(|tenths| self.ttl * tenths / 10);
        let lasts = self.chance.between(least, most);
        let each_way = self.chance.between(self.ttl / 20, self.ttl / 5);
        let victim = self.chance.below(self.busy_until.len());
        let process = match fault.kind() {
            FaultKind::Server if self.server_until > at => return None,
            FaultKind::Server => {
                // A process that met an outage is excused for a while. Long enough after that, a lock must be kept again.
                self.server_until = at + lasts + EXCUSED_AFTER * self.ttl;
                self.last_of_server = Some(fault);
                None
            }
            _ => Some(self.well(victim, at)?),
        };
        if let Some(process) = process {
            // A process that was killed needs time to start.
            self.busy_until[process] = at + lasts + self.ttl / 4;
        }
        Some(Planned {
            at_ms: milliseconds(at),
            process,
            fault: match fault {
                PlannedFault::Delay { .. } => PlannedFault::Delay {
                    each_way_ms: milliseconds(each_way).max(1),
                },
                fault => fault,
            },
            for_ms: milliseconds(lasts),
        })
    }

    /// Returns a process that is well, if more than half of all are.
    fn well(&self, victim: usize, at: Duration) -> Option<usize> {
        let is_well = |process: &usize| self.busy_until[*process] <= at;
        let well: Vec<usize> = (0..self.busy_until.len()).filter(is_well).collect();
        (2 * well.len() > self.busy_until.len()).then(|| well[victim % well.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::holds::storm;

    const TTL: Duration = Duration::from_millis(500);

    fn settings(kinds: &[FaultKind]) -> StormSettings {
        StormSettings {
            faults: kinds.iter().copied().collect(),
            ..storm::DEFAULT
        }
    }

    #[test]
    fn a_seed_draws_the_same_plan_and_another_seed_another_one() {
        let all = settings(&FaultKind::ALL);
        let plan = Plan::draw(7, all, TTL);
        assert_eq!(plan, Plan::draw(7, all, TTL));
        assert_ne!(plan, Plan::draw(8, all, TTL));
        assert!(plan.faults.len() > 30, "{}", plan.faults.len());
        assert!(plan.faults.is_sorted_by_key(|planned| planned.at_ms));
    }

    #[test]
    fn a_short_storm_has_a_fault_of_each_kind() {
        for seed in 0..100 {
            let short = StormSettings {
                for_ms: 6_000,
                ..settings(&FaultKind::ALL)
            };
            let plan = Plan::draw(seed, short, TTL);
            assert_eq!(plan.kinds(), short.faults, "{seed}");
        }
    }

    #[test]
    fn the_first_faults_are_one_of_each_kind_even_with_few_processes() {
        for seed in 0..100 {
            let few = StormSettings {
                processes: 3,
                ..settings(&FaultKind::ALL)
            };
            let mut plan = Plan::draw(seed, few, TTL);
            plan.faults.truncate(FaultKind::ALL.len());
            assert_eq!(plan.kinds(), few.faults, "{seed}");
        }
    }

    #[test]
    fn only_the_chosen_kinds_are_drawn() {
        let plan = Plan::draw(7, settings(&[FaultKind::Cut, FaultKind::Server]), TTL);
        assert!(plan.faults.iter().all(|planned| match planned.fault {
            PlannedFault::Cut => planned.process.is_some(),
            PlannedFault::StopServer | PlannedFault::RestartServer => planned.process.is_none(),
            _ => false,
        }));
        assert_eq!(Plan::draw(7, settings(&[]), TTL).faults, []);
    }

    #[test]
    fn stops_and_restarts_of_servers_alternate() {
        let server = settings(&[FaultKind::Server]);
        for seed in 0..100 {
            let plan = Plan::draw(seed, server, TTL);
            assert!(plan.faults.len() >= 2, "{seed}: {plan:?}");
            for pair in plan.faults.windows(2) {
                assert_ne!(pair[0].fault, pair[1].fault, "{seed}");
            }
        }
    }

    #[test]
    fn most_processes_are_well_before_each_fault() {
        for seed in 0..50 {
            let plan = Plan::draw(seed, settings(&FaultKind::ALL), TTL);
            let of_processes = plan
                .faults
                .iter()
                .filter(|planned| planned.process.is_some());
            for planned in of_processes.clone() {
                let is_on = |other: &&Planned| {
                    (other.at_ms..=other.at_ms + other.for_ms).contains(&planned.at_ms)
                };
                let on: Vec<_> = of_processes.clone().filter(is_on).collect();
                assert!(on.len() <= 3, "{seed}: {on:?}");
                let own = on.iter().filter(|other| other.process == planned.process);
                assert_eq!(own.count(), 1, "{seed}: {on:?}");
            }
        }
    }

    #[test]
    fn a_fault_is_told_in_words() {
        let pause = Planned {
            at_ms: 1_250,
            process: Some(1),
            fault: PlannedFault::Pause,
            for_ms: 800,
        };
        assert_eq!(pause.words(), "a pause of B at 1.3 s for 0.8 s");
        let stop = Planned {
            process: None,
            fault: PlannedFault::StopServer,
            ..pause
        };
        assert_eq!(stop.words(), "a stop of a server at 1.3 s for 0.8 s");
    }

    #[test]
    fn a_plan_can_be_made_smaller() {
        let plan = Plan::draw(7, settings(&FaultKind::ALL), TTL);
        let kills: FaultKinds = [FaultKind::Kill].into_iter().collect();
        let alone = plan.only(kills);
        assert_eq!(alone.kinds(), kills);
        assert_eq!(alone.words(), format!("{} kills", alone.faults.len()));
        assert_eq!(plan.only(FaultKinds::default()).words(), "no faults");
        let rest = plan.without(1, 2);
        assert_eq!(rest.faults.len(), plan.faults.len() - 2);
        assert_eq!(
            (rest.faults[0], rest.faults[1]),
            (plan.faults[0], plan.faults[3])
        );
        let beginning = plan.until(3_000);
        assert!(beginning.faults.len() < plan.faults.len());
        assert!(beginning.faults.iter().all(|planned| planned.at_ms < 3_000));
        let last = beginning
            .faults
            .iter()
            .map(|planned| planned.at_ms + planned.for_ms);
        let end_ms = last.max().unwrap();
        assert_eq!(plan.until(3_000).trimmed(0).for_ms, end_ms.min(3_000));
        assert_eq!(plan.until(99_000_000), plan);
    }
}
