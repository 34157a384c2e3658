//! Parses the address of a Redis server. Most of it is for the client library; certificate files and `keep_fences` are for us.

use std::time::Duration;

use redis::{ConnectionInfo, IntoConnectionInfo};

use crate::stores::kit::certificates::{CertificateFiles, OURS};
use crate::stores::kit::percent;
use crate::stores::kit::times;

const FORM: &str = "not an address of Redis; expected redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], \
     rediss://…[?ca=FILE][&cert=FILE&key=FILE] or unix:/PATH[?db=DATABASE&user=USER&pass=PASSWORD]; \
     [?keep_fences=24h] may follow each of them";

/// What is said about a parameter that nobody reads. The name is not quoted, because it may be part of a password.
const UNKNOWN: &str = "unknown parameter; known are keep_fences, ca, cert, key, protocol, and with unix: also db, user, pass; \
     a ? or & in a password is written %3F or %26";

/// What is said about text after a `#`, where nobody looks for parameters.
const FRAGMENT: &str =
    "only #insecure may follow a rediss:// address; a # in a password or path is written %23";

/// The parameters that we handle ourselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnParameters {
    pub(super) files: CertificateFiles,
    /// How long fences are kept.
    pub(super) keep_fences: Option<Duration>,
}

/// Parses an address. The error never quotes the address, which may contain a password.
pub(super) fn parse(address: &str) -> Result<(ConnectionInfo, OwnParameters), String> {
    let (plain, own) = without_own(address)?;
    if !own.files.is_empty() && !is_tls(address) {
        return Err("ca, cert and key are about TLS, which is rediss://".to_owned());
    }
    // The parser's error may quote the address, so it is not passed on.
    let info = plain.as_str().into_connection_info().map_err(|_| FORM)?;
    Ok((info, own))
}

/// Separates our parameters from the address. Refuses parameters that neither we nor the client library read: it would ignore them.
fn without_own(address: &str) -> Result<(String, OwnParameters), String> {
    let mut own = OwnParameters {
        files: CertificateFiles::new(OURS),
        keep_fences: None,
    };
    let (address, fragment) = match address.split_once('#') {
        None => (address, ""),
        Some((address, "insecure")) if is_tls(address) => (address, "#insecure"),
        Some(_) => return Err(FRAGMENT.to_owned()),
    };
    let (base, query) = address.split_once('?').unwrap_or((address, ""));
    let mut others = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if name == "keep_fences" {
            own.keep_fences = Some(times::parse(value).ok_or(FORM)?);
        } else if own.files.is_parameter(name) {
            own.files.set(name, percent::decode(value).ok_or(FORM)?);
        } else if is_of_the_client(name, base) {
            others.push(pair);
        } else {
            return Err(UNKNOWN.to_owned());
        }
    }
    let mark = if others.is_empty() { "" } else { "?" };
    let plain = format!("{base}{mark}{}{fragment}", others.join("&"));
    Ok((plain, own))
}

/// Returns whether this address stands for TLS.
pub(super) fn is_tls(address: &str) -> bool {
    address.starts_with("rediss:") || address.starts_with("valkeys:")
}

/// Returns whether the client library reads this parameter. For a socket, it also reads there what is elsewhere before the question mark.
fn is_of_the_client(name: &str, base: &str) -> bool {
    let is_socket = ["unix:", "redis+unix:", "valkey+unix:"]
        .iter()
        .any(|scheme| base.starts_with(scheme));
    name == "protocol" || (is_socket && matches!(name, "db" | "user" | "pass"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_taken_out_and_the_rest_is_left() {
        let mut named = CertificateFiles::new(OURS);
        named.set("ca", "/etc/our ca.pem".to_owned());
        for (address, plain) in [
            ("rediss://h:1/2?ca=/etc/our%20ca.pem", "rediss://h:1/2"),
            (
                "rediss://h?protocol=resp3&ca=%2Fetc/our%20ca.pem#insecure",
                "rediss://h?protocol=resp3#insecure",
            ),
        ] {
            let (read, own) = without_own(address).unwrap();
            assert_eq!((read.as_str(), &own.files), (plain, &named), "{address}");
        }
    }

    #[test]
    #[cfg(feature = "redis-tls")]
    fn every_scheme_with_tls_takes_files_and_no_other_does() {
        for scheme in ["rediss", "valkeys"] {
            let (_, own) = parse(&format!("{scheme}://h?ca=/etc/ca.pem")).unwrap();
            assert!(!own.files.is_empty(), "{scheme}");
        }
        for scheme in ["redis", "valkey"] {
            parse(&format!("{scheme}://h?ca=/etc/ca.pem")).unwrap_err();
        }
    }

    #[test]
    fn a_socket_has_the_same_parameters_and_its_own() {
        for (address, plain, hours) in [
            ("unix:/run/r?keep_fences=2h", "unix:/run/r", Some(2)),
            (
                "redis+unix:///run/r?db=1&keep_fences=3h&user=u&pass=p%26",
                "redis+unix:///run/r?db=1&user=u&pass=p%26",
                Some(3),
            ),
            ("unix:/run/r?protocol=3", "unix:/run/r?protocol=3", None),
        ] {
            let (read, own) = without_own(address).unwrap();
            let kept = hours.map(|hours| Duration::from_secs(hours * 3600));
            assert_eq!((read.as_str(), own.keep_fences), (plain, kept), "{address}");
        }
    }

    #[test]
    fn the_life_of_fences_is_a_time_with_a_unit() {
        for (text, hours) in [("24h", 24), ("7d", 168), ("120m", 2), ("7200s", 2)] {
            let (plain, own) = without_own(&format!("redis://h?keep_fences={text}")).unwrap();
            assert_eq!(plain, "redis://h");
            let kept = Duration::from_secs(hours * 3600);
            assert_eq!(own.keep_fences, Some(kept), "{text}");
        }
        for text in [
            "",
            "h",
            "24",
            "-1h",
            "1w",
            "99999999999999999999d",
            "24 h",
            "é",
        ] {
            assert!(
                parse(&format!("redis://h?keep_fences={text}")).is_err(),
                "{text}"
            );
        }
    }

    #[test]
    fn what_cannot_be_is_refused_without_being_quoted() {
        for (address, words) in [
            ("redis://u:secret@h?ca=/etc/ca.pem", "which is rediss://"),
            ("rediss://u:secret@h?ca=%zz", "expected redis://"),
            ("rediss://u:secret@h:port", "expected redis://"),
            ("unix:/run/redis?pass=secret&ca=x", "which is rediss://"),
            ("redis://u:secret@h?keep_fence=2h", "unknown parameter"),
            ("redis://u:secret@h?db=1", "unknown parameter"),
            ("redis://u:secret?h=x@h", "unknown parameter"),
            ("unix:/run/redis?pass=x&secret", "unknown parameter"),
            ("redis://h/1#keep_fences=7d", "written %23"),
            ("redis://secret#1:pw@h", "written %23"),
            ("redis://h#insecure", "written %23"),
            ("rediss://h#insecure?keep_fences=secret", "written %23"),
        ] {
            let said = parse(address).expect_err(address);
            assert!(said.contains(words) && !said.contains("secret"), "{said}");
        }
    }
}
