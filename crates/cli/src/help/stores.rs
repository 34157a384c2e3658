//! The names and addresses of stores in help texts, as the library's table of stores describes them.

use fencepost::stores::kinds::{REDIS, SQLITE};
use fencepost::stores::{KINDS, StoreKind};
use fencepost_trial::store::{lock_only_kinds, private_name, private_names};

/// Where a help text lists the addresses.
const BLANK: &str = "{servers}";
/// The column in which descriptions of flags begin.
pub(super) const INDENT: usize = 22;
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

/// Returns the form of its addresses, and its other schemes as far as the line is wide enough.
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

/// Returns the stores that keep only locks: the names of private servers, then the addresses of your own.
pub(super) fn lock_servers() -> String {
    let names: Vec<&str> = lock_only_kinds().map(private_name).collect();
    let addresses = lock_only_kinds().filter_map(|kind| kind.schemes.first());
    let addresses = addresses.map(|scheme| format!("   {}H1,H2,H3", scheme.prefix));
    names.join(", ") + &addresses.collect::<String>()
}

/// Returns the names by which `--lock` chooses the library's lock on certain servers.
pub(super) fn lock_server_names() -> String {
    let names: Vec<&str> = lock_only_kinds().map(|kind| kind.name).collect();
    names.join(", ")
}

/// Returns the options that all trials share.
pub(super) fn every_trial() -> String {
    let stores = format!(
        "--store {}, or an address: redis://HOST",
        private_names().join("|")
    );
    format!(
        "\
\x20 {stores:<78} [default: sqlite]
  --json   -q, --quiet   --color auto|always|never   --ascii
"
    )
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
