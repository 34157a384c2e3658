//! Elections beside `etcdctl elect`: one leader in all, and each program sees the value of the other's leader.

use std::process::Command;
use std::time::Duration;

use fencepost::kinds::election::{Election, Observed, Observer};
use fencepost_rig::{Child, Etcd, Feed, Output, Signal, feed};
use fencepost_store_tests::test_program::{NamedTest, tests};

use crate::support::{LONG, NAME, Plain, locker, open, run, soon, until_waiting};

pub(crate) const TESTS: &[NamedTest] = tests![
    beside_etcdctl,
    what_etcdctl_observes,
    a_longer_lease_keeps_the_value,
    a_key_that_is_no_candidate_is_no_leader,
];

/// Starts `etcdctl elect` with these arguments.
fn etcdctl(server: &Etcd, arguments: &[&str]) -> Command {
    let mut command = Command::new("etcdctl");
    command.env("ETCDCTL_API", "3");
    command.arg(format!("--endpoints={}", server.address()));
    command.arg("elect").args(arguments);
    command
}

fn line(feed: &Feed) -> String {
    match feed.next(LONG).unwrap().output {
        Output::Line(line) => line,
        Output::TooLong(_) | Output::Closed => "closed".to_owned(),
    }
}

async fn election(url: &str) -> Election {
    let store = open(url).await;
    locker(&store, LONG).election(NAME).unwrap()
}

async fn value(observer: &mut Observer) -> String {
    match soon("the next state", observer.next()).await {
        Observed::Leader(leader) => leader.value.to_string(),
        Observed::None => "nobody".to_owned(),
        Observed::Disconnected(error) => panic!("{error}"),
    }
}

fn beside_etcdctl() {
    run(async {
        let server = Etcd::start().unwrap();
        let election = election(&server.url()).await;
        let mut observer = election.observe().unwrap();
        assert_eq!(value(&mut observer).await, "nobody");
        let (feed, sender) = feed();
        let mut theirs = Child::spawn(etcdctl(&server, &[NAME, "theirs"]), 0, &sender).unwrap();
        let key = line(&feed);
        assert!(key.starts_with(&format!("{NAME}/")), "{key}");
        assert_eq!(line(&feed), "theirs");
        assert_eq!(value(&mut observer).await, "theirs");
        assert!(election.try_campaign("ours").await.unwrap().is_none());
        let leader = election.leader().await.unwrap().unwrap();
        let campaign = tokio::spawn({
            let election = election.clone();
            async move { election.campaign("ours").await.unwrap() }
        });
        let store = election.backend().clone();
        until_waiting(&store, 1).await;
        theirs.signal(Signal::SIGINT).unwrap();
        let ours = soon("our turn", campaign).await.unwrap();
        assert!(ours.term() > leader.term);
        while value(&mut observer).await != "ours" {}
        theirs.wait(LONG).unwrap();

        let mut next = Child::spawn(etcdctl(&server, &[NAME, "next"]), 1, &sender).unwrap();
        until_waiting(&store, 1).await;
        assert!(next.status().is_none(), "it waits for us");
        assert!(ours.resign().await.is_released());
        while line(&feed) != "next" {}
        let last = election.leader().await.unwrap().unwrap();
        assert_eq!(&*last.value, "next");
        next.signal(Signal::SIGINT).unwrap();
        next.wait(LONG).unwrap();
        while value(&mut observer).await != "nobody" {}
        assert_eq!(Plain::open(server.address()).await.keys("").await, [""; 0]);
    });
}

fn what_etcdctl_observes() {
    run(async {
        let server = Etcd::start().unwrap();
        let election = election(&server.url()).await;
        let leadership = election.campaign("first").await.unwrap();
        let (feed, sender) = feed();
        let observing = etcdctl(&server, &["--listen", NAME]);
        let mut theirs = Child::spawn(observing, 0, &sender).unwrap();
        let seen = || {
            let key = line(&feed);
            assert!(key.starts_with(&format!("{NAME}/")), "{key}");
            line(&feed)
        };
        assert_eq!(seen(), "first", "the value alone");
        leadership.proclaim("second").await.unwrap();
        assert_eq!(seen(), "second");
        assert!(leadership.resign().await.is_released());
        let leadership = election.campaign("third").await.unwrap();
        assert_eq!(seen(), "third");
        theirs.signal(Signal::SIGINT).unwrap();
        theirs.wait(LONG).unwrap();
        drop(leadership);
    });
}

/// A candidate that waits has a short lease. When it leads, its key moves to a longer one, whatever its value is by then.
fn a_longer_lease_keeps_the_value() {
    run(async {
        let server = Etcd::start().unwrap();
        let [one, two] = [election(&server.url()).await, election(&server.url()).await];
        let first = one.campaign("one").await.unwrap();
        let second = tokio::spawn(async move { two.campaign("two").await.unwrap() });
        until_waiting(one.backend(), 1).await;
        assert!(first.resign().await.is_released());
        let second = soon("its turn", second).await.unwrap();
        second.proclaim("changed").await.unwrap();
        let left = async || {
            let record = one.backend().inspect(one.name()).await.unwrap();
            record.unwrap().holder.unwrap().ttl_left.unwrap()
        };
        fencepost_store_tests::eventually("a longer lease", async || {
            left().await > Duration::from_secs(30)
        })
        .await;
        let leader = one.leader().await.unwrap().unwrap();
        assert_eq!((&*leader.value, leader.term), ("changed", second.term()));
        let record = one.backend().inspect(one.name()).await.unwrap();
        assert_eq!(&*record.unwrap().holder.unwrap().label, "changed");
        assert!(second.resign().await.is_released());
    });
}

fn a_key_that_is_no_candidate_is_no_leader() {
    run(async {
        let server = Etcd::start().unwrap();
        let election = election(&server.url()).await;
        let store = open(&server.url()).await;
        let guard = locker(&store, LONG).acquire(NAME).await.unwrap();
        assert_eq!(election.leader().await.unwrap(), None);
        assert!(guard.release().await.is_released());
        // A key of the election below this one.
        let mut plain = Plain::open(server.address()).await;
        plain.put(&format!("{NAME}/below/12ab"), "another").await;
        assert_eq!(election.leader().await.unwrap(), None);
    });
}
