//! The shortest conviction is the one that a search of every beginning finds.

use fencepost::random::{Random as _, SeededRandom};

use super::*;
use crate::history::Change;
use crate::holds::{Scenario, Trial};
use crate::store::TrialStore;

/// Makes histories like those of a storm, with a lock that lets in whom it likes.
struct Chance(SeededRandom);

/// A process: its name, and its hold, if it has one.
struct Process {
    name: String,
    life: u64,
    asked: Option<u64>,
    hold: Option<(u64, &'static str)>,
    holds: u64,
    is_stopped: bool,
}

impl Chance {
    fn below(&self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }

    fn history(&self, has_valid: bool) -> Vec<Event> {
        let mut processes: Vec<Process> = ["A", "B", "C"].map(Process::new).into();
        let (mut events, mut at_ns, mut down) = (Vec::new(), 0, None);
        let length = 10 + self.below(60);
        for n in 1..=length {
            at_ns += self.below(60) * 1_000_000;
            if self.below(12) == 0 {
                let (who, what) = (None, self.of_server(&mut down));
                events.push(Event {
                    n,
                    at_ns,
                    who,
                    what,
                });
                continue;
            }
            let process = &mut processes[self.below(3) as usize];
            let who = process.name.clone();
            let what = self.what(process, n, has_valid);
            if let What::Fault {
                fault: Fault::Killed,
            } = what
            {
                let (life, name) = (process.life + 1, process.name.split('.').next());
                let name = format!("{}.{life}", name.unwrap());
                *process = Process {
                    life,
                    ..Process::new(&name)
                };
            }
            events.push(Event {
                n,
                at_ns,
                who: Some(who),
                what,
            });
        }
        events
    }

    fn what(&self, process: &mut Process, n: u64, has_valid: bool) -> What {
        let key = if self.below(3) == 0 { "l" } else { "k" };
        match (self.below(12), process.hold, process.asked) {
            (0, ..) if self.below(3) == 0 => What::Fault {
                fault: Fault::Killed,
            },
            (1, ..) => {
                let was_stopped = process.is_stopped;
                process.is_stopped = !was_stopped;
                let fault = if was_stopped {
                    Fault::Continued
                } else {
                    Fault::Stopped
                };
                What::Fault { fault }
            }
            (2, Some((hold, _)), _) if self.below(2) == 0 => What::Lost { hold },
            (3 | 4, Some((hold, key)), _) => {
                process.hold = None;
                process.asked = None;
                let (op, key) = (n, key.into());
                What::Release { op, key, hold }
            }
            (_, Some((hold, _)), _) => self.operation(n, hold),
            (3, None, Some(op)) => {
                process.asked = None;
                let key = key.into();
                What::Refused { op, key }
            }
            (_, None, Some(op)) => {
                process.holds += 1;
                process.hold = Some((process.holds, key));
                let wrong = self.below(12) == 0;
                let fence = if wrong { self.below(n) } else { n };
                What::Acquired {
                    op,
                    key: key.into(),
                    hold: process.holds,
                    fence: Some(fence.to_string()),
                    valid_ms: has_valid.then_some(150.0),
                    contended: false,
                }
            }
            (4, None, None) if process.holds > 0 => What::Released {
                op: n,
                key: key.into(),
                hold: process.holds,
                outcome: if self.below(3) == 0 {
                    ReleaseResult::AlreadyLost
                } else {
                    ReleaseResult::Released
                },
            },
            (5, None, None) => What::Stalled { for_ms: 40.0 },
            _ => {
                process.asked = Some(n);
                let (op, key) = (n, key.into());
                let wait_ms = 300 * self.below(4);
                What::Acquire { op, key, wait_ms }
            }
        }
    }

    /// Stops or kills the server, or lets it go on. It seldom forgets what it had, which a storm never lets it.
    fn of_server(&self, down: &mut Option<Change>) -> What {
        let change = match down.take() {
            Some(Change::Stopped) => Change::Continued,
            Some(_) if self.below(8) == 0 => Change::RestartedEmpty,
            Some(_) => Change::Restarted,
            None if self.below(3) == 0 => Change::Stopped,
            None => Change::Killed,
        };
        *down = change.begins_outage().then_some(change);
        What::Server {
            server: "server".into(),
            change,
        }
    }

    fn operation(&self, n: u64, hold: u64) -> What {
        What::Register {
            op: n,
            hold,
            serial: n,
            action: if self.below(2) == 0 {
                Action::Read
            } else {
                Action::Write
            },
            value: self.below(n) as i64,
            fence: (self.below(9) > 0).then(|| self.below(n + 1).to_string()),
            highest: (self.below(3) == 0).then(|| self.below(n).to_string()),
            refused: self.below(4) == 0,
        }
    }
}

impl Process {
    fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            life: 1,
            asked: None,
            hold: None,
            holds: 0,
            is_stopped: false,
        }
    }
}

/// Searches every beginning.
fn slow(header: &Header, events: &[Event]) -> Option<usize> {
    let whole = Facts::of(events);
    if !verdict::judge(header, &whole).outcome.is_conviction() {
        return None;
    }
    let lasting: Vec<_> = guilty(&Checks::of(header, &whole)).collect();
    (1..=events.len()).find(|length| {
        let facts = Facts::of(&events[..*length]);
        let lasts = guilty(&Checks::of(header, &facts)).all(|pair| lasting.contains(&pair));
        lasts && verdict::judge(header, &facts).outcome.is_conviction()
    })
}

#[test]
fn the_shortest_conviction_is_that_of_a_search_of_every_beginning() {
    let chance = Chance(SeededRandom::new(7041));
    let strategy = strategy::find("safe").unwrap();
    let (mut found, mut shorter) = (0, 0);
    for case in 0..1_500 {
        let mut trial = Trial::new(Scenario::Storm, strategy, 7);
        trial.ttl_ms = 200;
        // Where a file, a connection, or silence ends a session.
        let store = ["sqlite", "postgres", "zk"][chance.below(3) as usize];
        trial.store = TrialStore::named(store).unwrap();
        let mut header = trial.header();
        let claims = Claims {
            fencing: chance.below(4) == 0,
            keep_alive: chance.below(3) == 0,
            untimed: chance.below(4) == 0,
            recovery_ms: (chance.below(2) == 0).then_some(100),
            session: chance.below(6) == 0,
            ends_with_server: chance.below(8) == 0,
            ..Claims::PLAIN
        };
        header.holds.as_mut().unwrap().claims = claims;
        let events = chance.history(chance.below(3) == 0);
        let expected = slow(&header, &events);
        let length = conviction(&header, &events).map(|(length, _)| length);
        assert_eq!(length, expected, "{case}: {claims:?} {events:#?}");
        found += usize::from(length.is_some());
        shorter += usize::from(length.is_some_and(|length| length < events.len()));
    }
    // A comparison of nothing with nothing would prove nothing.
    assert!(found > 300 && shorter > 250, "{found} {shorter}");
}
