//! The addresses of servers in help texts, as the library's table of stores describes them.

use fencepost::stores::kinds::{REDIS, SQLITE};
use fencepost::stores::{KINDS, StoreKind};

/// Where a help text lists the addresses.
const BLANK: &str = "{servers}";
/// The column in which descriptions of flags begin.
const INDENT: usize = 22;
const WIDTH: usize = 100;

/// Fills in the addresses of all servers.
pub(super) fn with_servers(text: &str) -> String {
    let in_full = KINDS
        .iter()
        .filter(|kind| ![&SQLITE, &REDIS].contains(kind));
    let mut lines = vec![line(&REDIS), "built with --features full:".into()];
    lines.extend(in_full.map(|kind| line(kind)));
    let indented: String = lines
        .iter()
        .map(|line| format!("{:INDENT$}{line}\n", ""))
        .collect();
    text.replace(BLANK, &indented)
}

/// The form of its addresses, and its other schemes as far as the line is wide enough.
fn line(kind: &StoreKind) -> String {
    let mut line = kind.address_form.to_owned();
    for scheme in kind.schemes.iter().skip(1) {
        let other = format!(" · {}…", scheme.prefix);
        if INDENT + line.chars().count() + other.chars().count() <= WIDTH {
            line.push_str(&other);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_server_is_listed() {
        let text = with_servers("{servers}");
        for kind in KINDS.iter().filter(|kind| ***kind != SQLITE) {
            assert!(text.contains(kind.address_form), "{}: {text}", kind.name);
        }
        assert!(text.starts_with("                      redis://"), "{text}");
        assert!(text.contains(" · rediss://… · unix:…\n"), "{text}");
    }
}
