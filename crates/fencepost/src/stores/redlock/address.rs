//! Parses `redlock://[USER:PASSWORD@]HOST[:PORT],…[/DATABASE][?restart_delay=TIME&keep_fences=TIME]`, one address for several servers.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::stores::kit::times;

/// The expected form, for errors about invalid addresses.
pub(super) const EXPECTED: &str = "expected redlock://[USER:PASSWORD@]HOST[:PORT],… with at least three servers and, \
     for all of them, [/DATABASE]; [?restart_delay=30s&keep_fences=24h] may follow; a comma in a password is written %2C";

/// The smallest number of servers: a majority of fewer does not survive the loss of one.
pub(super) const FEWEST: usize = 3;

/// The content of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// The addresses of the single servers, in the form of [`Redis`](crate::stores::redis::Redis).
    pub(super) servers: Vec<String>,
    pub(super) options: Options,
}

/// The parameters after the question mark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) restart_delay: Option<Duration>,
    pub(super) keep_fences: Option<Duration>,
}

impl Address {
    /// Returns `None` if the text is not a Redlock address.
    pub(super) fn read(text: &str) -> Option<Self> {
        let all = text.strip_prefix("redlock://")?;
        let (all, options) = match all.rsplit_once('?') {
            Some((all, options)) => (all, Options::read(options)?),
            None => (all, Options::default()),
        };
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
        Some(Self {
            servers: servers.iter().map(one).collect(),
            options,
        })
    }
}

impl Options {
    fn read(text: &str) -> Option<Self> {
        let mut options = Self::default();
        for option in text.split('&') {
            let (name, value) = option.split_once('=')?;
            let chosen = match name {
                "restart_delay" => &mut options.restart_delay,
                "keep_fences" => &mut options.keep_fences,
                _ => return None,
            };
            if chosen.replace(times::parse(value)?).is_some() {
                return None;
            }
        }
        Some(options)
    }
}

/// Returns the first address that occurs twice: its server would vote twice.
pub(super) fn repeated<'a>(shown: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = BTreeSet::new();
    shown.into_iter().find(|address| !seen.insert(*address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_has_its_own_user() {
        let address = Address::read("redlock://a:1,bob:p%2Cw@b:2,[::1]:3/4").unwrap();
        assert_eq!(
            address.servers,
            [
                "redis://a:1/4",
                "redis://bob:p%2Cw@b:2/4",
                "redis://[::1]:3/4"
            ]
        );
        assert_eq!(address.options, Options::default());
        for wrong in [
            "redis://a,b,c",
            "redlock://a,,c",
            "redlock://a,b,c/x",
            "redlock://",
            "redlock://a,b,c?restart_delay=soon",
            "redlock://a,b,c?restart_delay=30",
            "redlock://a,b,c?delay=30s",
            "redlock://a,b,c?keep_fences=1h&keep_fences=2h",
            "redlock://a,b,c?keep_fences=1h&",
        ] {
            assert_eq!(Address::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn servers_that_forget_are_given_time() {
        for (text, delay) in [("30s", 30_000), ("500ms", 500)] {
            let text = format!("redlock://a,b,c/2?restart_delay={text}");
            let address = Address::read(&text).unwrap();
            let chosen = address.options.restart_delay;
            assert_eq!(chosen, Some(Duration::from_millis(delay)));
            assert_eq!(address.servers[2], "redis://c/2");
        }
    }

    #[test]
    fn options_come_together() {
        let text = "redlock://a,b,c?keep_fences=24h&restart_delay=1s";
        let options = Address::read(text).unwrap().options;
        assert_eq!(options.keep_fences, Some(Duration::from_secs(24 * 3600)));
        assert_eq!(options.restart_delay, Some(Duration::from_secs(1)));
    }

    #[test]
    fn who_would_vote_twice_is_found() {
        assert_eq!(repeated(["a", "b", "a"]), Some("a"));
        assert_eq!(repeated(["a", "b"]), None);
    }
}
