//! Tests of `doctor` on ZooKeeper.

use std::net::TcpListener;

use fencepost_rig::{Zookeeper, ZookeeperEnsemble};

use super::Seen;
use crate::interrupt::until;
use crate::{fencepost, run};

fn url(server: &Zookeeper) -> String {
    format!("zk://{}", server.address())
}

#[test]
fn an_ensemble_with_nothing_the_matter_is_fine_and_one_server_less_is_a_caution() {
    let mut ensemble = ZookeeperEnsemble::start().unwrap();
    let hosts: Vec<String> = ensemble
        .servers
        .iter()
        .map(|server| server.address().to_string())
        .collect();
    let all = format!("zk://{}/locks", hosts.join(","));
    let seen = Seen::at(&all);
    assert_eq!(seen.ran.code, 0, "{}", seen.ran.stdout);
    assert_eq!(
        seen.troubles(),
        ["unknown disk"],
        "mntr is not allowed by default"
    );
    seen.says("4lw.commands.whitelist=srvr,mntr in zoo.cfg");
    seen.says("3 of 3 servers answer, without a user");
    seen.says("3 servers, 1 may fail");
    seen.says("sessions of 1.0 s or less to 120.0 s");
    seen.says("rights below /");
    let seen = Seen::at(&format!("zk://{}", hosts[0]));
    assert_eq!(seen.troubles(), ["caution address", "unknown disk"]);
    ensemble.servers[0].crash();
    let seen = Seen::at(&all);
    assert_eq!(
        seen.troubles(),
        ["caution members", "unknown disk"],
        "{}",
        seen.ran.stdout
    );
    seen.says("2 of 3 servers answer; no answer from ");
    seen.says("If another one fails");
    ensemble.servers[1].crash();
    let last = format!("zk://{}", hosts[2]);
    until("the last one has no majority", || {
        run(&format!("doctor --store {last}"))
            .stdout
            .contains("no majority")
    });
    let seen = Seen::at(&all);
    assert_eq!(
        (seen.ran.code, seen.troubles()[0].as_str()),
        (2, "danger leader")
    );
    assert!(seen.ran.stdout.ends_with(": no lock can be taken here.\n"));
}

#[test]
fn one_server_alone_which_tells_more() {
    let settings = ["4lw.commands.whitelist=*", "maxSessionTimeout=4000"];
    let server = Zookeeper::start_with(&settings).unwrap();
    let seen = Seen::at(&url(&server));
    assert_eq!(
        seen.troubles(),
        ["danger sessions", "caution members"],
        "{}",
        seen.ran.stdout
    );
    seen.says("a single server: no other has a copy of its data");
    seen.says("maxSessionTimeout is less than the default TTL of 10.0 s");
    seen.says("slowest write to the disk");
    assert_eq!(seen.finding("sessions")["figures"]["most_ms"], 4000);
    let server = Zookeeper::start_with(&[
        "minSessionTimeout=30000",
        "4lw.commands.whitelist=srvr,mntr",
    ])
    .unwrap();
    let seen = Seen::at(&url(&server));
    assert_eq!(
        seen.troubles(),
        ["caution members", "caution sessions"],
        "{}",
        seen.ran.stdout
    );
    seen.says("minSessionTimeout is more than the default TTL");
}

#[test]
fn nodes_that_others_own() {
    let server = Zookeeper::start().unwrap();
    // Nodes that a user creates are private to that user.
    let owner = format!("zk://shop:hunter2@{}/shop", server.address());
    // The server removes the node when nothing is below it any more.
    let held = format!("exec --name x --store {owner} -- sleep 600");
    let mut holder = fencepost(&held).spawn().unwrap();
    until("the node is there", || {
        run(&format!("doctor --store {owner}"))
            .stdout
            .contains("rights below /shop")
    });
    let seen = Seen::at(&owner);
    assert_eq!(
        seen.troubles(),
        ["caution members", "unknown disk"],
        "{}",
        seen.ran.stdout
    );
    let seen = Seen::at(&format!("zk://{}/shop", server.address()));
    assert_eq!(seen.ran.code, 2);
    assert_eq!(seen.troubles()[0], "danger rights");
    seen.says("this user may not list nodes below /shop");
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn servers_of_two_ensembles() {
    let (one, other) = (Zookeeper::start().unwrap(), Zookeeper::start().unwrap());
    let seen = Seen::at(&format!("zk://{},{}", one.address(), other.address()));
    assert_eq!(
        (seen.ran.code, seen.troubles()[0].as_str()),
        (2, "danger members")
    );
    seen.says("they belong to different ensembles");
}

#[test]
fn members_that_do_not_answer() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let ran = run(&format!("doctor --store zk://shop:hunter2@{address}"));
    assert_eq!((ran.code, ran.stdout.as_str()), (69, ""), "{}", ran.stderr);
    assert!(
        ran.stderr.starts_with("error: cannot reach the store\n"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("none: nothing was examined"));
    assert!(!ran.stderr.contains("hunter2"));
    let ran = run("doctor --store zk://u:hunter2@");
    assert_eq!(ran.code, 64, "{}", ran.stderr);
    assert!(!ran.stderr.contains("hunter2"));
}
