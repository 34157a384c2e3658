//! Tests of `doctor` on etcd.

use std::net::TcpListener;

use fencepost_rig::{Etcd, EtcdCluster, Signal};

use super::Seen;
use crate::interrupt::until;
use crate::run;

/// Returns the problems other than the version, which on some systems has a bug of its own.
fn troubles(seen: &Seen) -> Vec<String> {
    let all = seen.troubles().into_iter();
    all.filter(|found| found != "caution version").collect()
}

fn tell(command: &mut std::process::Command, words: &str) {
    let output = command.args(words.split(' ')).output().unwrap();
    assert!(output.status.success(), "{words}: {output:?}");
}

#[test]
fn a_cluster_with_nothing_the_matter_is_fine() {
    let cluster = EtcdCluster::start(3).unwrap();
    let seen = Seen::at(&format!("{}/locks", cluster.url()));
    assert_eq!(troubles(&seen), [] as [&str; 0], "{}", seen.ran.stdout);
    seen.says("3 of 3 servers answer, without a user");
    seen.says("3 members, 1 may fail");
    seen.says("leases of 2 s and more");
    let keys = cluster
        .etcdctl()
        .args(["get", "--prefix", "", "-w", "json"])
        .output()
        .unwrap();
    let keys = String::from_utf8(keys.stdout).unwrap();
    assert!(
        !keys.contains("kvs") && keys.contains(r#""revision":1,"#),
        "{keys}"
    );
    let leases = cluster.etcdctl().args(["lease", "list"]).output().unwrap();
    assert!(
        String::from_utf8(leases.stdout)
            .unwrap()
            .contains("found 0 leases")
    );
    // The address names one of three servers. The cluster survives the loss of that one.
    let seen = Seen::at(&cluster.members()[0].url());
    assert_eq!(troubles(&seen), ["caution address"]);
    seen.says("the address names 1 of 3 members");
}

#[test]
fn one_member_less_is_a_caution_and_two_are_the_end() {
    let mut cluster = EtcdCluster::start(3).unwrap();
    let gone = (cluster.leader().unwrap() + 1) % 3;
    cluster.member(gone).crash();
    let seen = Seen::at(&cluster.url());
    assert_eq!(troubles(&seen), ["caution members"], "{}", seen.ran.stdout);
    seen.says("2 of 3 servers answer");
    seen.says("2 of 3 members answer; no answer from ");
    seen.says("If another one fails");
    assert_eq!(seen.finding("members")["figures"]["answering"], 2);
    cluster.member((gone + 1) % 3).crash();
    let last = cluster.members()[(gone + 2) % 3].url();
    // The last server notices after an election timeout.
    until("it knows no leader", || {
        run(&format!("doctor --store {last}"))
            .stdout
            .contains("no leader")
    });
    let seen = Seen::at(&cluster.url());
    assert_eq!(seen.ran.code, 2);
    assert_eq!(seen.finding("leader")["severity"], "danger");
    assert!(
        seen.ran.stdout.ends_with(": no lock can be taken here.\n"),
        "{}",
        seen.ran.stdout
    );
}

#[test]
fn one_server_alone_and_one_that_is_full() {
    let server = Etcd::builder()
        .arguments(["--quota-backend-bytes=1000000", "--election-timeout=9000"])
        .start()
        .unwrap();
    let seen = Seen::at(&server.url());
    assert_eq!(
        troubles(&seen),
        ["caution members", "caution leases"],
        "{}",
        seen.ran.stdout
    );
    seen.says("one member: no other has a copy of its data");
    seen.says("no lease is shorter than 14 s");
    let big = "x".repeat(100_000);
    until("it is full", || {
        let put = server
            .etcdctl()
            .args(["put", "big", &big])
            .output()
            .unwrap();
        !put.status.success()
    });
    let seen = Seen::at(&server.url());
    assert_eq!(seen.ran.code, 2);
    assert!(
        troubles(&seen).contains(&"danger alarm".to_owned()),
        "{}",
        seen.ran.stdout
    );
    seen.says("NOSPACE: the store is full");
    seen.says("do: etcdctl compact, defrag, then alarm disarm");
}

#[test]
fn users_and_their_rights() {
    let server = Etcd::start().unwrap();
    for words in [
        "user add root:secret",
        "user grant-role root root",
        "user add shop:hunter2",
        "role add shop",
        "role grant-permission shop --prefix=true readwrite locks/",
        "user grant-role shop shop",
        "user add eyes:hunter2",
        "role add eyes",
        "role grant-permission eyes --prefix=true read locks/",
        "user grant-role eyes eyes",
        "auth enable",
    ] {
        tell(&mut server.etcdctl(), words);
    }
    let seen = Seen::at(&server.url().replace("//", "//shop:hunter2@").replace(
        &server.address().to_string(),
        &format!("{}/locks", server.address()),
    ));
    assert_eq!(troubles(&seen), ["caution members"], "{}", seen.ran.stdout);
    seen.says("as user shop");
    let seen = Seen::at(&format!("etcd://eyes:hunter2@{}/locks", server.address()));
    assert_eq!(troubles(&seen), ["danger rights", "caution members"]);
    seen.says("user eyes may not write keys below locks/");
    let ran = run(&format!(
        "doctor --store etcd://shop:hunter3@{}",
        server.address()
    ));
    assert_eq!((ran.code, ran.stdout.as_str()), (69, ""), "{}", ran.stderr);
    assert!(
        ran.stderr.starts_with("error: cannot use the store\n"),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains("hunter3"));
}

#[test]
fn servers_of_two_clusters() {
    let (one, other) = (Etcd::start().unwrap(), Etcd::start().unwrap());
    let seen = Seen::at(&format!("etcd://{},{}", one.address(), other.address()));
    assert_eq!(seen.ran.code, 2);
    assert!(
        troubles(&seen).contains(&"danger cluster".to_owned()),
        "{}",
        seen.ran.stdout
    );
}

#[test]
fn members_that_do_not_answer() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let ran = run(&format!("doctor --store etcd://shop:hunter2@{address}"));
    assert_eq!((ran.code, ran.stdout.as_str()), (69, ""), "{}", ran.stderr);
    assert!(
        ran.stderr.starts_with("error: cannot reach the store\n"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("none: nothing was examined"));
    assert!(!ran.stderr.contains("hunter2"));
    let server = Etcd::start().unwrap();
    server.signal(Signal::SIGSTOP).unwrap();
    let ran = run(&format!("doctor --store {}", server.url()));
    assert_eq!((ran.code, ran.stdout.as_str()), (69, ""), "{}", ran.stderr);
    let ran = run("doctor --store etcd://u:hunter2@");
    assert_eq!(ran.code, 64, "{}", ran.stderr);
}
