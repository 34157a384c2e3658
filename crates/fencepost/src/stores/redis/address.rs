//! Reads the address of a Redis server. Most of it is for the client library; certificate files and `keep_fences` are for us.

use std::time::Duration;

use redis::{ConnectionInfo, IntoConnectionInfo};

use crate::stores::kit::certificates::{CertificateFiles, OURS};
use crate::stores::kit::percent;
use crate::stores::kit::times;

const FORM: &str = "not an address of Redis; expected redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], \
     rediss://…[?ca=FILE][&cert=FILE&key=FILE] or unix:/PATH; [?keep_fences=24h] may follow the first two";

/// The parameters that we handle ourselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnParameters {
    pub(super) files: CertificateFiles,
    /// How long fences are kept.
    pub(super) keep_fences: Option<Duration>,
}

/// Parses an address. The error never quotes the address, which may contain a password.
pub(super) fn read(address: &str) -> Result<(ConnectionInfo, OwnParameters), String> {
    let (plain, own) = without_own(address).ok_or(FORM)?;
    if !own.files.is_empty() && !address.starts_with("rediss:") {
        return Err("ca, cert and key are about TLS, which is rediss://".to_owned());
    }
    // The parser's error may quote the address, so it is not passed on.
    let info = plain.as_str().into_connection_info().map_err(|_| FORM)?;
    Ok((info, own))
}

/// Separates our parameters from the address, because the client library ignores parameters that it does not know.
fn without_own(address: &str) -> Option<(String, OwnParameters)> {
    let mut own = OwnParameters {
        files: CertificateFiles::new(OURS),
        keep_fences: None,
    };
    let (base, rest) = match address.split_once('?') {
        Some(split) if !address.starts_with("unix:") => split,
        _ => return Some((address.to_owned(), own)),
    };
    let (query, fragment) = match rest.split_once('#') {
        Some((query, fragment)) => (query, format!("#{fragment}")),
        None => (rest, String::new()),
    };
    let mut others = Vec::new();
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some(("keep_fences", time)) => own.keep_fences = Some(times::parse(time)?),
            Some((name, path)) if own.files.is_parameter(name) => {
                own.files.set(name, percent::decode(path)?);
            }
            _ => others.push(pair),
        }
    }
    let mark = if others.is_empty() { "" } else { "?" };
    let plain = format!("{base}{mark}{}{fragment}", others.join("&"));
    Some((plain, own))
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
        let socket = "unix:/run/redis?ca=x";
        let (read, own) = without_own(socket).unwrap();
        assert!(read == socket && own.files.is_empty());
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
                read(&format!("redis://h?keep_fences={text}")).is_err(),
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
        ] {
            let said = read(address).expect_err(address);
            assert!(said.contains(words) && !said.contains("secret"), "{said}");
        }
    }
}
