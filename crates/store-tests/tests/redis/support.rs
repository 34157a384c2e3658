//! A private server, connections to it through a proxy, and eyes of our own on what it holds.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost::clock::{BootClock, Clock};
use fencepost::stores::redis::Redis;
use fencepost::{Backend, Claim, Grant, Locker, Moment, OwnerId};
use fencepost_rig::resp::{Connection, Value};
use fencepost_rig::{Fate, Proxy};

/// Whatever does not happen within this time never will.
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// Much less than the TTLs here, much more than what a busy machine needs.
pub(crate) const SOON: Duration = Duration::from_secs(10);
/// The lease of a grant that finds its waiter in line, where the TTL is longer.
pub(crate) const CLAIM_LEASE: Duration = Duration::from_millis(600);
/// Less than the life of a line that nobody keeps alive.
const CLEAN_WITHIN: Duration = Duration::from_secs(6);
/// The lock everybody here wants.
pub(crate) const NAME: &str = "stock";

pub(crate) fn is_soak() -> bool {
    std::env::var_os("FENCEPOST_SOAK").is_some_and(|value| value == "1")
}

/// How often each of the nasty tests runs.
pub(crate) fn runs() -> usize {
    if is_soak() { 20 } else { 1 }
}

/// Runs on the thread of the test, which must outlive the server it starts.
pub(crate) fn run(test: impl Future<Output = ()>) {
    run_within(2 * LONG, test);
}

pub(crate) fn run_within(longest: Duration, test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let done = tokio::time::timeout(longest, test).await;
        done.expect("a test that ends");
    });
}

/// A server of our own.
pub(crate) struct Server(pub(crate) fencepost_rig::Redis);

impl Server {
    pub(crate) fn start() -> Self {
        Self(fencepost_rig::Redis::start().unwrap())
    }

    pub(crate) fn start_with<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Self {
        let how = fencepost_rig::Redis::builder().arguments(arguments);
        Self(how.start().unwrap())
    }

    pub(crate) fn proxy(&self) -> Proxy {
        Proxy::start(self.0.address()).unwrap()
    }

    pub(crate) async fn store(&self) -> Arc<Redis> {
        open(self.0.address()).await
    }

    /// A plain client.
    pub(crate) fn plain(&self) -> Plain {
        Plain::open(self.0.address())
    }

    /// How many wait for a lock.
    pub(crate) fn in_line(&self, name: &str) -> i64 {
        self.plain()
            .number(&["ZCARD", &format!("fp:{{{name}}}:line:{name}")])
    }

    pub(crate) async fn wait_for_line(&self, name: &str, length: i64) {
        let what = format!("a line of {length}");
        eventually(&what, || self.in_line(name) == length).await;
    }

    /// Waits until so many have given a sign of life: they have heard that they stand in line.
    pub(crate) async fn wait_for_signs(&self, name: &str, count: i64) {
        let key = format!("fp:{{{name}}}:wait:{name}");
        let mut plain = self.plain();
        eventually("signs of life", || plain.number(&["HLEN", &key]) == count).await;
    }

    /// Nothing is left of any lock but fences, and those with an expiry.
    pub(crate) async fn is_clean(&self) {
        let mut plain = self.plain();
        let mut left = String::new();
        let started = Instant::now();
        while started.elapsed() < CLEAN_WITHIN {
            left = what_is_left(&mut plain);
            if left.is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("left at the server: {left}");
    }
}

fn what_is_left(plain: &mut Plain) -> String {
    let mut left = String::new();
    for key in plain.texts(&["KEYS", "*"]) {
        let life = plain.number(&["PTTL", &key]);
        // −2: gone since.
        if life != -2 && !(key.starts_with("fp:{") && key.contains("}:fence:") && life > 0) {
            left.push_str(&format!("{key} ({life} ms) "));
        }
    }
    left
}

/// A client that knows nothing of ours.
pub(crate) struct Plain(Connection);

impl Plain {
    pub(crate) fn open(address: SocketAddr) -> Self {
        Self(Connection::open(address, SOON).unwrap())
    }

    pub(crate) fn ask(&mut self, words: &[&str]) -> Value {
        self.0.ask(words).unwrap()
    }

    /// A command that must work.
    pub(crate) fn does(&mut self, words: &[&str]) {
        let answer = self.ask(words);
        assert!(!matches!(answer, Value::Error(_)), "{words:?}: {answer:?}");
    }

    pub(crate) fn number(&mut self, words: &[&str]) -> i64 {
        match self.ask(words) {
            Value::Number(number) => number,
            other => panic!("{words:?}: {other:?}"),
        }
    }

    pub(crate) fn text(&mut self, words: &[&str]) -> Option<String> {
        match self.ask(words) {
            Value::Text(text) => Some(text),
            Value::Nil => None,
            other => panic!("{words:?}: {other:?}"),
        }
    }

    pub(crate) fn texts(&mut self, words: &[&str]) -> Vec<String> {
        let Value::List(values) = self.ask(words) else {
            panic!("{words:?}: not a list")
        };
        let text = |value| match value {
            Value::Text(text) => text,
            other => panic!("{words:?}: {other:?}"),
        };
        values.into_iter().map(text).collect()
    }

    /// A field of INFO.
    pub(crate) fn info(&mut self, field: &str) -> String {
        let info = self.text(&["INFO", "all"]).unwrap();
        let mut lines = info.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(name, _)| *name == field);
        found.expect(field).1.to_owned()
    }

    /// Counts an epoch on by so much, as that many changes of hands would; what it is then.
    pub(crate) fn counts_on(&mut self, fence: &str, by: u64) -> u64 {
        let script = "if redis.call('TYPE', KEYS[1]).ok == 'zset' then \
            return tonumber(redis.call('ZINCRBY', KEYS[1], ARGV[1], '2')) end \
            return redis.call('INCRBY', KEYS[1], ARGV[1])";
        let counted = self.number(&["EVAL", script, "1", fence, &by.to_string()]);
        counted.cast_unsigned()
    }

    /// Takes a lock as plain clients do; without an expiry when `ms` is 0. Whether it was free.
    pub(crate) fn takes(&mut self, name: &str, ms: u64) -> bool {
        let ms = ms.to_string();
        let with_expiry = ["SET", name, "plain", "NX", "PX", &ms];
        let words = if ms == "0" {
            &with_expiry[..4]
        } else {
            &with_expiry[..]
        };
        self.ask(words) == Value::Word("OK".into())
    }
}

/// A connection of the store.
pub(crate) async fn open(address: SocketAddr) -> Arc<Redis> {
    Arc::new(Redis::open(&format!("redis://{address}")).await.unwrap())
}

/// A locker whose tasks each stand in the server's line.
pub(crate) fn locker(store: &Arc<Redis>, ttl: Duration) -> Locker {
    let builder = Locker::builder(store.clone()).ttl(ttl);
    builder.without_hand_over().build().unwrap()
}

/// A claim as a locker makes them.
pub(crate) fn claim(ttl: Duration) -> Claim {
    Claim::new(
        NAME.try_into().unwrap(),
        OwnerId::random(&fencepost::random::SystemRandom),
        ttl,
    )
    .with_label("test")
}

/// How much longer a holder may believe in this.
pub(crate) fn belief(grant: &Grant) -> Duration {
    (grant.asked_at + grant.lease).since(now())
}

pub(crate) fn now() -> Moment {
    BootClock.now()
}

/// How much longer the server keeps others out for this owner; zero when it does not.
pub(crate) fn kept_for(plain: &mut Plain, owner: OwnerId) -> Duration {
    let script = "local v = redis.call('GET', KEYS[1]) \
        if v and string.sub(v, 1, 32) == ARGV[1] then return redis.call('PTTL', KEYS[1]) end return 0";
    let left = plain.number(&["EVAL", script, "1", NAME, &owner.to_string()]);
    Duration::from_millis(left.max(0).cast_unsigned())
}

/// Waits until it is so.
pub(crate) async fn eventually(what: &str, is_so: impl FnMut() -> bool) {
    eventually_within(LONG, what, is_so).await;
}

pub(crate) async fn eventually_within(
    longest: Duration,
    what: &str,
    mut is_so: impl FnMut() -> bool,
) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < longest, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// What must happen soon.
pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    let done = tokio::time::timeout(SOON, future).await;
    done.unwrap_or_else(|_| panic!("not within {SOON:?}: {what}"))
}

/// A judge for grants sent to waiters, and nothing else.
pub(crate) fn grants(fate: Fate) -> impl Fn(&[u8]) -> Fate + Send + Sync + 'static {
    move |message| match is_grant(message) {
        true => fate,
        false => Fate::Pass,
    }
}

pub(crate) fn is_grant(message: &[u8]) -> bool {
    message.starts_with(b">") && contains(message, "$7\r\nmessage\r\n")
}

pub(crate) fn contains(message: &[u8], text: &str) -> bool {
    message
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

/// Locks taken and given back by raw requests, for tests that look at single answers.
pub(crate) async fn releases(store: &Redis, claim: &Claim) -> fencepost::Release {
    soon("a release", store.release(claim)).await.unwrap()
}
