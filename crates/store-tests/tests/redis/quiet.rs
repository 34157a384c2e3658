//! The fast path for an uncontended lock on Redis, which uses plain commands with gaps in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fencepost::backend::Release;
use fencepost::stores::redis::Redis;
use fencepost::{Backend, Effect, ErrorKind, Fence, Locker};
use fencepost_rig::{Amount, Direction, Proxy};

use crate::support::{LONG, NAME, Plain, Server, eventually, locker, open, run, soon};

const FENCE: &str = "fp:{stock}:fence:stock";
const LINE: &str = "fp:{stock}:line:stock";
/// `SET`, `ZADD`, `EXISTS`.
const PLAIN_COMMANDS: u64 = 3;

/// Puts a claim in line that arrives now.
const ENQUEUE: &str = "local t = redis.call('TIME') \
    return redis.call('ZADD', KEYS[1], string.format('%s%06d', t[1], t[2]), ARGV[1])";

/// A locker behind a proxy that has used the lock alone for a while.
struct Quiet {
    server: Server,
    proxy: Proxy,
    store: Arc<Redis>,
    locker: Locker,
    last: Fence,
}

impl Quiet {
    async fn start() -> Self {
        let server = Server::start();
        let proxy = server.proxy();
        let store = open(proxy.address()).await;
        let locker = locker(&store, LONG);
        let last = alone(&locker).await;
        Self {
            server,
            proxy,
            store,
            locker,
            last,
        }
    }

    /// Checks that the key's value agrees with the guard, and that it is not guessed any more.
    async fn assert_settled(&self, fence: Fence) {
        let record = self.store.inspect(&NAME.try_into().unwrap()).await;
        let holder = record.unwrap().unwrap().holder.unwrap();
        assert_eq!(holder.epoch, Some(fence.epoch()));
        let value = self.server.plain().text(&["GET", NAME]).unwrap();
        assert!(!value.contains('~'), "{value}");
    }
}

/// Acquires and releases until the plain commands are used.
async fn alone(locker: &Locker) -> Fence {
    for _ in 0..3 {
        once(locker).await;
    }
    once(locker).await
}

async fn once(locker: &Locker) -> Fence {
    let guard = locker.acquire(NAME).await.unwrap();
    let fence = guard.fence();
    assert!(guard.release().await.is_released());
    fence
}

pub(crate) fn is_asked_for_plainly() {
    run(async {
        let quiet = Quiet::start().await;
        let before = quiet.store.commands_sent();
        let guard = quiet.locker.acquire(NAME).await.unwrap();
        assert_eq!(quiet.store.commands_sent() - before, PLAIN_COMMANDS);
        assert!(guard.fence() > quiet.last);
        let mut plain = quiet.server.plain();
        assert_eq!(plain.counts_on(FENCE, 0), guard.fence().epoch());
        let record = quiet.store.inspect(&NAME.try_into().unwrap()).await;
        let holder = record.unwrap().unwrap().holder.unwrap();
        assert_eq!(holder.epoch, Some(guard.fence().epoch()));
        assert!(guard.release().await.is_released());
        quiet.server.wait_until_clean().await;
    });
}

/// The release must look at the line, which was empty when the lock was acquired.
pub(crate) fn a_waiter_is_noticed() {
    run(async {
        let quiet = Quiet::start().await;
        let newcomer = locker(&quiet.server.store().await, LONG);
        assert_noticed(&quiet, newcomer.clone()).await;
        // Later requests over the same connection take a different path through the script.
        alone(&quiet.locker).await;
        assert_noticed(&quiet, newcomer).await;
    });
}

async fn assert_noticed(quiet: &Quiet, waiter: Locker) {
    let held = quiet.locker.acquire(NAME).await.unwrap();
    let waiting = tokio::spawn(async move { waiter.acquire(NAME).await.unwrap() });
    quiet.server.wait_for_line(NAME, 1).await;
    let fence = held.fence();
    assert!(held.release().await.is_released());
    // Handed over by the release itself, rather than found by a heartbeat.
    assert!(
        quiet.server.plain().text(&["GET", NAME]).is_some(),
        "it lies free"
    );
    let next = soon("the waiter", waiting).await.unwrap();
    assert!(next.fence() > fence);
    assert!(next.release().await.is_released());
    quiet.server.wait_until_clean().await;
}

pub(crate) fn nobody_in_line_is_overtaken() {
    run(async {
        let quiet = Quiet::start().await;
        let mut plain = quiet.server.plain();
        // A claim that has just arrived, when the lock had just become free. It asks for itself when its turn comes.
        let owner = "c".repeat(32);
        let member = format!("{owner} 60000 60000 60000 1 - somebody");
        assert_eq!(plain.number(&["EVAL", ENQUEUE, "1", LINE, &member]), 1);
        let asking = tokio::spawn({
            let locker = quiet.locker.clone();
            async move { locker.acquire(NAME).await.unwrap() }
        });
        let mut first = None;
        eventually("somebody has it", async || {
            // Between its plain commands, the later claim has the key, but knows that it does not own it yet.
            first = plain.text(&["GET", NAME]);
            first.as_ref().is_some_and(|value| !value.contains('~'))
        })
        .await;
        assert!(first.unwrap().starts_with(&owner), "overtaken");
        plain.does(&["DEL", NAME]);
        let guard = soon("the next", asking).await.unwrap();
        assert!(guard.release().await.is_released());
        quiet.server.wait_until_clean().await;
    });
}

/// Each of the commands may be the last that arrives.
pub(crate) fn cut_off_in_between() {
    run(async {
        let quiet = Quiet::start().await;
        let mut last = quiet.last;
        for arrive in 1..=PLAIN_COMMANDS {
            let way = Direction::ToServer;
            quiet.proxy.cut_after(way, Amount::Messages(arrive));
            let cut_off = soon("an answer", quiet.locker.acquire(NAME)).await;
            if let Err(error) = cut_off {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            }
            let guard = soon("the lock", quiet.locker.acquire(NAME)).await.unwrap();
            assert!(guard.fence() > last, "{} after {last}", guard.fence());
            quiet.assert_settled(guard.fence()).await;
            assert!(guard.release().await.is_released());
            last = alone(&quiet.locker).await;
        }
        quiet.server.wait_until_clean().await;
    });
}

/// The same owner continues over the next connection, and finds the key with its own guessed value.
pub(crate) fn a_guess_is_not_taken_for_an_epoch() {
    run(async {
        let quiet = Quiet::start().await;
        let mut plain = quiet.server.plain();
        let claim = crate::support::claim(LONG);
        // What is left if only the first plain command arrived, while others have used the epoch that it guessed.
        let guess = quiet.last.epoch() + 1;
        let value = format!("{} ~{guess} 60000 1 test", claim.owner);
        plain.does(&["SET", NAME, &value, "PX", "60000"]);
        plain.counts_on(FENCE, 1);
        let asked = quiet.store.try_acquire(&claim);
        let grant = asked.await.unwrap().expect("as good as free");
        assert!(grant.epoch > guess, "{} was had by another", grant.epoch);
        let released = quiet.store.release(&claim).await;
        assert_eq!(released.unwrap(), Release::Freed);
        quiet.server.wait_until_clean().await;
    });
}

/// Asking again does no harm to the holder, even over another connection and while another claim waits.
pub(crate) fn the_holder_asks_again() {
    run(async {
        let quiet = Quiet::start().await;
        for is_cut in [false, true] {
            let claim = crate::support::claim(LONG);
            let asked = quiet.store.try_acquire(&claim).await;
            let grant = asked.unwrap().expect("it is free");
            let value = quiet.server.plain().text(&["GET", NAME]).unwrap();
            assert!(value.contains('~'), "not by plain commands: {value}");
            let waiting = tokio::spawn({
                let locker = locker(&quiet.server.store().await, LONG);
                async move { locker.acquire(NAME).await.unwrap() }
            });
            quiet.server.wait_for_line(NAME, 1).await;
            if is_cut {
                quiet.proxy.cut();
            }
            let again = loop {
                match soon("an answer", quiet.store.try_acquire(&claim)).await {
                    Ok(again) => break again.expect("it is held"),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
                }
            };
            assert_eq!(again.epoch, grant.epoch);
            assert_eq!(quiet.store.release(&claim).await.unwrap(), Release::Freed);
            let next = soon("the waiter", waiting).await.unwrap();
            assert!(next.fence().epoch() > grant.epoch);
            assert!(next.release().await.is_released());
            alone(&quiet.locker).await;
        }
        quiet.server.wait_until_clean().await;
    });
}

/// A claim that reverts its plain commands checks who was there before it.
pub(crate) fn a_taken_back_attempt_hands_on() {
    run(async {
        let quiet = Quiet::start().await;
        let mut plain = quiet.server.plain();
        let somebody = "c".repeat(32);
        let member = format!("{somebody} 60000 60000 60000 1 - somebody");
        assert_eq!(plain.number(&["EVAL", ENQUEUE, "1", LINE, &member]), 1);
        let claim = crate::support::claim(LONG);
        let value = format!("{} ~1 60000 1 test", claim.owner);
        plain.does(&["SET", NAME, &value, "PX", "60000"]);
        assert_eq!(quiet.store.release(&claim).await.unwrap(), Release::Freed);
        let next = plain.text(&["GET", NAME]).expect("handed on");
        assert!(next.starts_with(&somebody), "{next}");
    });
}

pub(crate) fn somebody_else_had_the_epoch() {
    run(async {
        let quiet = Quiet::start().await;
        let other = alone(&locker(&quiet.server.store().await, LONG)).await;
        let guard = quiet.locker.acquire(NAME).await.unwrap();
        assert!(guard.fence() > other, "{} after {other}", guard.fence());
        quiet.assert_settled(guard.fence()).await;
        assert!(guard.release().await.is_released());
        quiet.server.wait_until_clean().await;
    });
}

pub(crate) fn the_fence_was_forgotten() {
    run(async {
        let quiet = Quiet::start().await;
        let mut plain = quiet.server.plain();
        plain.does(&["DEL", FENCE]);
        let guard = quiet.locker.acquire(NAME).await.unwrap();
        assert!(guard.fence() > quiet.last, "{} fell back", guard.fence());
        assert!(plain.number(&["PTTL", FENCE]) > 0, "a fence that stays");
        quiet.assert_settled(guard.fence()).await;
        assert!(guard.release().await.is_released());
        quiet.server.wait_until_clean().await;
    });
}

/// The claim that counted first disappears before it could raise the fence. The next one knows nothing.
pub(crate) fn the_fence_was_forgotten_and_the_first_is_gone() {
    run(async {
        let quiet = Quiet::start().await;
        let mut plain = quiet.server.plain();
        let other = locker(&quiet.server.store().await, LONG);
        once(&other).await;
        let last = alone(&quiet.locker).await;
        plain.does(&["DEL", FENCE]);
        let is_lost = Arc::new(AtomicBool::new(false));
        let loses = is_lost.clone();
        quiet
            .proxy
            .judge(Direction::ToServer, move |message| match word(message) {
                "EVALSHA" | "EVAL" => {
                    loses.store(true, Ordering::Relaxed);
                    fencepost_rig::Fate::Lose
                }
                _ => fencepost_rig::Fate::Pass,
            });
        let gone = tokio::spawn({
            let locker = quiet.locker.clone();
            async move { locker.acquire(NAME).await }
        });
        eventually("the script", async || is_lost.load(Ordering::Relaxed)).await;
        // A claim that only counts creates no counter, because nothing would give it an expiry.
        assert_eq!(plain.number(&["EXISTS", FENCE]), 0);
        plain.does(&["DEL", NAME]);
        let next = other.acquire(NAME).await.unwrap();
        assert!(next.fence() > last, "{} after {last}", next.fence());
        assert!(next.release().await.is_released());
        gone.abort();
    });
}

/// Returns the kind of command.
fn word(message: &[u8]) -> &str {
    let text = std::str::from_utf8(message).unwrap_or_default();
    text.split("\r\n").nth(2).unwrap_or_default()
}

pub(crate) fn a_refusal_is_reported() {
    run(async {
        let quiet = Quiet::start().await;
        let mut plain = quiet.server.plain();
        plain.does(&["CONFIG", "SET", "maxmemory", "1"]);
        let refused = quiet.locker.acquire(NAME).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unusable, "{refused}");
        assert!(refused.to_string().contains("memory"), "{refused}");
        plain.does(&["CONFIG", "SET", "maxmemory", "0"]);
        let guard = quiet.locker.acquire(NAME).await.unwrap();
        assert!(guard.fence() > quiet.last);
        assert!(guard.release().await.is_released());
        quiet.server.wait_until_clean().await;
    });
}

/// The mark for a waiting line is written only into our own values. A plain client compares its value byte by byte.
pub(crate) fn a_plain_value_is_left_alone() {
    run(async {
        let server = Server::start();
        let mut plain: Plain = server.plain();
        let value = format!("{} of a plain client", "a".repeat(32));
        let waiter = locker(&server.store().await, LONG);
        // The first request over a connection takes a different path through the script than later ones.
        for _ in 0..2 {
            plain.does(&["SET", NAME, &value, "PX", "60000"]);
            let waiting = tokio::spawn({
                let waiter = waiter.clone();
                async move { waiter.acquire(NAME).await.unwrap() }
            });
            server.wait_for_heartbeats(NAME, 1).await;
            assert_eq!(plain.text(&["GET", NAME]).as_ref(), Some(&value));
            plain.does(&["DEL", NAME]);
            let guard = soon("the waiter", waiting).await.unwrap();
            assert!(guard.release().await.is_released());
            server.wait_until_clean().await;
        }
    });
}

/// The plain commands have taken the key when the script that checks again is refused.
pub(crate) fn a_refused_second_look_may_have_taken_effect() {
    run(async {
        let quiet = Quiet::start().await;
        let mut plain = quiet.server.plain();
        plain.counts_on(FENCE, 1);
        let rights = |sign: &str| [format!("{sign}eval"), format!("{sign}evalsha")];
        let [eval, evalsha] = rights("-");
        plain.does(&["ACL", "SETUSER", "default", &eval, &evalsha]);
        let refused = quiet.store.try_acquire(&crate::support::claim(LONG)).await;
        let refused = refused.unwrap_err();
        assert!(plain.text(&["GET", NAME]).is_some(), "the key was set");
        assert_eq!(refused.effect(), Effect::Maybe, "{refused}");
        let [eval, evalsha] = rights("+");
        plain.does(&["ACL", "SETUSER", "default", &eval, &evalsha]);
    });
}
