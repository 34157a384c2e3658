//! Checks whether a server can be used before a trial relies on it.

use std::time::{Duration, Instant};

use redis::{Client, RedisError, RedisResult, cmd};

use super::kinds::Data;
use super::not_reached::{ATTEMPT, PAUSE};
use super::redis::Wire;
use super::{TrialStore, locks, postgres};

pub use super::not_reached::NotReached;

/// Whether the lab was built with Postgres support.
pub const HAS_POSTGRES: bool = cfg!(feature = "postgres");

/// Makes sure that the store can be used. Retries for up to `timeout` while it cannot be reached.
///
/// # Errors
/// Returns a [`NotReached`] that says why it cannot be used. A refusal is returned immediately.
pub fn reach(store: &TrialStore, timeout: Duration) -> Result<(), NotReached> {
    match store.facts().data {
        Data::File => Ok(()),
        Data::Redis => reach_redis(store.address(), timeout),
        Data::Postgres => postgres::reach(store.address(), timeout),
        Data::LocksOnly => locks::reach(store.address(), timeout),
    }
}

/// Returns whether the address is well-formed, as far as that can be determined without a connection.
pub fn has_valid_address(store: &TrialStore) -> bool {
    if store.is_private() {
        return true;
    }
    match store.facts().data {
        Data::Redis => Client::open(store.address()).is_ok(),
        Data::Postgres => postgres::is_address(store.address()),
        Data::File | Data::LocksOnly => true,
    }
}

/// Makes sure that a Redis server answers at `url` and runs scripts.
fn reach_redis(url: &str, timeout: Duration) -> Result<(), NotReached> {
    let started = Instant::now();
    let client = Client::open(url).map_err(|error| NotReached::Refuses(words(&error)))?;
    loop {
        let left = timeout.saturating_sub(started.elapsed());
        match introduce(&client, left.max(ATTEMPT)) {
            Ok(42) => return Ok(()),
            Ok(_) => return Err(NotReached::Refuses("it does not run scripts".into())),
            Err(error) if !nobody_there(&error) => {
                return Err(NotReached::Refuses(words(&error)));
            }
            Err(error) if started.elapsed() + PAUSE >= timeout => {
                return Err(NotReached::Silent(words(&error)));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

fn introduce(client: &Client, within: Duration) -> RedisResult<i64> {
    let mut connection = Wire::connect(client, within)?;
    cmd("EVAL")
        .arg("return 6 * 7")
        .arg(0)
        .query(&mut connection)
}

fn nobody_there(error: &RedisError) -> bool {
    error.is_io_error() || error.code() == Some("LOADING")
}

/// Returns the message without the system's error number and without the prefixes of wrapped errors.
fn words(error: &RedisError) -> String {
    let text = match error.detail() {
        Some(detail) if error.code().is_none() => detail.to_owned(),
        _ => error.to_string(),
    };
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        // A second letter in lower case: the message is a sentence and does not start with an error code in capitals.
        (Some(first), Some(second)) if second.is_lowercase() => {
            let rest = &text[first.len_utf8()..];
            format!("{}{rest}", first.to_lowercase())
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use fencepost_rig::resp::Connection;

    use super::*;
    use crate::store::tests::redis;

    const SHORT: Duration = Duration::from_millis(200);
    const LONG: Duration = Duration::from_secs(20);

    fn reach_at(address: &str, timeout: Duration) -> Result<(), NotReached> {
        reach(&TrialStore::named(address).unwrap(), timeout)
    }

    fn is_valid(address: &str) -> bool {
        TrialStore::named(address).is_some_and(|store| has_valid_address(&store))
    }

    fn where_nobody_listens() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    }

    #[test]
    fn a_server_that_answers_is_reached() {
        let Some(server) = redis() else { return };
        assert_eq!(reach_at(&server.url(), LONG), Ok(()));
    }

    #[test]
    fn a_closed_port_is_retried_until_the_time_limit() {
        let port = where_nobody_listens();
        let started = Instant::now();
        let said = reach_at(&format!("redis://127.0.0.1:{port}"), SHORT);
        assert_eq!(said, Err(NotReached::Silent("connection refused".into())));
        assert!(started.elapsed() >= SHORT - PAUSE);
    }

    #[test]
    fn a_refused_connection_is_reported_even_without_time_left() {
        let port = where_nobody_listens();
        let refused = Err(NotReached::Silent("connection refused".into()));
        let url = format!("redis://127.0.0.1:{port}");
        assert_eq!(reach_at(&url, Duration::ZERO), refused);
        if HAS_POSTGRES {
            let url = format!("postgres://shop@127.0.0.1:{port}/shop");
            assert_eq!(reach_at(&url, Duration::ZERO), refused);
        }
    }

    #[test]
    fn a_missing_password_is_told_at_once() {
        let Some(server) = redis() else { return };
        let mut connection = Connection::open(server.address(), LONG).unwrap();
        connection
            .ask(&["CONFIG", "SET", "requirepass", "hunter2"])
            .unwrap();
        let Err(NotReached::Refuses(said)) = reach_at(&server.url(), LONG) else {
            panic!("reached")
        };
        assert!(said.contains("NOAUTH"), "{said}");
        let with_password = server.url().replace("redis://", "redis://:hunter2@");
        assert_eq!(reach_at(&with_password, LONG), Ok(()));
        let wrong = server.url().replace("redis://", "redis://:hunter3@");
        let Err(NotReached::Refuses(said)) = reach_at(&wrong, LONG) else {
            panic!("reached")
        };
        assert!(!said.contains("hunter"), "{said}");
    }

    #[test]
    fn another_kind_of_server_is_detected() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 512]);
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            }
        });
        let said = reach_at(&format!("redis://{address}"), LONG);
        assert!(matches!(said, Err(NotReached::Refuses(_))), "{said:?}");
    }

    #[test]
    fn an_address_is_told_from_nonsense() {
        for good in [
            "redis://cache",
            "redis://u:p@cache:6380/2",
            "redis://[::1]:7",
        ] {
            assert!(is_valid(good), "{good}");
        }
        for bad in [
            "redis://",
            "redis://cache:port",
            "redis://cache/two",
            "mysql://cache",
        ] {
            assert!(!is_valid(bad), "{bad}");
        }
    }
}
