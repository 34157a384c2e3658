//! Parses the address of a ZooKeeper ensemble: `zk://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/BASE][?election=curator|kazoo]`.

use super::layout::ElectionLayout;
use crate::stores::kit::percent::decode;

/// The node below which locks are, if the address does not name one.
const DEFAULT_BASE: &str = "/fencepost";

/// The parts of an address.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// `HOST:PORT,HOST:PORT`, in the form that the client library expects.
    pub(super) hosts: String,
    /// `USER:PASSWORD`, in the form that the scheme "digest" expects.
    pub(super) credentials: Option<String>,
    /// The node of the locks, without a slash at the end; empty for the root.
    pub(super) base: String,
    /// How candidates of elections are laid out.
    pub(super) layout: ElectionLayout,
}

impl Address {
    /// Returns `None` if the text is not a ZooKeeper address. It does not say why, because that could reveal a password.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("zk://")?;
        let (rest, layout) = split_layout(rest)?;
        let (authority, path) = split_base(rest, 0);
        let (credentials, hosts) = match authority.rsplit_once('@') {
            Some((credentials, hosts)) => (Some(read_credentials(credentials)?), hosts),
            None => (None, authority),
        };
        let are_hosts = hosts.split(',').all(is_host);
        let address = Self::new(hosts, path, credentials).filter(|_| are_hosts)?;
        Some(Self { layout, ..address })
    }

    /// Parses `HOST[:PORT][,HOST[:PORT]…][/BASE]`. As in the client library, each host can begin with `tcp://` or `tcp+tls://`.
    ///
    /// Returns `None` if the text has another form.
    pub(super) fn of_servers(text: &str) -> Option<Self> {
        let last_scheme = text.rfind("://").map_or(0, |at| at + "://".len());
        let (hosts, path) = split_base(text, last_scheme);
        let is_server = |server: &str| {
            let plain = server.strip_prefix("tcp://");
            let host = plain.or_else(|| server.strip_prefix("tcp+tls://"));
            is_host(host.unwrap_or(server))
        };
        let are_servers = hosts.split(',').all(is_server);
        Self::new(hosts, path, None).filter(|_| are_servers)
    }

    fn new(hosts: &str, path: &str, credentials: Option<String>) -> Option<Self> {
        let base = path.strip_suffix('/').unwrap_or(path);
        // There are no other parameters. Read as a part of the base, they would put the locks below another node.
        let has_parameters = [hosts, path].iter().any(|part| part.contains(['?', '#']));
        (is_base(base) && !has_parameters).then(|| Self {
            hosts: hosts.to_owned(),
            credentials,
            base: base.to_owned(),
            layout: ElectionLayout::default(),
        })
    }

    /// Returns the address without user and password, for people.
    pub(super) fn shown(&self) -> String {
        let layout = match self.layout {
            ElectionLayout::Curator => "",
            ElectionLayout::Kazoo => "?election=kazoo",
        };
        format!("zk://{}{}{layout}", self.hosts, self.base)
    }
}

/// Splits off the only parameter, how candidates of elections are laid out. Returns `None` if it has another value.
fn split_layout(text: &str) -> Option<(&str, ElectionLayout)> {
    match text.rsplit_once("?election=") {
        Some((rest, "curator")) => Some((rest, ElectionLayout::Curator)),
        Some((rest, "kazoo")) => Some((rest, ElectionLayout::Kazoo)),
        Some(_) => None,
        None => Some((text, ElectionLayout::default())),
    }
}

/// Splits the text at the first slash from `start` on, where the base begins.
fn split_base(text: &str, start: usize) -> (&str, &str) {
    match text[start..].find('/') {
        Some(at) => text.split_at(start + at),
        None => (text, DEFAULT_BASE),
    }
}

/// Decodes user and password. `%40` and the like stand for characters that would end the part they are in.
fn read_credentials(text: &str) -> Option<String> {
    let (user, password) = text.split_once(':')?;
    let user = decode(user).filter(|user| !user.is_empty() && !user.contains(':'))?;
    Some(format!("{user}:{}", decode(password)?))
}

fn is_host(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (text, "2181"),
    };
    let is_v6 = host.starts_with('[') && host.ends_with(']');
    let is_name = !host.is_empty() && !host.contains([':', '[', ']', ' ', '@']);
    (is_name || is_v6) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

fn is_base(path: &str) -> bool {
    let mut segments = path.split('/').skip(1);
    let refused = |c: char| c.is_control() || matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..);
    path.is_empty()
        || segments.all(|part| !matches!(part, "" | "." | "..") && !part.contains(refused))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_as_the_client_library_has_them() {
        for (text, hosts, base) in [
            ("a:2181,b:2182", "a:2181,b:2182", "/fencepost"),
            ("a,b/shop/locks", "a,b", "/shop/locks"),
            (
                "tcp+tls://a:2281,tcp://b/shop",
                "tcp+tls://a:2281,tcp://b",
                "/shop",
            ),
            ("a/", "a", ""),
        ] {
            let address = Address::of_servers(text).expect(text);
            assert_eq!(
                (address.hosts.as_str(), address.base.as_str()),
                (hosts, base)
            );
        }
        let parameters = ["a/locks?session_timeout=20s", "a/x#y", "a?x=y"];
        let forms = ["", "a,,b", "zk://a", "u:p@a", "a/../b", "tcp+tls://"];
        for wrong in forms.into_iter().chain(parameters) {
            assert!(Address::of_servers(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn an_address_is_taken_apart() {
        for (text, hosts, credentials, base) in [
            ("zk://a", "a", None, "/fencepost"),
            ("zk://a:1,b:2,[::1]:3/", "a:1,b:2,[::1]:3", None, ""),
            ("zk://[::1]/x", "[::1]", None, "/x"),
            ("zk://u:p%40@a:2181/x/y/", "a:2181", Some("u:p@"), "/x/y"),
            ("zk://u:p?#@a/x", "a", Some("u:p?#"), "/x"),
        ] {
            let address = Address::parse(text).expect(text);
            assert_eq!(address.hosts, hosts);
            assert_eq!(address.credentials.as_deref(), credentials);
            assert_eq!(address.base, base);
            assert!(!address.shown().contains("p@") && !address.shown().contains("p?"));
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "a:2181",
            "redis://a",
            "zk://",
            "zk://a:0",
            "zk://a:port",
            "zk://a,,b",
            "zk://:2181",
            "zk://u@a",
            "zk://:p@a",
            "zk://u:p%zz@a",
            "zk://a//x",
            "zk://a/x/../y",
            "zk://a/x\u{7}",
            "zk://a,b/locks?session_timeout=20s",
            "zk://a?session_timeout=20s",
            "zk://a/x#y",
            "zk://a?election=both",
            "zk://a?election=kazoo&x=y",
            "zk://a?x=y?election=kazoo",
        ] {
            assert!(Address::parse(text).is_none(), "{text}");
        }
    }
}
