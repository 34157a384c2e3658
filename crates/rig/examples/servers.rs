//! One server of each kind that takes long to start, for tests that can share them, and a template for those that cannot:
//! `NAME=ADDRESS` for each, then an empty line. They live until the input ends.
//!
//! What is not installed is left out: the tests then say so themselves.

use std::io::{Read, Write};

use fencepost_rig::{Etcd, Postgres, PostgresTemplate, ServerError, Zookeeper};

fn main() -> std::io::Result<()> {
    // Started one after the other: together they would take as long, on few cores.
    // No test lets the machine itself crash, and on a disk that is busy with a build a flush takes seconds.
    let postgres = started(Postgres::start_with(&["fsync=off"]));
    let etcd = started(Etcd::start());
    let zookeeper = started(Zookeeper::start());
    let template = started(PostgresTemplate::make());
    let template = template.as_ref().map(PostgresTemplate::variable);
    let addresses = [
        (
            "FENCEPOST_SHARED_POSTGRES",
            postgres.as_ref().map(Postgres::url),
        ),
        ("FENCEPOST_SHARED_ETCD", etcd.as_ref().map(Etcd::url)),
        (
            "FENCEPOST_SHARED_ZK",
            zookeeper
                .as_ref()
                .map(|server| server.address().to_string()),
        ),
    ];
    let mut out = std::io::stdout().lock();
    let named = |(name, address): (_, Option<String>)| Some((name, address?));
    for (name, address) in addresses.into_iter().filter_map(named).chain(template) {
        writeln!(out, "{name}={address}")?;
    }
    writeln!(out)?;
    out.flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn started<S>(server: Result<S, ServerError>) -> Option<S> {
    server
        .inspect_err(|error| eprintln!("not started: {error}"))
        .ok()
}
