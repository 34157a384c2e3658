//! A subject that answers the protocol with its own lock and may misbehave.

use std::collections::HashMap;
use std::io::{BufRead, BufWriter, Write, stdin, stdout};
use std::time::{Duration, Instant};

use fencepost_trial::protocol::{Purchase, PurchaseOutcome, ReleaseResult, Reply, Request};

use crate::flaw::Flaw;
use crate::latch::{Grant, Latch, now_ns};
use crate::loss_teller::Teller;
use crate::part::ExternalLock;
use crate::redis_latch::RedisLatch;
use crate::remote::{self, Remote};
use crate::renewal::Renewal;

/// The behaviour of a process, independent of its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manners {
    /// Correct behaviour.
    Good,
    /// The first process learns of its grant only when the lease is over, and works nevertheless.
    LateAndBlind,
    /// The same, but it checks the clock and does not work.
    LateAndAware,
    /// It reports that its lock is lost when the server has forgotten it, and writes nevertheless.
    KnowsAndWrites,
    /// The same, but the other process asks so late that it comes after that write.
    KnowsAndWritesFirst,
    /// It never looks at the clock.
    NeverStops,
    /// It dies when it is asked for a step.
    DiesAtStep,
    /// It dies while it holds the lock and has no request.
    DiesAtWork,
    /// It dies before it is ready.
    DiesAtInit,
    /// It answers a step with a line that is not a message.
    Garbage,
    /// It answers `init` with a line that is not a message.
    GarbageAtInit,
    /// It prints an extra line after each answer.
    Chatty,
    /// It never flushes its output.
    Buffered,
    /// It gives the same number to every hold.
    ReusesNumbers,
    /// It declines when its lease is over, by the clock that goes on while a machine is suspended.
    StopsItself,
    /// The same, by the clock that stands still then.
    StopsItselfBySteadyClock,
}

/// The process that misbehaves if one is enough.
const FIRST: &str = "A";
/// The pause between two tries of a waiter.
const PAUSE: Duration = Duration::from_millis(2);

struct Player {
    lock: ExternalLock,
    id: String,
    life: u64,
    ttl: Duration,
    latch: Option<Latch>,
    /// The lock, if the store is Redis.
    redis: Option<RedisLatch>,
    /// The lock, if the store is of another kind.
    remote: Option<Box<dyn Remote>>,
    holds: HashMap<u64, Grant>,
    last_hold: u64,
    renewal: Renewal,
    /// What it has released.
    released: HashMap<u64, Grant>,
    /// What it knows of its holds, if it tells their loss.
    tellers: HashMap<u64, Teller>,
}

/// Answers until it is told to stop.
pub(crate) fn play(lock: ExternalLock) {
    let mut player = Player {
        lock,
        id: String::new(),
        life: 0,
        ttl: Duration::ZERO,
        latch: None,
        redis: None,
        remote: None,
        holds: HashMap::new(),
        last_hold: 0,
        renewal: Renewal::default(),
        released: HashMap::new(),
        tellers: HashMap::new(),
    };
    let manners = lock.manners;
    let mut output = BufWriter::new(stdout());
    for line in stdin().lock().lines() {
        let request: Request = serde_json::from_str(&line.unwrap()).unwrap();
        if matches!(request, Request::Shutdown) {
            return;
        }
        player.misbehave(&request, &mut output);
        let reply = player.answer(request);
        serde_json::to_writer(&mut output, &reply).unwrap();
        writeln!(output).unwrap();
        if manners == Manners::Chatty && matches!(reply, Reply::Acquired { .. }) {
            writeln!(output, "DEBUG lock taken").unwrap();
        }
        if manners != Manners::Buffered {
            output.flush().unwrap();
        }
        if manners == Manners::DiesAtWork && matches!(reply, Reply::Stepped { .. }) {
            die();
        }
    }
}

fn die() -> ! {
    eprintln!("out of coffee");
    std::process::exit(4)
}

impl Player {
    fn misbehave(&self, request: &Request, output: &mut impl Write) {
        match (self.lock.manners, request) {
            (Manners::DiesAtInit, Request::Init { .. })
            | (Manners::DiesAtStep, Request::Step { .. }) => die(),
            (Manners::GarbageAtInit, Request::Init { .. })
            | (Manners::Garbage, Request::Step { .. }) => {
                writeln!(output, "Segmentation\u{1b}[2J fault").unwrap();
            }
            _ => {}
        }
    }

    fn answer(&mut self, request: Request) -> Reply {
        match request {
            Request::Init {
                id,
                incarnation,
                ttl_ms,
                endpoints,
                ..
            } => {
                (self.id, self.life) = (id, incarnation);
                self.ttl = Duration::from_millis(ttl_ms);
                let (lock, is_restarted) = (self.lock, incarnation > 1);
                self.redis = RedisLatch::at(&endpoints[0], lock);
                if let Some(redis) = self.redis.clone().filter(|_| lock.renews) {
                    self.renewal.start_on_redis(redis, self.ttl);
                }
                self.remote = remote::open(&endpoints, self.ttl, lock);
                if let Some(path) = endpoints[0].strip_prefix("sqlite:") {
                    self.latch = Some(Latch::open(path, self.ttl, lock, is_restarted));
                    if lock.renews {
                        let latch = Latch::open(path, self.ttl, lock, false);
                        self.renewal.start(latch, self.ttl, lock.flaw);
                    }
                }
                Reply::InitOk {
                    claims: Some(lock.claims),
                }
            }
            Request::Acquire {
                op, key, wait_ms, ..
            } => match self.take(&key, wait_ms) {
                None => Reply::Refused { op },
                Some((hold, contended)) => Reply::Acquired {
                    op,
                    hold,
                    fence: self.holds[&hold].fence.clone(),
                    valid_ms: None,
                    contended,
                },
            },
            Request::Step { op, hold, .. } => {
                let grant = &self.holds[&hold];
                if self.knows_its_end(hold, grant) {
                    return Reply::Declined { op };
                }
                let fence = grant.fence.clone();
                Reply::Stepped { op, fence }
            }
            Request::Release { op, hold, .. } => {
                let outcome = if self.give_back(hold) {
                    ReleaseResult::Released
                } else {
                    ReleaseResult::AlreadyLost
                };
                Reply::Released { op, outcome }
            }
            Request::Purchase {
                op,
                product,
                wait_ms,
                delay_us,
                ..
            } => Reply::Purchased {
                op,
                purchase: self.buy(&product, wait_ms, Duration::from_micros(delay_us)),
            },
            Request::Shutdown => unreachable!("seen before"),
        }
    }

    /// Acquires the lock. Returns the number of the hold, and whether somebody else had the lock at the first try.
    fn take(&mut self, key: &str, wait_ms: u64) -> Option<(u64, bool)> {
        if let Some(grant) = self.own(key) {
            self.last_hold += 1;
            self.holds.insert(self.last_hold, grant);
            return Some((self.last_hold, false));
        }
        let deadline = Instant::now() + Duration::from_millis(wait_ms);
        self.last_hold += 1;
        let token = format!("{} {} {}", self.id, self.life, self.last_hold);
        let (mut contended, asked_ns) = (false, now_ns());
        if self.lock.manners == Manners::KnowsAndWritesFirst && wait_ms > 0 {
            std::thread::sleep(self.ttl * 7 / 10);
        }
        let grant = loop {
            if let Some(grant) = self.try_once(key, &token, asked_ns) {
                break grant;
            }
            contended = true;
            if Instant::now() >= deadline {
                self.give_up(key, &token);
                if self.lock.flaw == Some(Flaw::TimeOutIsGrant) && wait_ms > 0 {
                    break Grant {
                        key: key.into(),
                        token,
                        fence: None,
                        until_ns: 0,
                        since: Instant::now(),
                    };
                }
                return None;
            }
            std::thread::sleep(PAUSE);
        };
        let is_late = matches!(
            self.lock.manners,
            Manners::LateAndBlind | Manners::LateAndAware
        );
        if is_late && self.id == FIRST {
            std::thread::sleep(self.ttl + self.ttl / 10);
        }
        self.renewal.add(&grant);
        if self.lock.manners == Manners::ReusesNumbers {
            self.last_hold = 1;
        }
        self.tell_of(&grant);
        self.holds.insert(self.last_hold, grant);
        if self.knows_of_losses() && self.id == FIRST {
            self.watch(key);
        }
        Some((self.last_hold, contended))
    }

    /// Returns the grant of a lock that the process has, if the lock is re-entrant.
    fn own(&self, key: &str) -> Option<Grant> {
        let is_reentrant =
            self.lock.claims.reentrant && self.lock.flaw != Some(Flaw::RefusesItsHolder);
        let mut grants = self.holds.values().filter(|_| is_reentrant);
        grants.find(|grant| grant.key == key).cloned()
    }

    /// Begins to keep a grant alive, if the lock claims to tell its loss.
    fn tell_of(&mut self, grant: &Grant) {
        let redis = self.redis.clone();
        if let Some(redis) = redis.filter(|_| self.lock.claims.tells_loss_ms.is_some()) {
            let teller = Teller::start(redis, grant, self.last_hold, self.ttl);
            self.tellers.insert(self.last_hold, teller);
        }
    }

    fn give_up(&mut self, key: &str, token: &str) {
        match (&mut self.remote, &self.latch) {
            (Some(remote), _) => remote.give_up(key, token),
            (None, Some(latch)) => latch.give_up(key, token),
            (None, None) => {}
        }
    }

    fn try_once(&mut self, key: &str, token: &str, asked_ns: i64) -> Option<Grant> {
        if let Some(latch) = &mut self.latch {
            return latch.take(key, token, asked_ns);
        }
        let asked_ns = now_ns();
        let granted = match (&mut self.remote, &self.redis) {
            (Some(remote), _) => remote.take(key, token),
            (None, redis) => redis.as_ref().unwrap().take(key, token, self.ttl),
        };
        if !granted {
            return None;
        }
        let counted_from_ns = match self.lock.flaw {
            Some(Flaw::FromReply) => now_ns(),
            _ => asked_ns,
        };
        let is_untimed = self.remote.as_ref().is_some_and(|lock| lock.is_untimed());
        let until_ns = if is_untimed {
            i64::MAX
        } else {
            counted_from_ns + i64::try_from(self.ttl.as_nanos()).unwrap()
        };
        if self.minds_the_clock() && until_ns <= now_ns() {
            match (&mut self.remote, &self.redis) {
                (Some(remote), _) => drop(remote.give_back(key, token)),
                (None, redis) => redis.as_ref().unwrap().regret(key, token),
            }
            return None;
        }
        Some(Grant {
            key: key.into(),
            token: token.into(),
            fence: self.redis.as_ref().and_then(RedisLatch::fence),
            until_ns,
            since: Instant::now(),
        })
    }

    /// Returns whether it looks at the clock before it uses its lock.
    fn minds_the_clock(&self) -> bool {
        let manners = self.lock.manners;
        matches!(manners, Manners::LateAndAware | Manners::StopsItself)
            || manners == Manners::Good && self.latch.is_none()
    }

    /// Returns whether the process knows that its lease is over.
    fn knows_its_end(&self, hold: u64, grant: &Grant) -> bool {
        if let Some(teller) = self.tellers.get(&hold) {
            return teller.is_lost();
        }
        match self.lock.manners {
            Manners::StopsItselfBySteadyClock => grant.since.elapsed() >= self.ttl,
            _ => self.minds_the_clock() && self.renewal.until_ns(grant) <= now_ns(),
        }
    }

    fn knows_of_losses(&self) -> bool {
        let manners = self.lock.manners;
        manners == Manners::KnowsAndWrites || manners == Manners::KnowsAndWritesFirst
    }

    /// Reports the loss of the last hold as soon as the server no longer knows it.
    fn watch(&self, key: &str) {
        let (redis, hold, key) = (self.redis.clone().unwrap(), self.last_hold, key.to_owned());
        std::thread::spawn(move || {
            while redis.has(&key) != Some(false) {
                std::thread::sleep(PAUSE);
            }
            let lost = serde_json::to_string(&Reply::Lost { hold }).unwrap();
            println!("{lost}");
        });
    }

    fn give_back(&mut self, hold: u64) -> bool {
        let own = self.holds.remove(&hold);
        // Whoever releases too often asks with what it had.
        let grant = own.or_else(|| self.released.get(&hold).cloned()).unwrap();
        self.released.insert(hold, grant.clone());
        let is_counted = self.lock.flaw != Some(Flaw::FreesAtFirstRelease);
        if is_counted && self.holds.values().any(|other| other.token == grant.token) {
            return true;
        }
        self.renewal.remove(&grant);
        if let Some(teller) = self.tellers.remove(&hold) {
            teller.end();
        }
        let (key, token) = (&grant.key, &grant.token);
        match (&mut self.remote, &self.redis) {
            (Some(remote), _) => remote.give_back(key, token),
            (None, Some(redis)) => redis.give_back(key, token),
            (None, None) => self.latch.as_mut().unwrap().give_back(&grant),
        }
    }

    fn buy(&mut self, product: &str, wait_ms: u64, delay: Duration) -> Purchase {
        let mut purchase = Purchase {
            outcome: PurchaseOutcome::Busy,
            before: None,
            after: None,
            contended: true,
            waited_ms: 0.0,
            fence: None,
            effort: None,
        };
        let Some((hold, contended)) = self.take(product, wait_ms) else {
            return purchase;
        };
        purchase.contended = contended;
        let latch = self.latch.as_ref().unwrap();
        let before = latch.units(product);
        purchase.before = Some(before);
        purchase.outcome = PurchaseOutcome::NoStock;
        if before > 0 {
            std::thread::sleep(delay);
            latch.set_units(product, before - 1);
            purchase.after = Some(before - 1);
            purchase.outcome = PurchaseOutcome::Sold;
        }
        self.give_back(hold);
        purchase
    }
}
