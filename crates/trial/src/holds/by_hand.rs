//! A builder for handwritten histories of lock trials, used by tests of checks, verdicts and stories.

use crate::history::{
    Change, Event, Fault, FaultKind, FaultKinds, Header, HoldSettings, StormSettings, What,
};
use crate::holds::facts::Facts;
use crate::holds::{Scenario, Trial, storm, verdict};
use crate::protocol::{Action, Claims, Purchase, PurchaseOutcome, ReleaseResult};
use crate::store::{FIRST_LOCK, TrialStore};
use crate::strategy;
use crate::verdict::Verdict;

/// The lock that most histories use.
pub(crate) const KEY: &str = FIRST_LOCK;
/// The TTL of a history, unless it sets its own.
const TTL_MS: u64 = 1_000;

/// Builds a history event by event, with times in milliseconds.
#[derive(Clone)]
pub(crate) struct HistoryBuilder {
    events: Vec<Event>,
    scenario: Scenario,
    strategy: &'static str,
    claims: Claims,
    number: i64,
    serial: u64,
    ttl_ms: u64,
    /// The store, if it is not the default of the scenario.
    store: Option<String>,
    /// The kinds of faults, if it is a storm.
    faults: FaultKinds,
}

impl HistoryBuilder {
    pub(crate) fn of(scenario: Scenario) -> Self {
        Self {
            events: Vec::new(),
            scenario,
            strategy: "safe",
            claims: Claims::default(),
            number: 0,
            serial: 0,
            ttl_ms: TTL_MS,
            store: None,
            faults: storm::DEFAULT.faults,
        }
    }

    pub(crate) fn at_store(mut self, store: &str) -> Self {
        self.store = Some(store.into());
        self
    }

    /// Says that the storm has this kind of faults, too.
    pub(crate) fn faulty(mut self, kind: FaultKind) -> Self {
        self.faults = self.faults.iter().chain([kind]).collect();
        self
    }

    /// Says that the storm has this kind of faults alone.
    pub(crate) fn faulty_only(mut self, kind: FaultKind) -> Self {
        self.faults = [kind].into_iter().collect();
        self
    }

    pub(crate) fn with(mut self, strategy: &'static str) -> Self {
        self.strategy = strategy;
        self.claims = strategy::find(strategy).unwrap().claims;
        self
    }

    pub(crate) fn ttl(mut self, ttl_ms: u64) -> Self {
        self.ttl_ms = ttl_ms;
        self
    }

    pub(crate) fn promising(mut self, claims: Claims) -> Self {
        self.claims = claims;
        self
    }

    pub(crate) fn add(mut self, at_ms: f64, who: &str, what: What) -> Self {
        let who = (!who.is_empty()).then(|| who.to_owned());
        self.events.push(Event {
            n: self.events.len() as u64 + 1,
            at_ns: (at_ms * 1e6) as u64,
            who,
            what,
        });
        self
    }

    fn next_op(&self) -> u64 {
        self.events.len() as u64 + 1
    }

    /// Requests a lock at `asked` and is granted it at `at`.
    pub(crate) fn granted(self, who: &str, key: &str, asked: f64, at: f64, hold: u64) -> Self {
        let wait_ms = u64::from(at - asked > 5.0) * 10_000;
        let op = self.next_op();
        self.asks(who, key, asked, wait_ms)
            .grants(who, key, op, at, hold, None)
    }

    pub(crate) fn asks(self, who: &str, key: &str, at: f64, wait_ms: u64) -> Self {
        let (op, key) = (self.next_op(), key.to_owned());
        self.add(at, who, What::Acquire { op, key, wait_ms })
    }

    pub(crate) fn grants(
        self,
        who: &str,
        key: &str,
        op: u64,
        at: f64,
        hold: u64,
        fence: Option<&str>,
    ) -> Self {
        // A lock of ours that promises fences issues them, unless the history sets them itself.
        let granted = |event: &&Event| matches!(event.what, What::Acquired { .. });
        let next = self.events.iter().filter(granted).count() + 1;
        let own = (self.strategy == "fenced").then(|| format!("{next}.0"));
        let what = What::Acquired {
            op,
            key: key.into(),
            hold,
            fence: fence.map(Into::into).or(own),
            valid_ms: None,
            contended: false,
        };
        self.add(at, who, what)
    }

    /// Says how long the last grant is valid.
    pub(crate) fn valid_for(mut self, ms: f64) -> Self {
        let mut grants = self.events.iter_mut().rev();
        let last = grants.find_map(|event| match &mut event.what {
            What::Acquired { valid_ms, .. } => Some(valid_ms),
            _ => None,
        });
        *last.unwrap() = Some(ms);
        self
    }

    /// Requests a lock and is granted it at once, with a fence.
    pub(crate) fn fenced(self, who: &str, key: &str, at: f64, fence: &str) -> Self {
        let op = self.next_op();
        self.asks(who, key, at - 0.5, 0)
            .grants(who, key, op, at, 1, Some(fence))
    }

    pub(crate) fn refuses(self, who: &str, op: u64, at: f64) -> Self {
        let key = KEY.into();
        self.add(at, who, What::Refused { op, key })
    }

    /// Tries once and is refused.
    pub(crate) fn tries(self, who: &str, at: f64) -> Self {
        let op = self.next_op();
        self.asks(who, KEY, at - 0.5, 0).refuses(who, op, at)
    }

    /// Waits for the lock until it times out.
    pub(crate) fn waits_in_vain(self, who: &str, from: f64, until: f64) -> Self {
        let op = self.next_op();
        self.asks(who, KEY, from, 10_000).refuses(who, op, until)
    }

    pub(crate) fn reads(self, who: &str, at: f64, hold: u64) -> Self {
        let value = self.number;
        self.uses(who, at, hold, Action::Read, value, false)
    }

    pub(crate) fn writes(mut self, who: &str, at: f64, hold: u64, value: i64) -> Self {
        self.number = value;
        self.uses(who, at, hold, Action::Write, value, false)
    }

    pub(crate) fn write_refused(self, who: &str, at: f64, hold: u64, value: i64) -> Self {
        self.uses(who, at, hold, Action::Write, value, true)
    }

    /// Reads the number, showing this fence.
    pub(crate) fn reads_under(mut self, who: &str, at: f64, hold: u64, fence: &str) -> Self {
        self.serial += 1;
        let (op, serial) = (self.next_op(), self.serial);
        let what = What::Register {
            op,
            hold,
            serial,
            action: Action::Read,
            value: self.number,
            fence: Some(fence.into()),
            highest: None,
            refused: false,
        };
        self.add(at, who, what)
    }

    fn uses(
        mut self,
        who: &str,
        at: f64,
        hold: u64,
        action: Action,
        value: i64,
        refused: bool,
    ) -> Self {
        let op = self.next_op();
        self.serial += 1;
        let serial = self.serial;
        let fences = refused.then(|| ("1.0".to_owned(), "2.0".to_owned()));
        let (fence, highest) = fences.unzip();
        let what = What::Register {
            op,
            hold,
            serial,
            action,
            value,
            fence,
            highest,
            refused,
        };
        self.add(at - 0.2, who, What::Step { op, hold, action })
            .add(at, who, what)
    }

    pub(crate) fn lease_over(self, who: &str, at: f64, hold: u64) -> Self {
        let key = KEY.into();
        self.add(at, who, What::LeaseOver { key, hold })
    }

    pub(crate) fn releases(self, who: &str, at: f64, hold: u64, outcome: ReleaseResult) -> Self {
        self.releases_of(who, KEY, at, hold, outcome)
    }

    pub(crate) fn releases_of(
        self,
        who: &str,
        key: &str,
        at: f64,
        hold: u64,
        outcome: ReleaseResult,
    ) -> Self {
        let op = self.next_op();
        let (key, of) = (key.to_owned(), key.to_owned());
        let answer = What::Released {
            op,
            key: of,
            hold,
            outcome,
        };
        self.add(at, who, What::Release { op, key, hold })
            .add(at + 0.3, who, answer)
    }

    /// The process answers a request to release a hold with an error: there is nothing to release.
    pub(crate) fn refuses_to_release(self, who: &str, at: f64, hold: u64) -> Self {
        let op = self.next_op();
        let key = KEY.to_owned();
        let answer = What::Failed {
            op,
            definite: true,
            message: "there is no such hold".into(),
        };
        self.add(at, who, What::Release { op, key, hold })
            .add(at + 0.3, who, answer)
    }

    pub(crate) fn fault(self, who: &str, at: f64, fault: Fault) -> Self {
        self.add(at, who, What::Fault { fault })
    }

    pub(crate) fn looks(self, at: f64, taken: bool, ttl_left_ms: Option<f64>) -> Self {
        let what = What::StoreRead {
            key: KEY.into(),
            taken,
            ttl_left_ms,
            server: None,
        };
        self.add(at, "", what)
    }

    /// Adds that the lab inspects the lock on one of the servers.
    pub(crate) fn looks_on(self, server: &str, at: f64, taken: bool) -> Self {
        let what = What::StoreRead {
            key: KEY.into(),
            taken,
            ttl_left_ms: taken.then_some(500.0),
            server: Some(server.into()),
        };
        self.add(at, "", what)
    }

    /// Adds that the lab itself stalled from the first time to the second.
    pub(crate) fn stalls(self, from: f64, until: f64) -> Self {
        let for_ms = until - from;
        self.add(until, "", What::Stalled { for_ms })
    }

    /// Adds that the machine was suspended for this long, up to that time.
    pub(crate) fn sleeps(self, until: f64, for_ms: f64) -> Self {
        self.add(until, "", What::Slept { for_ms })
    }

    pub(crate) fn server(self, server: &str, at: f64, change: Change) -> Self {
        let server = server.into();
        self.add(at, "", What::Server { server, change })
    }

    pub(crate) fn buys(self, who: &str, from: f64, until: f64, outcome: PurchaseOutcome) -> Self {
        let op = self.next_op();
        let purchase = Purchase {
            outcome,
            before: None,
            after: None,
            contended: false,
            waited_ms: 0.0,
            fence: None,
            effort: None,
        };
        self.add(from, who, What::Purchase { op, quantity: 1 }).add(
            until,
            who,
            What::Purchased { op, purchase },
        )
    }

    /// Says how long the last buyer waited, by its own word.
    pub(crate) fn waited(mut self, ms: f64) -> Self {
        let last = self.events.last_mut().map(|event| &mut event.what);
        let Some(What::Purchased { purchase, .. }) = last else {
            panic!("the last event is no purchase")
        };
        purchase.waited_ms = ms;
        self
    }

    pub(crate) fn header(&self) -> Header {
        let strategy = strategy::find(self.strategy).unwrap();
        let mut trial = Trial::new(self.scenario, strategy, 7041);
        trial.ttl_ms = self.ttl_ms;
        if let Some(store) = &self.store {
            trial.store = TrialStore::named(store).unwrap();
        }
        Header {
            recorded: "2026-11-15T08:41:07+00:00".into(),
            holds: Some(HoldSettings {
                work_ms: 3_000,
                claims: self.claims,
                storm: trial.storm.map(|_| StormSettings {
                    faults: self.faults,
                    ..storm::DEFAULT
                }),
            }),
            ..trial.header()
        }
    }

    pub(crate) fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns the history without one of its events.
    pub(crate) fn without(&self, place: usize) -> Self {
        let mut rest = self.clone();
        rest.events.remove(place);
        rest
    }

    pub(crate) fn facts(&self) -> Facts {
        Facts::of(&self.events)
    }

    pub(crate) fn judged(&self) -> Verdict {
        verdict::judge(&self.header(), &self.facts())
    }
}

/// Returns one line per piece of evidence.
pub(crate) fn shown(verdict: &Verdict) -> Vec<String> {
    let line = |e: &crate::verdict::Evidence| format!("#{} {}", e.event, e.sentence);
    verdict.evidence.iter().map(line).collect()
}
