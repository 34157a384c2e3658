//! Parses the address of an etcd cluster: servers, user, certificates, and the prefix of the locks.

use crate::stores::kit::certificates::{CertificateFiles, OURS};
use crate::stores::kit::percent::decode;

/// `etcd://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/PREFIX]`, or `etcds://…[?ca=FILE][&cert=FILE&key=FILE]` for TLS.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) is_tls: bool,
    pub(super) user: Option<(String, String)>,
    /// `HOST:PORT`, at least one.
    pub(super) hosts: Vec<String>,
    /// The prefix of all keys, without a slash at its end; empty if the locks are at the root.
    pub(super) prefix: String,
    /// The certificate files.
    pub(super) files: CertificateFiles,
}

const PORT: u16 = 2379;

impl Address {
    /// Returns `None` if the text is not an etcd address.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let is_tls = match scheme {
            "etcd" => false,
            "etcds" => true,
            _ => return None,
        };
        let (rest, files) = match rest.rsplit_once('?') {
            None => (rest, CertificateFiles::new(OURS)),
            Some((rest, parameters)) => (rest, files(parameters)?),
        };
        let (servers, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        // In a prefix, they would name other locks than meant; there they are written %3F and %23.
        if prefix.contains(['#', '?']) {
            return None;
        }
        let (user, hosts) = match servers.rsplit_once('@') {
            None => (None, servers),
            Some((user, hosts)) => {
                let (name, password) = user.split_once(':')?;
                (Some((decode(name)?, decode(password)?)), hosts)
            }
        };
        let hosts: Option<Vec<String>> = hosts.split(',').map(with_port).collect();
        Some(Self {
            is_tls,
            user,
            hosts: hosts?,
            prefix: decode(prefix.trim_end_matches('/'))?,
            files,
        })
    }

    /// Creates the address to show for endpoints in the form of the client library.
    ///
    /// Returns `None` if there are no endpoints, or if one of them is invalid.
    pub(super) fn of_endpoints(endpoints: &[String]) -> Option<Self> {
        let host = |endpoint: &String| {
            let plain = endpoint.strip_prefix("http://");
            let host = plain.or_else(|| endpoint.strip_prefix("https://"));
            let host = host.unwrap_or(endpoint).trim_end_matches('/');
            let is_host = !host.contains(['/', '@', '?', ' ']);
            with_port(host).filter(|_| is_host)
        };
        let hosts: Option<Vec<String>> = endpoints.iter().map(host).collect();
        Some(Self {
            is_tls: endpoints.first()?.starts_with("https://"),
            user: None,
            hosts: hosts?,
            prefix: String::new(),
            files: CertificateFiles::new(OURS),
        })
    }

    /// Returns the address without user and password, for people.
    pub(super) fn shown(&self) -> String {
        let scheme = if self.is_tls { "etcds" } else { "etcd" };
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        format!("{scheme}://{}{slash}{}", self.hosts.join(","), self.prefix)
    }

    /// Returns the endpoints in the form that the client library expects.
    pub(super) fn endpoints(&self) -> Vec<String> {
        let scheme = if self.is_tls { "https" } else { "http" };
        let endpoint = |host: &String| format!("{scheme}://{host}");
        self.hosts.iter().map(endpoint).collect()
    }
}

/// Adds the default port. An IPv6 address contains colons, and must be in brackets.
fn with_port(host: &str) -> Option<String> {
    // What follows them would not be part of the host for the client library.
    if host.contains(['#', '?']) {
        return None;
    }
    let after_brackets = host.rsplit_once(']').map_or(host, |(_, after)| after);
    match after_brackets.rsplit_once(':') {
        Some((_, port)) => {
            let _number: u16 = port.parse().ok()?;
            (!host.starts_with(':')).then(|| host.to_owned())
        }
        None => (!host.is_empty()).then(|| format!("{host}:{PORT}")),
    }
}

/// Returns `None` if there are other parameters.
fn files(parameters: &str) -> Option<CertificateFiles> {
    let mut files = CertificateFiles::new(OURS);
    for pair in parameters.split('&') {
        let (name, path) = pair.split_once('=')?;
        if !files.is_parameter(name) {
            return None;
        }
        files.set(name, decode(path)?);
    }
    Some(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_servers_and_may_have_a_user_and_a_prefix() {
        let full = Address::parse("etcds://ci:p%40ss@a,b:1,[::1]:2/locks/ci/").unwrap();
        assert!(full.is_tls);
        assert_eq!(full.user, Some(("ci".into(), "p@ss".into())));
        assert_eq!(full.hosts, ["a:2379", "b:1", "[::1]:2"]);
        assert_eq!(full.prefix, "locks/ci");
        assert_eq!(full.shown(), "etcds://a:2379,b:1,[::1]:2/locks/ci");
        assert_eq!(full.endpoints()[0], "https://a:2379");
        let plain = Address::parse("etcd://a").unwrap();
        assert_eq!(plain.shown(), "etcd://a:2379");
        assert_eq!((plain.user, plain.prefix.as_str()), (None, ""));
        assert!(plain.files.is_empty());
    }

    #[test]
    fn certificates_come_last() {
        let address = "etcds://a/locks?ca=/etc/our%20ca.pem&key=k%3F";
        let address = Address::parse(address).unwrap();
        let mut files = CertificateFiles::new(OURS);
        files.set("ca", "/etc/our ca.pem".to_owned());
        files.set("key", "k?".to_owned());
        assert_eq!(address.files, files);
        assert_eq!(address.shown(), "etcds://a:2379/locks");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "a:2379",
            "redis://a",
            "etcd://",
            "etcd://a,,b",
            "etcd://a:port",
            "etcd://:2379",
            "etcd://user@a",
            "etcd://a:b%zz@a",
            "etcds://a?",
            "etcds://a?ca",
            "etcd://a,b/locks#x",
            "etcd://a,b#x",
            "etcds://a/locks?x=1?ca=F",
            "etcds://a?frobnicate=x",
            "etcds://a?ca=%zz",
        ] {
            assert!(Address::parse(text).is_none(), "{text}");
        }
    }
}
