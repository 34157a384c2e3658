//! Simulates the line: several processes, one store, artificial time, and every order of events that proptest finds.
//!
//! The simulated store grants in order, gives waiters a short lease, and forgets leases that ended. The world does with a line's decisions
//! what the engine does. After every event these must hold: at most one process believes that it holds the lock, and it is right; fences
//! grow; nobody is overtaken in its own process; hand-over stays within its limits; nothing is released that could be handed on; no waiter
//! is forgotten. At the end, nothing is left anywhere.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::{Done, HandOver, Joined, Line, Manner, Stage, StoreRequest, Ticket};
use crate::claim::{Claim, Grant, LockName, OwnerId};
use crate::clock::Moment;
use crate::fence::Fence;
use crate::lease::Lease;
use crate::random::SeededRandom;

mod cases;
mod store;
use store::Store;

const TTL: Duration = Duration::from_millis(300);
/// What the store grants one who waited.
const SHORT: Duration = Duration::from_millis(100);
const PROCESSES: usize = 3;

/// What happens next; numbers choose among those to whom it can happen.
#[derive(Debug, Clone, Copy)]
enum Event {
    Arrive {
        process: usize,
        manner: Manner,
    },
    /// A task gives up, wherever it is: in line, asking, or holding.
    Cancel {
        which: usize,
    },
    /// The store handles requests.
    StoreWorks,
    /// An answer of the store reaches the task that asked.
    Answer {
        which: usize,
    },
    /// A request fails.
    Fail {
        which: usize,
    },
    /// A holder is done.
    Finish {
        which: usize,
    },
    /// The lease of a holder is renewed, if it still can be.
    Renew {
        which: usize,
    },
    Pass {
        ms: u64,
    },
}

fn event() -> impl Strategy<Value = Event> {
    let which = 0usize..64;
    prop_oneof![
        6 => (0..PROCESSES, prop_oneof![4 => Just(Manner::Wait), 1 => Just(Manner::Try)])
            .prop_map(|(process, manner)| Event::Arrive { process, manner }),
        2 => which.clone().prop_map(|which| Event::Cancel { which }),
        6 => Just(Event::StoreWorks),
        6 => which.clone().prop_map(|which| Event::Answer { which }),
        1 => which.clone().prop_map(|which| Event::Fail { which }),
        6 => which.clone().prop_map(|which| Event::Finish { which }),
        1 => which.prop_map(|which| Event::Renew { which }),
        3 => (0u64..400).prop_map(|ms| Event::Pass { ms }),
    ]
}

fn limits() -> impl Strategy<Value = HandOver> {
    (0u16..5, 0u64..200, 0u8..100).prop_map(|(turns, ms, percent)| {
        let limits = HandOver::new().max_turns(turns).min_valid_percent(percent);
        limits.max_time(Duration::from_millis(ms))
    })
}

#[derive(Debug)]
enum State {
    InLine,
    /// With the number of its request: answers to earlier ones went nowhere with the futures that had asked.
    Asking(StoreRequest, u64),
    Holding(Arc<Lease>),
    Gone,
}

#[derive(Debug)]
struct Task {
    process: usize,
    manner: Manner,
    ticket: Ticket,
    state: State,
}

struct World {
    now: Moment,
    random: SeededRandom,
    limits: HandOver,
    store: Store,
    lines: Vec<Line<usize>>,
    tasks: Vec<Task>,
    last_fence: Option<Fence>,
}

impl World {
    fn new(limits: HandOver) -> Self {
        Self {
            now: Moment::ZERO + Duration::from_secs(10),
            random: SeededRandom::new(1),
            limits,
            store: Store::default(),
            lines: (0..PROCESSES).map(|_| Line::default()).collect(),
            tasks: Vec::new(),
            last_fence: None,
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive { process, manner } => self.arrive(process, manner),
            Event::Cancel { which } => {
                if let Some(task) = self.pick(which, |_| true) {
                    self.cancel(task);
                }
            }
            Event::StoreWorks => self.store.work(self.now),
            Event::Answer { which } => self.answer(which),
            Event::Fail { which } => {
                let asking = |state: &State| matches!(state, State::Asking(..));
                if let Some(task) = self.pick(which, asking) {
                    self.fail(task);
                }
            }
            Event::Finish { which } => {
                let holding = |state: &State| matches!(state, State::Holding(_));
                if let Some(task) = self.pick(which, holding) {
                    self.finish(task);
                }
            }
            Event::Renew { which } => self.renew(which),
            Event::Pass { ms } => {
                self.now = self.now + Duration::from_millis(ms);
                self.notice_losses();
            }
        }
        self.check();
    }

    /// Returns one of the tasks that are in such a state.
    fn pick(&self, which: usize, is: impl Fn(&State) -> bool) -> Option<usize> {
        let here = |task: &Task| !matches!(task.state, State::Gone) && is(&task.state);
        let tasks = self.tasks.iter().enumerate().filter(|(_, task)| here(task));
        let candidates: Vec<usize> = tasks.map(|(at, _)| at).collect();
        (!candidates.is_empty()).then(|| candidates[which % candidates.len()])
    }

    fn arrive(&mut self, process: usize, manner: Manner) {
        let ticket = self.tasks.len() as Ticket;
        let random = &self.random;
        let number = self.tasks.len();
        let joined = self.lines[process].join(manner, ticket, || new_claim(random), || number);
        let state = match joined {
            Joined::Ask(_) | Joined::Queued => State::InLine,
            Joined::Busy => State::Gone,
        };
        self.tasks.push(Task {
            process,
            manner,
            ticket,
            state,
        });
        if let Joined::Ask(request) = joined {
            self.ask(number, request);
        }
    }

    fn ask(&mut self, task: usize, request: StoreRequest) {
        let number = self.store.ask(request.claim.owner, self.tasks[task].manner);
        self.tasks[task].state = State::Asking(request, number);
    }

    fn let_ask(&mut self, next: Option<(usize, StoreRequest)>) {
        if let Some((task, request)) = next {
            self.ask(task, request);
        }
    }

    fn answer(&mut self, which: usize) {
        if self.store.answers.is_empty() {
            return;
        }
        let at = which % self.store.answers.len();
        let (request, grant) = self.store.answers.remove(at);
        let asks = |task: &Task| matches!(task.state, State::Asking(_, number) if number == request.number);
        let Some(task) = self.tasks.iter().position(asks) else {
            return;
        };
        match grant {
            Some(grant) => self.granted(task, grant),
            None => {
                let process = self.tasks[task].process;
                self.tasks[task].state = State::Gone;
                let after = self.lines[process].busy(request.owner);
                after
                    .refused
                    .into_iter()
                    .for_each(|refused| self.refuse(refused));
                self.let_ask(after.next);
            }
        }
    }

    fn granted(&mut self, task: usize, grant: Grant) {
        let State::Asking(request, _) = &self.tasks[task].state else {
            unreachable!("only tasks that ask are answered")
        };
        let lease = Arc::new(Lease::new(request.claim.clone(), grant, self.now));
        if lease.left(self.now).is_zero() {
            // Came after its own end: asked again, with the same claim.
            let request = request.clone();
            return self.ask(task, request);
        }
        let line = &mut self.lines[self.tasks[task].process];
        let refused = line.granted(&lease, self.now).expect("the line still asks");
        refused.into_iter().for_each(|refused| self.refuse(refused));
        self.hold(task, lease, 0);
    }

    fn refuse(&mut self, task: usize) {
        assert_eq!(
            self.tasks[task].manner,
            Manner::Try,
            "only those who try are refused"
        );
        self.tasks[task].state = State::Gone;
    }

    fn hold(&mut self, task: usize, lease: Arc<Lease>, seq: u16) {
        let fence = Fence::new(lease.epoch, seq).expect("a small epoch");
        assert!(
            self.last_fence < Some(fence),
            "{fence} after {:?}",
            self.last_fence
        );
        self.last_fence = Some(fence);
        let me = &self.tasks[task];
        let overtaken = self.tasks.iter().find(|other| {
            let waits = matches!(other.state, State::InLine | State::Asking(..));
            waits && other.process == me.process && other.ticket < me.ticket
        });
        assert!(overtaken.is_none(), "{me:?} overtook {overtaken:?}");
        self.tasks[task].state = State::Holding(lease);
    }

    fn cancel(&mut self, task: usize) {
        let Task {
            process, ticket, ..
        } = self.tasks[task];
        match std::mem::replace(&mut self.tasks[task].state, State::Gone) {
            State::InLine => assert!(self.lines[process].leave(ticket), "it stood in line"),
            State::Asking(request, _) => {
                let owner = request.claim.owner;
                match self.lines[process].asker_left(owner) {
                    None => self.store.release(owner),
                    next => self.let_ask(next),
                }
            }
            State::Holding(lease) => {
                self.tasks[task].state = State::Holding(lease);
                self.finish(task);
            }
            State::Gone => {}
        }
    }

    fn fail(&mut self, task: usize) {
        let process = self.tasks[task].process;
        let State::Asking(request, _) = std::mem::replace(&mut self.tasks[task].state, State::Gone)
        else {
            unreachable!("only requests fail")
        };
        for waiting in self.lines[process].failed(request.claim.owner) {
            self.tasks[waiting].state = State::Gone;
        }
        self.store.release(request.claim.owner);
    }

    fn finish(&mut self, task: usize) {
        let process = self.tasks[task].process;
        let State::Holding(lease) = std::mem::replace(&mut self.tasks[task].state, State::Gone)
        else {
            unreachable!("only holders finish")
        };
        let owner = lease.claim.owner;
        let random = &self.random;
        let was_lost = lease.lost_at(self.now).is_some();
        let is_within_limits = self.is_within_limits(process, &lease);
        let done = self.lines[process].done(owner, self.now, &self.limits, || new_claim(random));
        match done {
            Done::HandOver { to, seq } => {
                assert!(!was_lost, "a lost lease is not handed over");
                assert!(seq <= self.limits.max_turns, "more turns than allowed");
                assert!(is_within_limits, "beyond the limits");
                self.hold(to, lease, seq);
            }
            Done::Release { next } => {
                assert!(
                    next.is_none() || !is_within_limits,
                    "given back though it could be handed on"
                );
                self.store.release(owner);
                self.let_ask(next);
            }
            Done::NotHeld => {
                assert!(was_lost, "a line lets go only of a lost lease");
                self.store.release(owner);
            }
        }
    }

    fn is_within_limits(&self, process: usize, lease: &Lease) -> bool {
        let Stage::Held(held) = &self.lines[process].stage else {
            return false;
        };
        let whole = if lease.is_cut_short() { SHORT } else { TTL };
        let least = whole * u32::from(self.limits.min_valid_percent) / 100;
        let left = lease.left(self.now);
        held.seq < self.limits.max_turns
            && self.now.saturating_duration_since(held.since) < self.limits.max_time
            && !left.is_zero()
            && left >= least
    }

    fn renew(&mut self, which: usize) {
        let holding = |state: &State| matches!(state, State::Holding(_));
        let Some(task) = self.pick(which, holding) else {
            return;
        };
        let State::Holding(lease) = &self.tasks[task].state else {
            return;
        };
        if let Some((owner, _, ends)) = &mut self.store.lease
            && *owner == lease.claim.owner
            && *ends > self.now
        {
            *ends = (*ends).max(self.now + TTL);
            lease.renewed(self.now, TTL, self.now);
        }
    }

    /// Does what the keeper does: the line goes on without a lease that ended.
    fn notice_losses(&mut self) {
        for process in 0..PROCESSES {
            let Some(lease) = self.lines[process].lease().cloned() else {
                continue;
            };
            if lease.lost_at(self.now).is_some() {
                let random = &self.random;
                let next = self.lines[process].lost(lease.claim.owner, || new_claim(random));
                self.let_ask(next);
            }
        }
    }

    fn check(&self) {
        let believes = |task: &&Task| matches!(&task.state, State::Holding(lease) if !lease.left(self.now).is_zero());
        let believers: Vec<&Task> = self.tasks.iter().filter(believes).collect();
        assert!(believers.len() <= 1, "two holders: {believers:?}");
        if let Some(State::Holding(lease)) = believers.first().map(|task| &task.state) {
            let (owner, _, ends) = self
                .store
                .lease
                .expect("belief without a lease at the store");
            assert_eq!(owner, lease.claim.owner, "belief in another's lease");
            assert!(ends >= lease.valid_until(), "belief outlives the lease");
        }
        for (process, line) in self.lines.iter().enumerate() {
            let of = |is: fn(&State) -> bool| {
                let here = self.tasks.iter().filter(|task| task.process == process);
                here.filter(|task| is(&task.state)).count()
            };
            let in_line = of(|state| matches!(state, State::InLine));
            let asking = of(|state| matches!(state, State::Asking(..)));
            assert_eq!(in_line, line.waiting.len(), "the line knows who waits");
            assert!(asking <= 1, "at most one request at the store");
            let served = asking == 1 || line.lease().is_some();
            assert!(in_line == 0 || served, "somebody waits for nothing");
        }
    }

    /// Checks that everybody who wants the lock gets it, when holders finish and the store answers.
    fn serve_all(&mut self) {
        for _ in 0..self.tasks.len() * 4 + 4 {
            self.happen(Event::StoreWorks);
            while !self.store.answers.is_empty() {
                self.happen(Event::Answer { which: 0 });
            }
            self.happen(Event::Finish { which: 0 });
            // Leases whose answer was lost run out.
            self.happen(Event::Pass {
                ms: TTL.as_millis() as u64 / 2,
            });
        }
        let left: Vec<&Task> = self
            .tasks
            .iter()
            .filter(|task| !matches!(task.state, State::Gone))
            .collect();
        assert!(left.is_empty(), "never served: {left:?}");
    }

    fn cancel_all(&mut self) {
        for task in 0..self.tasks.len() {
            self.cancel(task);
            self.check();
        }
    }

    fn nothing_is_left(&self) {
        assert!(self.lines.iter().all(Line::is_empty), "{:?}", self.lines);
        assert!(self.store.line.is_empty(), "{:?}", self.store);
        let lease = self.store.lease.filter(|(_, _, ends)| *ends > self.now);
        assert!(lease.is_none(), "a lease is left behind: {lease:?}");
    }
}

fn new_claim(random: &SeededRandom) -> Claim {
    Claim::new(
        LockName::new("simulated").expect("a valid name"),
        OwnerId::random(random),
        TTL,
    )
    .with_label("simulated")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 1_500 } else { 20_000 }))]

    #[test]
    fn everybody_is_served_once_and_alone(limits in limits(), events in prop::collection::vec(event(), 1..120)) {
        let mut world = World::new(limits);
        events.into_iter().for_each(|event| world.happen(event));
        world.serve_all();
        world.nothing_is_left();
    }

    #[test]
    fn nothing_is_left_after_any_cancellation(limits in limits(), events in prop::collection::vec(event(), 1..120)) {
        let mut world = World::new(limits);
        events.into_iter().for_each(|event| world.happen(event));
        world.cancel_all();
        world.nothing_is_left();
    }
}
