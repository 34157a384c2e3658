//! `redlock://[USER:PASSWORD@]HOST[:PORT],…[/DATABASE]`: one address for several servers.

use std::collections::BTreeSet;

/// Where the servers are.
pub(super) const EXPECTED: &str = "expected redlock://[USER:PASSWORD@]HOST[:PORT],… with at least three servers and, \
     for all of them, [/DATABASE]; a comma in a password is written %2C";

/// A majority of fewer servers does not outlive the loss of one.
pub(super) const FEWEST: usize = 3;

/// The addresses of the single servers, as [`Redis`](crate::backend::redis::Redis) knows them; `None`: that is no such address.
pub(super) fn split(address: &str) -> Option<Vec<String>> {
    let all = address.strip_prefix("redlock://")?;
    let (servers, database) = match all.rsplit_once('/') {
        Some((servers, database)) => (servers, database),
        None => (all, ""),
    };
    let is_number = database.bytes().all(|byte| byte.is_ascii_digit());
    let servers: Vec<&str> = servers.split(',').collect();
    if !is_number || servers.iter().any(|server| server.is_empty()) {
        return None;
    }
    let one = |server: &&str| match database {
        "" => format!("redis://{server}"),
        number => format!("redis://{server}/{number}"),
    };
    Some(servers.iter().map(one).collect())
}

/// The first address that occurs twice: it would vote twice.
pub(super) fn repeated<'a>(shown: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = BTreeSet::new();
    shown.into_iter().find(|address| !seen.insert(*address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_has_its_own_user() {
        assert_eq!(
            split("redlock://a:1,bob:p%2Cw@b:2,[::1]:3/4").unwrap(),
            [
                "redis://a:1/4",
                "redis://bob:p%2Cw@b:2/4",
                "redis://[::1]:3/4"
            ]
        );
        assert_eq!(split("redlock://a,b,c").unwrap().len(), 3);
        for wrong in [
            "redis://a,b,c",
            "redlock://a,,c",
            "redlock://a,b,c/x",
            "redlock://",
        ] {
            assert_eq!(split(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn who_would_vote_twice_is_found() {
        assert_eq!(repeated(["a", "b", "a"]), Some("a"));
        assert_eq!(repeated(["a", "b"]), None);
    }
}
