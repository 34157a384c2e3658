//! Summarizes the events of the last minute: contention for each product, losses and refusals, and recent orders.
//!
//! Memory is bounded: one minute, and a maximum number of products and entries.

use std::collections::{HashMap, VecDeque};

use serde::Serialize;

use crate::events::Event;
use crate::id::Id;
use crate::order::OrderStatus;

/// How many seconds are remembered.
pub(super) const SECONDS: usize = 60;
/// The maximum number of products that are remembered.
const MAX_PRODUCTS: usize = 500;
/// The maximum number of losses and refusals.
const MAX_ENTRIES: usize = 30;
/// The maximum number of orders.
const MAX_ORDERS: usize = 8;
/// The maximum number of products that an entry names.
const MAX_NAMED: usize = 4;
/// An entry that equals one within this time increases its count instead of being added.
const SAME_MS: i64 = 10_000;

/// The counts of one second.
#[derive(Debug, Clone, Copy, Default)]
struct Second {
    asked: u32,
    contended: u32,
    refused: u32,
    waited_ms: u64,
    orders: u32,
}

/// The counts of the last minute, second by second.
#[derive(Debug, Clone)]
pub(super) struct Minute {
    seconds: [Second; SECONDS],
    /// The second of the last write, since the epoch.
    last: i64,
}

/// The totals of a minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct Sum {
    /// Orders that asked for locks and have an answer.
    pub(super) asked: u64,
    /// How many of these found a lock taken.
    pub(super) contended: u64,
    /// How many of these did not get their locks in time.
    pub(super) refused: u64,
    /// How long successful orders waited, on average.
    pub(super) mean_wait_ms: f64,
    /// Orders made.
    pub(super) orders: u64,
}

impl Minute {
    fn new(now: i64) -> Self {
        Self {
            seconds: [Second::default(); SECONDS],
            last: now,
        }
    }

    /// Forgets what is older than a minute.
    fn turn_to(&mut self, now: i64) {
        let gone = (now - self.last).clamp(0, SECONDS as i64);
        for second in now - gone + 1..=now {
            self.seconds[place(second)] = Second::default();
        }
        self.last = self.last.max(now);
    }

    fn at(&mut self, now: i64) -> &mut Second {
        self.turn_to(now);
        &mut self.seconds[place(self.last)]
    }

    /// Returns, for each second, oldest first, the percentage of orders that found a lock taken; −1 for seconds without orders.
    pub(super) fn shares(&self, now: i64) -> Vec<i32> {
        let mut minute = self.clone();
        minute.turn_to(now);
        let seconds = (1..=SECONDS as i64).map(|age| minute.seconds[place(minute.last + age)]);
        let share = |second: Second| match second.asked {
            0 => -1,
            asked => {
                i32::try_from(u64::from(second.contended) * 100 / u64::from(asked)).unwrap_or(100)
            }
        };
        seconds.map(share).collect()
    }

    pub(super) fn sum(&self, now: i64) -> Sum {
        let mut minute = self.clone();
        minute.turn_to(now);
        let all = minute.seconds.iter();
        let total = |of: fn(&Second) -> u64| all.clone().map(of).sum::<u64>();
        let (asked, refused) = (
            total(|second| second.asked.into()),
            total(|second| second.refused.into()),
        );
        let granted = asked.saturating_sub(refused);
        Sum {
            asked,
            refused,
            contended: total(|second| second.contended.into()),
            mean_wait_ms: match granted {
                0 => 0.0,
                granted => total(|second| second.waited_ms) as f64 / granted as f64,
            },
            orders: total(|second| second.orders.into()),
        }
    }
}

fn place(second: i64) -> usize {
    usize::try_from(second.rem_euclid(SECONDS as i64)).unwrap_or(0)
}

/// A loss or a refusal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Entry {
    pub(super) at_ms: i64,
    /// `refused`, `lost`, `stale` or `breaker`.
    kind: &'static str,
    /// Why, in a word.
    reason: &'static str,
    products: Vec<Id>,
    /// How many more products are not named.
    more: usize,
    /// How often the entry occurred in a row.
    times: u32,
}

/// An order that was made, or has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Made {
    pub(super) at_ms: i64,
    pub(super) order: Id,
    pub(super) status: OrderStatus,
}

#[derive(Debug)]
pub(super) struct RecentEvents {
    pub(super) products: HashMap<Id, Minute>,
    pub(super) all: Minute,
    pub(super) entries: VecDeque<Entry>,
    pub(super) orders: VecDeque<Made>,
    /// How many events were missed because they arrived too fast.
    pub(super) missed: u64,
}

impl RecentEvents {
    pub(super) fn new(now_ms: i64) -> Self {
        Self {
            products: HashMap::new(),
            all: Minute::new(now_ms / 1_000),
            entries: VecDeque::new(),
            orders: VecDeque::new(),
            missed: 0,
        }
    }

    pub(super) fn learn(&mut self, event: &Event, now_ms: i64) {
        match event {
            Event::LockGranted { locks, waited_ms } => {
                let products = locks.iter().map(|lock| (&lock.product, lock.was_contended));
                self.answered(products, Some(*waited_ms), now_ms);
            }
            Event::LockRefused { products } => {
                let products = products.iter().map(|product| (product, true));
                self.answered(products, None, now_ms);
            }
            Event::LockReleased {
                products,
                lost: true,
                ..
            } => self.note("lost", "lost", products, now_ms),
            Event::FenceRefused { product } => {
                self.note("stale", "stale", std::slice::from_ref(product), now_ms);
            }
            Event::OrderRefused { reason, products } => {
                self.note("refused", reason, products, now_ms);
            }
            Event::Breaker { state } => self.note("breaker", state.as_str(), &[], now_ms),
            Event::OrderChanged { order, status } => self.order(order, *status, now_ms),
            _ => {}
        }
    }

    /// Records an order that got all its locks or none; each product comes with whether its lock was contended.
    fn answered<'a>(
        &mut self,
        products: impl Iterator<Item = (&'a Id, bool)> + Clone,
        waited_ms: Option<u64>,
        now_ms: i64,
    ) {
        let now = now_ms / 1_000;
        let count = |second: &mut Second, was_contended: bool| {
            second.asked += 1;
            second.contended += u32::from(was_contended);
            second.refused += u32::from(waited_ms.is_none());
            second.waited_ms += waited_ms.unwrap_or(0);
        };
        count(
            self.all.at(now),
            products.clone().any(|(_, was_contended)| was_contended),
        );
        for (product, was_contended) in products {
            if !self.products.contains_key(product) && self.products.len() >= MAX_PRODUCTS {
                self.products
                    .retain(|_, minute| now - minute.last < SECONDS as i64);
            }
            if self.products.len() < MAX_PRODUCTS || self.products.contains_key(product) {
                let minute = self.products.entry(product.clone());
                count(
                    minute.or_insert_with(|| Minute::new(now)).at(now),
                    was_contended,
                );
            }
        }
    }

    fn order(&mut self, order: &Id, status: OrderStatus, at_ms: i64) {
        if status == OrderStatus::Pending {
            self.all.at(at_ms / 1_000).orders += 1;
        }
        self.orders.retain(|made| made.order != *order);
        self.orders.push_front(Made {
            at_ms,
            order: order.clone(),
            status,
        });
        self.orders.truncate(MAX_ORDERS);
    }

    fn note(&mut self, kind: &'static str, reason: &'static str, products: &[Id], at_ms: i64) {
        let entry = Entry {
            at_ms,
            kind,
            reason,
            products: products.iter().take(MAX_NAMED).cloned().collect(),
            more: products.len().saturating_sub(MAX_NAMED),
            times: 1,
        };
        let is_same = |old: &Entry| {
            at_ms - old.at_ms < SAME_MS
                && (old.kind, old.reason, &old.products)
                    == (entry.kind, entry.reason, &entry.products)
        };
        let before = self.entries.iter().position(is_same);
        let before = before.and_then(|place| self.entries.remove(place));
        let times = before.map_or(1, |before| before.times.saturating_add(1));
        self.entries.push_front(Entry { times, ..entry });
        self.entries.truncate(MAX_ENTRIES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Fenced;

    fn id(text: &str) -> Id {
        Id::new(text).unwrap()
    }

    fn granted(product: &str, waited_ms: u64) -> Event {
        granted_when(product, false, waited_ms)
    }

    fn granted_when(product: &str, was_contended: bool, waited_ms: u64) -> Event {
        Event::LockGranted {
            locks: vec![Fenced {
                product: id(product),
                fence: "1.0".into(),
                was_contended,
            }],
            waited_ms,
        }
    }

    #[test]
    fn a_slow_store_is_not_contention() {
        let mut recent = RecentEvents::new(0);
        recent.learn(&granted("a", 900), 0);
        recent.learn(&granted_when("a", true, 1), 0);
        let sum = recent.all.sum(0);
        assert_eq!((sum.asked, sum.contended), (2, 1));
    }

    #[test]
    fn a_minute_passes() {
        let mut recent = RecentEvents::new(1_000_000);
        recent.learn(&granted("a", 0), 1_000_000);
        recent.learn(&granted_when("a", true, 30), 1_000_000);
        let refused = Event::LockRefused {
            products: vec![id("a")],
        };
        recent.learn(&refused, 1_001_000);
        let shares = recent.products[&id("a")].shares(1_001);
        assert_eq!((shares.len(), &shares[57..]), (60, &[-1, 50, 100][..]));
        let sum = recent.all.sum(1_001);
        assert_eq!((sum.asked, sum.contended, sum.refused), (3, 2, 1));
        assert!((sum.mean_wait_ms - 15.0).abs() < 1e-9);
        assert_eq!(recent.all.sum(1_060).asked, 1, "one second is over");
        assert_eq!(recent.all.sum(1_061), Sum::default());
    }

    #[test]
    fn a_clock_that_goes_back_breaks_nothing() {
        let mut recent = RecentEvents::new(1_000_000);
        recent.learn(&granted("a", 0), 1_000_000);
        recent.learn(&granted("a", 0), 990_000);
        assert_eq!(recent.all.sum(1_000).asked, 2);
        assert_eq!(recent.all.sum(9_999_999).asked, 0);
    }

    #[test]
    fn nothing_grows_without_end() {
        let mut recent = RecentEvents::new(0);
        for number in 0..2_000 {
            let product = format!("p{number}");
            recent.learn(&granted(&product, 0), 0);
            let refused = Event::OrderRefused {
                reason: "contended",
                products: vec![id(&product)],
            };
            recent.learn(&refused, 0);
            let made = Event::OrderChanged {
                order: id(&product),
                status: OrderStatus::Pending,
            };
            recent.learn(&made, 0);
        }
        assert_eq!(recent.products.len(), MAX_PRODUCTS);
        assert_eq!(recent.entries.len(), MAX_ENTRIES);
        assert_eq!(recent.orders.len(), MAX_ORDERS);
        recent.learn(&granted("late", 0), 120_000);
        assert!(
            recent.products.contains_key(&id("late")),
            "the old ones made room"
        );
    }

    #[test]
    fn the_same_refusal_is_counted() {
        let mut recent = RecentEvents::new(0);
        let refused = |product| Event::OrderRefused {
            reason: "contended",
            products: vec![id(product)],
        };
        for product in ["a", "b", "a", "a"] {
            recent.learn(&refused(product), 0);
        }
        let counts: Vec<_> = recent
            .entries
            .iter()
            .map(|entry| (entry.products[0].as_str(), entry.times))
            .collect();
        assert_eq!(counts, [("a", 3), ("b", 1)]);
    }
}
