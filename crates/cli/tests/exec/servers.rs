//! Tests of `exec` and `locks` on the other servers: two commands take turns, and `locks` shows holders and waiters.

#![cfg(any(
    feature = "postgres",
    feature = "etcd",
    feature = "zookeeper",
    feature = "redlock"
))]

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

/// An operator who is asked to stop a program must see which one it is.
#[cfg(feature = "postgres")]
#[test]
fn a_program_of_the_other_kind_is_seen_though_no_lock_is_granted_beside_it() {
    let server = fencepost_rig::Postgres::start().unwrap();
    let other = Stage::with_store(format!("{}?fence=transaction-id", server.url()));
    let script = "echo > held; while test ! -e go; do sleep 0.01; done";
    let holder = other.shell("--name deploy", script);
    other.until_lines("held", 1);
    let stage = Stage::with_store(server.url());
    let refused = stage.run(&["exec", "--name", "other", "--", "true"]);
    assert_eq!(refused.code(), 69, "{}", refused.stderr);
    let listed = stage.run(&["locks", "list"]);
    assert_eq!(listed.code(), 0, "{}", listed.stderr);
    assert!(listed.stdout.contains("deploy"), "{}", listed.stdout);
    let shown = stage.run(&["locks", "show", "deploy"]);
    assert_eq!(shown.code(), 0, "{}", shown.stderr);
    let pid = holder.pid().to_string();
    assert!(shown.stdout.contains(&pid), "{pid}: {}", shown.stdout);
    std::fs::write(other.path("go"), "").unwrap();
    let holder = holder.end();
    assert_eq!(holder.code(), 0, "{}", holder.stderr);
}

/// The first command that locks creates the tables, but only on request. A command that only looks creates nothing.
#[cfg(feature = "postgres")]
#[test]
fn of_a_table_that_is_made_when_it_is_asked_for() {
    let server = fencepost_rig::Postgres::start().unwrap();
    let with = |parameters: &str| Stage::with_store(format!("{}?{parameters}", server.url()));
    let list: &[&str] = &["locks", "list"];
    let release: &[&str] = &["locks", "release", "deploy", "--yes"];
    let exec: &[&str] = &["exec", "--name", "deploy", "--", "true"];
    let missing = |parameters: &str, command: &[&str]| {
        let refused = with(parameters).run(command);
        assert_eq!(refused.code(), 69, "{}", refused.stderr);
        let way = "say create=true in the address";
        assert!(refused.stderr.contains(way), "{}", refused.stderr);
    };
    for first in [list, release, exec] {
        missing("table=shedlock", first);
        let wrong = with("table=shedlock&create=maybe").run(first);
        assert_eq!(wrong.code(), 64, "{}", wrong.stderr);
        let without = with("create=true").run(first);
        assert_eq!(without.code(), 64, "{}", without.stderr);
    }
    for looks in [list, release] {
        missing("table=shedlock&create=true", looks);
    }
    let made = with("table=shedlock&create=true").run(exec);
    assert_eq!(made.code(), 0, "{}", made.stderr);
    let there = with("table=shedlock").run(list);
    assert_eq!(there.code(), 0, "{}", there.stderr);
    two_commands_take_turns(format!("{}?table=shedlock&create=true", server.url()));
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
    // Longer than a default session, and longer than this server allows.
    let stage = Stage::with_store(format!("zk://{}", server.address()));
    let with_ttl = |ttl| stage.run(&["exec", "--name", "long", "--ttl", ttl, "--", "true"]);
    let longer = with_ttl("20s");
    assert_eq!(longer.code(), 0, "{}", longer.stderr);
    let too_long = with_ttl("12h");
    assert_eq!(too_long.code(), 64, "{}", too_long.stderr);
    assert!(
        too_long.stderr.contains("maxSessionTimeout"),
        "{}",
        too_long.stderr
    );
}

/// An address that can never work is not reported as an unavailable store.
#[cfg(all(feature = "redlock", feature = "etcd", feature = "zookeeper"))]
#[test]
fn an_address_that_cannot_be_is_an_error_of_usage() {
    for store in [
        "redlock://a,b,c?restart_delay=30",
        "etcd://",
        "etcds://",
        "zk://h/a//b",
    ] {
        let stage = Stage::with_store(store.to_owned());
        for arguments in [
            &["locks", "list"][..],
            &["exec", "--name", "x", "--", "true"],
            &["doctor"],
        ] {
            let ran = stage.run(arguments);
            assert_eq!(ran.code(), 64, "{store} {arguments:?}: {}", ran.stderr);
        }
    }
    let ran = Stage::with_store("redlock://a b".to_owned()).run(&["doctor"]);
    let form = "try       redlock://[USER:PASSWORD@]HOST,HOST,HOST";
    assert!(ran.stderr.contains(form), "{}", ran.stderr);
}

#[cfg(feature = "redlock")]
mod of_redlock {
    use std::io::{BufRead, BufReader};

    use fencepost_rig::Redis;
    use serde_json::Value;

    use super::*;

    fn servers() -> ([Redis; 3], String) {
        let servers = [(); 3].map(|()| Redis::start().unwrap());
        let hosts = servers
            .each_ref()
            .map(|server| server.address().to_string());
        let address = format!("redlock://{}", hosts.join(","));
        (servers, address)
    }

    const HOLD: &str =
        "echo $FENCEPOST_FENCE; echo > held; while test ! -e go; do sleep 0.01; done";

    /// One of the servers dies meanwhile, and nobody notices. There is no line, and the output mentions none.
    #[test]
    fn two_commands_take_turns_and_one_server_dies() {
        let (mut servers, address) = servers();
        let stage = Stage::with_store(address);
        let first = stage.shell("--name deploy", HOLD);
        stage.until_lines("held", 1);
        servers[0].crash();
        let busy = stage.run(&["exec", "--name", "deploy", "--", "true"]);
        assert_eq!(busy.code(), 75, "{}", busy.stderr);
        let waits = ["exec", "--name", "deploy", "--wait", "60s", "--"];
        let mut second =
            stage.fencepost(&[&waits[..], &["sh", "-c", "echo $FENCEPOST_FENCE"]].concat());
        second.stderr(std::process::Stdio::piped());
        second.stdout(std::process::Stdio::piped());
        let mut second = second.spawn().unwrap();
        let mut said = String::new();
        let mut stderr = BufReader::new(second.stderr.take().unwrap());
        stderr.read_line(&mut said).unwrap();
        assert!(said.contains("; there is no line"), "{said}");
        std::fs::write(stage.path("go"), "").unwrap();
        let first = first.end();
        assert_eq!(first.code(), 0, "{}", first.stderr);
        let second = second.wait_with_output().unwrap();
        assert!(second.status.success());
        let fence = |said: &str| said.trim().parse::<fencepost::Fence>().unwrap();
        let second = String::from_utf8(second.stdout).unwrap();
        assert!(fence(&second) > fence(&first.stdout), "{second}");
        stage.until_empty();
    }

    #[test]
    fn a_hold_is_listed_shown_and_ended() {
        let (_servers, address) = servers();
        let stage = Stage::with_store(address.clone());
        let play = stage.shell("--name deploy --ttl 60s --grace 100ms", HOLD);
        stage.until_lines("held", 1);
        let listed = stage.run(&["locks", "list", "--json"]);
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
        assert_eq!(listed["store"], address);
        assert_eq!(listed["locks"][0]["name"], "deploy");
        assert_eq!(listed["locks"][0]["waiting"], Value::Null);
        let listed = stage.run(&["locks", "list"]).stdout;
        assert!(listed.contains(" ?  "), "{listed}");
        let shown = stage.run(&["locks", "show", "deploy"]).stdout;
        assert!(shown.contains("held by"), "{shown}");
        assert!(shown.contains("these servers have no queue"), "{shown}");
        let released = stage.run(&["locks", "release", "deploy", "--yes"]);
        assert_eq!(released.code(), 0, "{}", released.stderr);
        let shown = stage.run(&["locks", "show", "deploy"]);
        assert_eq!(shown.code(), 1, "{}", shown.stdout);
        drop(play);
    }

    #[test]
    fn what_cannot_be_used_is_told() {
        let (mut servers, address) = servers();
        let stage = Stage::with_store(address.clone());
        servers[0].crash();
        servers[2].crash();
        let ran = stage.run(&["exec", "--name", "deploy", "--", "true"]);
        assert_eq!(ran.code(), 69, "{}", ran.stderr);
        let said = "2 of 3 servers cannot be asked, and 2 must agree";
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
        let two = address.rsplit_once(',').unwrap().0.to_owned();
        let ran = Stage::with_store(two).run(&["locks", "list"]);
        assert_eq!(ran.code(), 64, "{}", ran.stderr);
        assert!(
            ran.stderr.contains("2 servers are too few"),
            "{}",
            ran.stderr
        );
    }
}
