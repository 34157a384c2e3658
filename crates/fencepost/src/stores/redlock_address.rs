//! Parses `redlock://[USER:PASSWORD@]HOST[:PORT],…[/DATABASE][?restart_delay=TIME&keep_fences=TIME]`, one address for several servers.

use std::time::Duration;

use crate::stores::kit::times;

/// The servers and parameters of a Redlock address.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
#[cfg_attr(not(feature = "unstable-hooks"), allow(unreachable_pub))]
#[non_exhaustive]
pub struct RedlockAddress {
    /// The addresses of the single servers, in the form of `Redis::open`. They may contain passwords.
    pub servers: Vec<String>,
    /// How long a restarted server does not vote, if the address says so.
    pub restart_delay: Option<Duration>,
    /// How long a server keeps the counter of a name, if the address says so.
    pub keep_fences: Option<Duration>,
}

#[cfg_attr(not(feature = "unstable-hooks"), allow(unreachable_pub))]
impl RedlockAddress {
    /// Returns `None` if the text is not a Redlock address. Does not check whether there are enough servers, nor the address of each.
    pub fn parse(text: &str) -> Option<Self> {
        let all = text.strip_prefix("redlock://")?;
        let (all, parameters) = match all.rsplit_once('?') {
            Some((all, parameters)) => (all, Some(parameters)),
            None => (all, None),
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
        let address = Self {
            servers: servers.iter().map(one).collect(),
            restart_delay: None,
            keep_fences: None,
        };
        match parameters {
            Some(parameters) => address.with(parameters),
            None => Some(address),
        }
    }

    /// Reads the parameters after the question mark.
    fn with(mut self, parameters: &str) -> Option<Self> {
        for parameter in parameters.split('&') {
            let (name, value) = parameter.split_once('=')?;
            let chosen = match name {
                "restart_delay" => &mut self.restart_delay,
                "keep_fences" => &mut self.keep_fences,
                _ => return None,
            };
            if chosen.replace(times::parse(value)?).is_some() {
                return None;
            }
        }
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_has_its_own_user() {
        let address = RedlockAddress::parse("redlock://a:1,bob:p%2Cw@b:2,[::1]:3/4").unwrap();
        assert_eq!(
            address.servers,
            [
                "redis://a:1/4",
                "redis://bob:p%2Cw@b:2/4",
                "redis://[::1]:3/4"
            ]
        );
        assert_eq!((address.restart_delay, address.keep_fences), (None, None));
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
            assert_eq!(RedlockAddress::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn servers_that_forget_are_given_time() {
        for (text, delay) in [("30s", 30_000), ("500ms", 500)] {
            let text = format!("redlock://a,b,c/2?restart_delay={text}");
            let address = RedlockAddress::parse(&text).unwrap();
            let chosen = address.restart_delay;
            assert_eq!(chosen, Some(Duration::from_millis(delay)));
            assert_eq!(address.servers[2], "redis://c/2");
        }
    }

    #[test]
    fn options_come_together() {
        let text = "redlock://a,b,c?keep_fences=24h&restart_delay=1s";
        let options = RedlockAddress::parse(text).unwrap();
        assert_eq!(options.keep_fences, Some(Duration::from_secs(24 * 3600)));
        assert_eq!(options.restart_delay, Some(Duration::from_secs(1)));
    }
}
