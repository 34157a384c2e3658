//! The raw records that hand-made locks are made of: what `SET NX`, `PEXPIRE`, `GET` and `DEL` do.
//!
//! Each operation is one atomic step at the store. How they are put together is the affair of each lock, and where most
//! of them go wrong.

use std::time::Duration;

use crate::protocol::Failure;
use crate::store::Look;

#[cfg(feature = "postgres")]
pub mod postgres;
pub mod redis;
pub mod sqlite;

/// A connection to the records.
pub trait Latches: Send {
    /// Puts `token` under `key` if nothing is there, for `ttl` or, without one, for ever. Says whether it did.
    fn set_if_absent(
        &mut self,
        key: &str,
        token: &str,
        ttl: Option<Duration>,
    ) -> Result<bool, Failure>;

    /// Lets the key vanish after `ttl` from now, whoever's it is. Says whether it was there.
    fn expire(&mut self, key: &str, ttl: Duration) -> Result<bool, Failure>;

    /// The token under the key.
    fn get(&mut self, key: &str) -> Result<Option<String>, Failure>;

    /// Deletes the key, whoever's it is. Says whether it was there.
    fn delete(&mut self, key: &str) -> Result<bool, Failure>;

    /// Deletes the key if `token` is under it, in one step. Says whether it did.
    fn delete_if(&mut self, key: &str, token: &str) -> Result<bool, Failure>;

    /// Whether the key is there, and for how long.
    fn look(&mut self, key: &str) -> Result<Look, Failure>;
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(3_600);
    const TTL: Duration = Duration::from_millis(700);

    #[test]
    fn of_many_at_once_one_gets_it() {
        let (_keeper, grounds) = crate::store::tests::grounds();
        for ground in grounds {
            let start = std::sync::Barrier::new(8);
            let won = |name: usize| {
                let mut latches = ground.latches().unwrap();
                let mut won = 0;
                for round in 0..50 {
                    start.wait();
                    let key = format!("key {round}");
                    let token = name.to_string();
                    won += usize::from(latches.set_if_absent(&key, &token, Some(LONG)).unwrap());
                }
                won
            };
            let won = &won;
            let all: usize = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..8).map(|name| scope.spawn(move || won(name))).collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap())
                    .sum()
            });
            assert_eq!(all, 50, "{ground}");
        }
    }

    /// What every store must do alike; `ours` and `theirs` are two connections to it.
    pub(crate) fn keeps_its_promises(ours: &mut dyn Latches, theirs: &mut dyn Latches) {
        assert_eq!(ours.look("key").unwrap(), Look::FREE);
        assert!(ours.set_if_absent("key", "a", None).unwrap());
        assert!(!theirs.set_if_absent("key", "b", Some(TTL)).unwrap());
        assert!(theirs.look("key").unwrap().is_for_ever());
        assert_eq!(theirs.get("key").unwrap().as_deref(), Some("a"));
        assert!(!theirs.delete_if("key", "b").unwrap());
        assert!(ours.delete_if("key", "a").unwrap());
        assert!(!ours.delete("key").unwrap());

        assert!(theirs.set_if_absent("key", "b", None).unwrap());
        assert!(ours.delete("key").unwrap(), "without looking whose it is");
        assert_eq!(theirs.get("key").unwrap(), None);
        assert!(!ours.expire("key", TTL).unwrap(), "nothing there");
        a_ttl_is_kept_to_the_millisecond(ours, theirs);
    }

    fn a_ttl_is_kept_to_the_millisecond(ours: &mut dyn Latches, theirs: &mut dyn Latches) {
        for two_steps in [false, true] {
            let before = Instant::now();
            if two_steps {
                assert!(ours.set_if_absent("key", "a", None).unwrap());
                assert!(ours.expire("key", TTL).unwrap());
            } else {
                assert!(ours.set_if_absent("key", "a", Some(TTL)).unwrap());
            }
            let left = theirs.look("key").unwrap().ttl_left.unwrap();
            assert!(left <= TTL, "{left:?}");
            while !theirs.set_if_absent("key", "b", Some(TTL)).unwrap() {
                assert!(before.elapsed() < Duration::from_secs(30), "never free");
                std::thread::sleep(Duration::from_millis(1));
            }
            // Redis counts whole milliseconds.
            let took = before.elapsed() + Duration::from_millis(1);
            assert!(took >= TTL, "free after {took:?}");
            assert!(!ours.delete_if("key", "a").unwrap());
            assert!(theirs.delete_if("key", "b").unwrap());
        }
    }
}
