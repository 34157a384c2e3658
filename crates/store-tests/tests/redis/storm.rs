//! A long random test of the Redis store: sixteen processes count under one lock while they are killed, stopped and cut off.
//!
//! It runs for ten seconds; with `FENCEPOST_SOAK=1` for ten minutes, or for as many seconds as `FENCEPOST_STORM_SECONDS` says.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fencepost::random::{Random, SeededRandom, SystemRandom};
use fencepost_rig::{Child, Feed, FeedSender, Proxy, Signal, feed};
use fencepost_store_tests::actor::{Report, Served, hear, kill};

use crate::actor::{At, Count, Part, Task};
use crate::support::{LONG, NAME, Plain, Server, is_soak, run_within};

const PROCESSES: usize = 16;
const TTL: Duration = Duration::from_secs(2);

fn length() -> Duration {
    let seconds = std::env::var("FENCEPOST_STORM_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let usual = if is_soak() { 600 } else { 10 };
    Duration::from_secs(seconds.unwrap_or(usual))
}

/// The reports of all children.
#[derive(Default)]
struct Log {
    strikes: usize,
    served: usize,
    /// Releases of a lock that was no longer theirs.
    late: usize,
    refused: usize,
    lost: usize,
    failed: BTreeMap<String, usize>,
    /// The fence of the writer, by the number that was written.
    counted: BTreeMap<u64, i64>,
}

impl Log {
    fn note(&mut self, report: Report) {
        match report {
            Report::Served(served) => self.note_served(served),
            Report::Refused => self.refused += 1,
            Report::Lost => self.lost += 1,
            Report::Failed(message) => {
                let kind = message.split('(').next().unwrap_or_default().to_owned();
                *self.failed.entry(kind).or_default() += 1;
            }
            Report::Ready | Report::Done => {}
            other => panic!("nobody asked for {other:?}"),
        }
    }

    /// A number that is counted twice is a lost update, although both held the lock and passed the gate.
    fn note_served(&mut self, served: Served) {
        self.served += 1;
        self.late += usize::from(served.outcome == "AlreadyLost");
        let Some(number) = served.counted else {
            return;
        };
        if let Some(before) = self.counted.insert(number, served.fence) {
            panic!(
                "{number} was counted under {before} and again under {}",
                served.fence
            );
        }
    }

    /// Checks that numbers increase with fences: the holder with the larger fence saw what the smaller had written.
    fn is_in_order(&self) {
        let fences: Vec<i64> = self.counted.values().copied().collect();
        assert!(
            fences.is_sorted(),
            "a smaller fence wrote after a larger one"
        );
    }
}

struct Storm {
    server: Server,
    proxies: Vec<Proxy>,
    children: Vec<Child>,
    feed: Feed,
    sender: FeedSender,
    random: SeededRandom,
    log: Log,
}

impl Storm {
    fn start(seed: u64) -> Self {
        let server = Server::start();
        let (feed, sender) = feed();
        let proxies = (0..PROCESSES).map(|_| server.proxy()).collect();
        let mut storm = Self {
            server,
            proxies,
            children: Vec::new(),
            feed,
            sender,
            random: SeededRandom::new(seed),
            log: Log::default(),
        };
        storm.children = (0..PROCESSES).map(|id| storm.child(id)).collect();
        storm
    }

    fn child(&self, id: usize) -> Child {
        let part = Part {
            store: At(format!("redis://{}", self.proxies[id].address())),
            ttl: TTL,
            task: Task::Verb(Count { tasks: 2 }),
        };
        part.start(id, &self.sender)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.next_u64() % end
    }

    /// Injects one fault into one of them.
    fn strike(&mut self) {
        self.log.strikes += 1;
        let victim = self.below(PROCESSES as u64) as usize;
        match self.below(6) {
            0 => {
                kill(&mut self.children[victim]);
                self.children[victim] = self.child(victim);
            }
            1 | 2 => self.proxies[victim].cut(),
            // Shorter and longer than a waiter lease, and sometimes longer than the TTL.
            3 | 4 => {
                let _ = self.children[victim].signal(Signal::SIGSTOP);
                let pause = Duration::from_millis(self.below(2500));
                self.listen(pause);
                let _ = self.children[victim].signal(Signal::SIGCONT);
            }
            _ => {
                let by = Duration::from_millis(self.below(300));
                self.proxies[victim].delay(fencepost_rig::Direction::ToClient, by);
                self.listen(Duration::from_millis(500));
                self.proxies[victim].heal();
            }
        }
    }

    fn listen(&mut self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            if let Some((_, Some(report))) = hear(&self.feed, left) {
                self.log.note(report);
            }
        }
    }

    /// Ends all children normally. What was interrupted is released.
    fn end(&mut self) {
        for child in &mut self.children {
            child.send(&"end").unwrap();
        }
        let mut open = self.children.len();
        while open > 0 {
            match hear(&self.feed, LONG).expect("children that end") {
                (_, Some(Report::Done)) => open -= 1,
                (_, Some(report)) => self.log.note(report),
                (_, None) => {}
            }
        }
    }
}

/// Returns the memory in bytes and the number of keys of the server.
fn size(plain: &mut Plain) -> (u64, i64) {
    let dataset = plain.info("used_memory_dataset").parse().unwrap();
    (dataset, plain.number(&["DBSIZE"]))
}

pub(crate) fn storm() {
    let seed = SystemRandom.next_u64();
    println!("storm: {:?} from seed {seed}", length());
    run_within(length() + 2 * LONG, async {
        let mut storm = Storm::start(seed);
        let mut plain = storm.server.plain();
        let started = Instant::now();
        let (mut early_bytes, mut later_bytes, mut most_keys) = (0, 0, 0);
        while started.elapsed() < length() {
            let pause = Duration::from_millis(storm.below(200));
            storm.listen(pause);
            storm.strike();
            let (bytes, keys) = size(&mut plain);
            most_keys = most_keys.max(keys);
            // The first look counts as early, however long a busy machine took until then.
            if early_bytes == 0 || started.elapsed() < length() / 4 {
                early_bytes = early_bytes.max(bytes);
            } else {
                later_bytes = later_bytes.max(bytes);
            }
        }
        storm.end();
        storm.log.is_in_order();
        let Log {
            strikes,
            served,
            late,
            refused,
            lost,
            failed,
            counted,
        } = &storm.log;
        println!(
            "  {strikes} strikes; {served} turns, {} counted; {lost} lost, {late} noticed when given back, {refused} refused",
            counted.len()
        );
        println!(
            "  bytes at the server: at most {early_bytes} early, {later_bytes} later; at most {most_keys} keys"
        );
        println!("  errors: {failed:?}");
        assert!(*served > 50, "nothing could be shown");
        // The gate prevents harm when two hold the lock at once. That must be as rare as the faults that cause it.
        let overtaken = lost + late + refused;
        assert!(overtaken <= *strikes, "{overtaken} holds ended early");
        // The lock, its line, its heartbeats and its fence; the number and its gate.
        assert!(most_keys <= 6, "{most_keys} keys");
        assert!(
            later_bytes < early_bytes * 2 + 100_000,
            "the server grows: {early_bytes}, then {later_bytes}"
        );
        plain.does(&["DEL", "count", "fp:{count}:gate:count"]);
        storm.children.clear();
        storm.server.wait_until_clean().await;
        assert_eq!(plain.number(&["EXISTS", NAME]), 0);
    });
}
