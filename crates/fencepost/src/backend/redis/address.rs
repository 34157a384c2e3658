//! What an address says: most of it to the client library, the files of certificates to us.

use redis::{ConnectionInfo, IntoConnectionInfo};

use crate::backend::certificates::{Files, OURS};
use crate::backend::percent;

const FORM: &str = "not an address of Redis; expected redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], \
     rediss://…[?ca=FILE][&cert=FILE&key=FILE] or unix:/PATH";

/// Reads an address. The error never quotes it: it may carry a password.
pub(super) fn read(address: &str) -> Result<(ConnectionInfo, Files), String> {
    let (plain, files) = without_files(address).ok_or(FORM)?;
    if !files.are_none() && !address.starts_with("rediss:") {
        return Err("ca, cert and key are about TLS, which is rediss://".to_owned());
    }
    // What the parser says may quote the address: it is not passed on.
    let info = plain.as_str().into_connection_info().map_err(|_| FORM)?;
    Ok((info, files))
}

/// The client library ignores parameters that it does not know.
fn without_files(address: &str) -> Option<(String, Files)> {
    let mut files = Files::new(OURS);
    let (base, rest) = match address.split_once('?') {
        Some(split) if !address.starts_with("unix:") => split,
        _ => return Some((address.to_owned(), files)),
    };
    let (query, fragment) = match rest.split_once('#') {
        Some((query, fragment)) => (query, format!("#{fragment}")),
        None => (rest, String::new()),
    };
    let mut others = Vec::new();
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some((name, path)) if files.knows(name) => files.note(name, percent::decode(path)?),
            _ => others.push(pair),
        }
    }
    let mark = if others.is_empty() { "" } else { "?" };
    let plain = format!("{base}{mark}{}{fragment}", others.join("&"));
    Some((plain, files))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_taken_out_and_the_rest_is_left() {
        let mut named = Files::new(OURS);
        named.note("ca", "/etc/our ca.pem".to_owned());
        for (address, plain) in [
            ("rediss://h:1/2?ca=/etc/our%20ca.pem", "rediss://h:1/2"),
            (
                "rediss://h?protocol=resp3&ca=%2Fetc/our%20ca.pem#insecure",
                "rediss://h?protocol=resp3#insecure",
            ),
        ] {
            let read = without_files(address);
            assert_eq!(read, Some((plain.to_owned(), named.clone())), "{address}");
        }
        let socket = "unix:/run/redis?ca=x";
        let untouched = (socket.to_owned(), Files::new(OURS));
        assert_eq!(without_files(socket), Some(untouched));
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
