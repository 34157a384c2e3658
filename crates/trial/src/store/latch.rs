//! The raw records that handmade locks consist of, with operations like `SET NX`, `PEXPIRE`, `GET` and `DEL`.
//!
//! Each operation is one atomic step at the store. How to combine them is up to each lock, and that is where most of them fail.

use std::time::Duration;

use crate::protocol::Failure;
use crate::store::LockState;

#[cfg(feature = "postgres")]
pub(crate) mod postgres;
pub(crate) mod redis;
pub(crate) mod sqlite;

/// A connection to the records. Records that know no such step refuse it: by default all but to take a record and to release it.
pub trait Latches: Send {
    /// Stores `token` under `key` if the key does not exist, for `ttl` or, without one, forever. Returns whether it did.
    fn set_if_absent(
        &mut self,
        key: &str,
        token: &str,
        ttl: Option<Duration>,
    ) -> Result<bool, Failure>;

    /// Makes the key expire after `ttl` from now, whoever owns it. Returns whether the key existed.
    fn expire(&mut self, _key: &str, _ttl: Duration) -> Result<bool, Failure> {
        no_such_step()
    }

    /// Returns the token under the key.
    fn get(&mut self, _key: &str) -> Result<Option<String>, Failure> {
        no_such_step()
    }

    /// Deletes the key, whoever owns it. Returns whether the key existed.
    fn delete(&mut self, _key: &str) -> Result<bool, Failure> {
        no_such_step()
    }

    /// Deletes the key if it holds `token`, in one step. Returns whether it did.
    fn delete_if(&mut self, key: &str, token: &str) -> Result<bool, Failure>;

    /// Returns whether the key exists, and for how long.
    fn inspect(&mut self, _key: &str) -> Result<LockState, Failure> {
        no_such_step()
    }
}

fn no_such_step<T>() -> Result<T, Failure> {
    Err(Failure::definite("these records know no such step"))
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

    /// Tests the behaviour that all stores share. `ours` and `theirs` are two connections to one store.
    pub(crate) fn keeps_its_promises(ours: &mut dyn Latches, theirs: &mut dyn Latches) {
        assert_eq!(ours.inspect("key").unwrap(), LockState::FREE);
        assert!(ours.set_if_absent("key", "a", None).unwrap());
        assert!(!theirs.set_if_absent("key", "b", Some(TTL)).unwrap());
        assert!(theirs.inspect("key").unwrap().never_expires());
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
            let left = theirs.inspect("key").unwrap().ttl_left.unwrap();
            assert!(left <= TTL, "{left:?}");
            while !theirs.set_if_absent("key", "b", Some(TTL)).unwrap() {
                assert!(before.elapsed() < Duration::from_secs(30), "never free");
                std::thread::sleep(Duration::from_millis(1));
            }
            // Redis counts in whole milliseconds.
            let took = before.elapsed() + Duration::from_millis(1);
            assert!(took >= TTL, "free after {took:?}");
            assert!(!ours.delete_if("key", "a").unwrap());
            assert!(theirs.delete_if("key", "b").unwrap());
        }
    }
}
