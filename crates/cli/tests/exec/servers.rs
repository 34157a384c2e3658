//! The same with locks in other servers: two commands take turns, and `locks` sees who holds and who waits.

#![cfg(any(feature = "postgres", feature = "etcd", feature = "zookeeper"))]

use crate::stage::{Stage, until};

fn two_commands_take_turns(store: String) {
    let stage = Stage::with_store(store);
    let script = "echo $FENCEPOST_FENCE; echo > held; while test ! -e go; do sleep 0.01; done";
    let first = stage.shell("--name deploy", script);
    stage.until_lines("held", 1);
    let busy = stage.run(&["exec", "--name", "deploy", "--", "true"]);
    assert_eq!(busy.code(), 75, "{}", busy.stderr);
    let second = stage.shell("--name deploy --wait 60s", "echo $FENCEPOST_FENCE");
    until("it stands in line", || stage.waiting("deploy") == 1);
    std::fs::write(stage.path("go"), "").unwrap();
    let (first, second) = (first.end(), second.end());
    assert_eq!(first.code(), 0, "{}", first.stderr);
    assert_eq!(second.code(), 0, "{}", second.stderr);
    let epoch = |said: &str| {
        said.trim()
            .split('.')
            .next()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    assert!(epoch(&second.stdout) > epoch(&first.stdout));
    stage.until_empty();
}

#[cfg(feature = "postgres")]
#[test]
fn of_postgres() {
    let server = fencepost_rig::Postgres::start().unwrap();
    two_commands_take_turns(server.url());
}

#[cfg(feature = "etcd")]
#[test]
fn of_etcd() {
    let server = fencepost_rig::Etcd::start().unwrap();
    two_commands_take_turns(server.url());
}

#[cfg(feature = "zookeeper")]
#[test]
fn of_zookeeper() {
    let server = fencepost_rig::Zookeeper::start().unwrap();
    two_commands_take_turns(format!("zk://{}", server.address()));
}
