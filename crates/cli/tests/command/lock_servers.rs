//! Tests of trials on etcd, ZooKeeper and Redlock, with private servers and with the user's own.

#![cfg(all(feature = "etcd", feature = "zookeeper", feature = "redlock"))]

use std::net::TcpListener;

use fencepost_rig::{Etcd, Redis, Zookeeper, resp::Connection};
use serde_json::Value;

use crate::holds::tells;
use crate::interrupt::processes;
use crate::{fencepost, finish, run};

#[test]
fn private_servers_serve_one_run_and_are_gone() {
    for (store, title) in [
        ("redlock", "store redlock (three servers)"),
        ("etcd", "store etcd (three servers)"),
        ("zk", "store zk (a private server)"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let arguments = format!(
            "oversell --store {store} --lock=fenced --stock=2 --concurrency=6 --wait 20000 --delay=20000"
        );
        let output = fencepost(&arguments).env("TMPDIR", folder.path()).output();
        let ran = finish(output.unwrap());
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
        for words in [title, "HELD   2 orders for a stock of 2, and 0 left"] {
            assert!(ran.stdout.contains(words), "{words}: {}", ran.stdout);
        }
        assert_eq!(processes(folder.path()), [] as [i32; 0]);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

/// The whole matrix: what breaks elsewhere breaks there, and nothing else does.
#[test]
fn everything_there_is_as_expected() {
    for (store, verdicts) in [("redlock", 26), ("etcd", 26), ("zk", 33)] {
        let ran = run(&format!("run-all --store {store} --json"));
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
        let document: Value = serde_json::from_str(&ran.stdout).unwrap();
        let counts = (&document["as_expected"], &document["total"]);
        assert_eq!(counts, (&verdicts.into(), &verdicts.into()), "{store}");
        for run in document["runs"].as_array().unwrap() {
            assert_eq!(run["store"], store);
        }
    }
}

/// ZooKeeper ends the session of a holder that is stopped for longer than its timeout, and deletes its node.
#[test]
fn a_session_that_expires_while_its_holder_is_paused_protects_nobody() {
    for lock in ["safe", "late-watch"] {
        tells(
            &format!("trial pause --store zk --lock={lock}"),
            1,
            "… damage N additions acknowledged, the number is N",
        );
    }
    for (lock, held) in [
        (
            "watchdog",
            "… HELD A stopped itself: it wrote nothing after its lock was lost.",
        ),
        (
            "fenced",
            "… HELD No damage: the resource refused A's late write (fence N; it had seen N).",
        ),
    ] {
        tells(&format!("trial pause --store zk --lock={lock}"), 0, held);
    }
}

#[test]
fn a_lock_can_be_named_after_its_servers() {
    for (lock, store) in [
        ("redlock", "redlock"),
        ("etcd", "etcd"),
        ("zookeeper", "zk"),
    ] {
        let ran = run(&format!("crash --lock={lock} --json"));
        assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
        let document: Value = serde_json::from_str(&ran.stdout).unwrap();
        let both = (&document["strategy"], &document["store"]);
        assert_eq!(both, (&"watchdog".into(), &store.into()));
    }
    let ran = run("oversell --lock=etcd --store redis");
    assert_eq!(ran.code, 64);
    assert_eq!(
        ran.stderr,
        "error: etcd is a lock of etcd\n  \
         where     --lock=etcd --store redis\n  \
         effect    none: no process was started\n  \
         try       --lock=etcd      or --lock=etcd --store etcd://[USER:PASSWORD@]HOST,HOST,HOST[/PREFIX] for your own\n"
    );
}

#[test]
fn the_users_redis_servers_are_used_and_left_as_they_were() {
    let servers = [(); 3].map(|()| Redis::start().unwrap());
    let hosts = servers
        .each_ref()
        .map(|server| server.address().to_string());
    let url = format!("redlock://{}", hosts.join(","));
    let mut connections = servers.each_ref().map(|server| {
        let wait = std::time::Duration::from_secs(10);
        let mut connection = Connection::open(server.address(), wait).unwrap();
        connection.ask(&["SET", "mine", "7"]).unwrap();
        connection
    });
    for command in [
        "oversell --lock=watchdog --concurrency=4 --delay=30000",
        "deadlock --lock=fenced --ttl 500",
    ] {
        let ran = run(&format!("{command} --store {url}"));
        assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
        assert!(
            ran.stdout.contains(&format!("store {url}")),
            "{}",
            ran.stdout
        );
    }
    for connection in &mut connections {
        let left = connection.ask(&["KEYS", "*"]).unwrap();
        assert_eq!(format!("{left:?}"), r#"List([Text("mine")])"#);
    }
}

#[test]
fn the_users_etcd_and_zookeeper_are_used() {
    let (etcd, zookeeper) = (Etcd::start().unwrap(), Zookeeper::start().unwrap());
    let url = format!("zk://{}/lab", zookeeper.address());
    for store in [etcd.url(), url] {
        let ran = run(&format!(
            "oversell --lock=safe --concurrency=4 --delay=30000 --store {store}"
        ));
        assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
        assert!(
            ran.stdout.contains(&format!("store {store}")),
            "{}",
            ran.stdout
        );
    }
    let mut left = etcd.etcdctl();
    let left = left.args(["get", "", "--prefix", "--keys-only"]).output();
    let left = left.unwrap();
    assert_eq!(String::from_utf8(left.stdout).unwrap().trim(), "");
}

#[test]
fn servers_that_are_not_there_are_told_before_anything_starts() {
    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .unwrap()
        .port();
    for store in [
        format!("etcd://u:hunter2@127.0.0.1:{port}"),
        format!("zk://u:hunter2@127.0.0.1:{port}"),
        format!("redlock://:hunter2@127.0.0.1:{port},:hunter2@127.0.0.2:{port},127.0.0.3:{port}"),
    ] {
        let ran = run(&format!("crash --store {store}"));
        assert_eq!((ran.code, ran.stdout.as_str()), (69, ""), "{}", ran.stderr);
        assert!(
            ran.stderr.starts_with("error: cannot reach the store\n"),
            "{}",
            ran.stderr
        );
        assert!(ran.stderr.contains("tried for 2.0 s"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
    }
}

#[test]
fn what_these_servers_cannot_do_says_what_can_be_done() {
    for (arguments, code, words) in [
        (
            "oversell --lock=naive --store etcd",
            64,
            "--lock=safe --store etcd      or --lock=naive --store redis",
        ),
        ("crash --ttl 500 --store etcd", 64, "try       --ttl 2000\n"),
        ("crash --ttl 500 --store zk", 64, "try       --ttl 2000\n"),
        (
            "retry --store redlock?restart_delay=soon",
            64,
            "--store 'redlock?restart_delay=30s'",
        ),
        ("crash --store redlock://a,b", 69, "2 servers are too few"),
    ] {
        let ran = run(arguments);
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (code, ""),
            "{}",
            ran.stderr
        );
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
    let empty = tempfile::tempdir().unwrap();
    for (store, words) in [
        ("etcd", "apt-get install etcd-server"),
        ("redlock", "apt-get install redis-server"),
        ("zk", "apt-get install zookeeper"),
    ] {
        let nothing = fencepost(&format!("crash --store {store}"))
            .env("PATH", empty.path())
            .env_remove("JAVA_HOME")
            .output();
        let ran = finish(nothing.unwrap());
        assert_eq!(ran.code, 69, "{}", ran.stderr);
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
}

/// Its predecessor disappears between its lookup and its watch, and it sleeps forever.
#[test]
fn who_looks_before_it_watches_is_not_woken() {
    tells(
        "trial lost-wakeup --lock=late-watch --store zk",
        3,
        "\
trial lost-wakeup A releases the lock just when B is about to wait for it: is B woken?
lock late-watch TTL N ms (not used: no lease) store zk (a private server) seed N

at ms A B
N granted; reads N op N
N step N of N: looks up who is ahead of it
N SIGSTOP: paused
N writes N, releases op N
N SIGCONT: goes on
N gives up after N ms

STUCK Nobody has the lock, and N ms (N × TTL) later B still waits for it.
proof #N N ms B has looked up who is ahead of it, and does not watch yet
#N N ms A's release is done: nobody has the lock
#N N ms B still waits, and gives up
why late-watch looks, then watches: if the one before it goes in between, nothing wakes it.
next fencepost trial lost-wakeup --lock=safe --store zk looks once more when it watches",
    );
}

#[test]
fn everybody_else_is_woken() {
    for store in ["zk", "etcd", "redlock", "redis", "sqlite"] {
        for lock in ["safe", "watchdog", "fenced"] {
            tells(
                &format!("trial lost-wakeup --lock={lock} --store {store}"),
                0,
                "… HELD B was woken: it got the lock that A released.",
            );
        }
    }
}

#[test]
fn what_stands_in_line_at_zookeeper_is_tried_there() {
    let ran = run("trial lost-wakeup --lock=late-watch");
    assert_eq!((ran.code, ran.stdout.as_str()), (64, ""));
    assert_eq!(
        ran.stderr,
        "error: late-watch is a lock of ZooKeeper and runs only there\n  \
         where     --lock=late-watch --store sqlite\n  \
         try       --lock=late-watch --store zk      or --lock help to list all\n"
    );
}
