//! Elections beside Curator's `LeaderLatch` and kazoo's `Election`: one leader in all, and each program sees the value of the other's leader.

use std::process::Command;
use std::sync::Arc;

use fencepost::ErrorKind;
use fencepost::kinds::election::{Election, Observed, Observer};
use fencepost::stores::zookeeper::{ElectionLayout, Zookeeper};
use fencepost_rig::{Child, Feed, Output, feed};
use fencepost_store_tests::test_program::{NamedTest, tests};

use crate::interop::{curator_command, kazoo_command, skip};
use crate::support::{BASE, LONG, NAME, SESSION, Server, locker, run, run_within, soon};

pub(crate) const TESTS: &[NamedTest] = tests![
    beside_curator,
    beside_kazoo,
    the_layout_is_a_part_of_the_address,
    candidates_of_the_other_layout_are_no_leaders,
];

async fn open(server: &Server, layout: ElectionLayout) -> Arc<Zookeeper> {
    let address = format!("zk://{}{BASE}", server.0.address());
    let builder = Zookeeper::builder(&address).session_timeout(SESSION);
    Arc::new(builder.election_layout(layout).open().await.unwrap())
}

async fn election(server: &Server, layout: ElectionLayout) -> Election {
    let store = open(server, layout).await;
    locker(&store, SESSION).election(NAME).unwrap()
}

async fn value(observer: &mut Observer) -> String {
    match soon("the next state", observer.next()).await {
        Observed::Leader(leader) => leader.value.to_string(),
        Observed::None => "nobody".to_owned(),
        Observed::Disconnected(error) => panic!("{error}"),
    }
}

fn beside_curator() {
    match curator_command("Latch") {
        Ok((command, _classes)) => beside(&command, ElectionLayout::Curator),
        Err(reason) => skip(&reason),
    }
}

fn beside_kazoo() {
    match kazoo_command("election.py") {
        Ok(command) => beside(&command, ElectionLayout::Kazoo),
        Err(reason) => skip(&reason),
    }
}

/// A candidate in another language.
struct Theirs<'a> {
    child: Child,
    feed: &'a Feed,
}

impl Theirs<'_> {
    /// Returns the next line that says something.
    fn said(&self) -> String {
        loop {
            match self.feed.next(LONG).unwrap().output {
                Output::Line(line) if line == "leading" || line.starts_with("leader ") => {
                    return line;
                }
                Output::Closed => return "closed".to_owned(),
                _ => {}
            }
        }
    }

    fn leader(&mut self) -> String {
        self.child.send(&"leader").unwrap();
        self.said()
    }

    fn resign(&mut self) {
        self.child.send(&"resign").unwrap();
    }
}

/// Copies a command, with arguments for this server.
fn candidate(command: &Command, server: &Server, value: &str) -> Command {
    let mut theirs = Command::new(command.get_program());
    theirs.args(command.get_args());
    for (name, value) in command.get_envs() {
        theirs.env(name, value.unwrap_or_default());
    }
    theirs.arg(server.0.address().to_string());
    theirs.arg(format!("{BASE}/{NAME}")).arg(value);
    theirs
}

fn beside(command: &Command, layout: ElectionLayout) {
    run_within(4 * LONG, async {
        let server = Server::start();
        let ours = election(&server, layout).await;
        let mut observer = ours.observe().unwrap();
        assert_eq!(value(&mut observer).await, "nobody");
        let (feed, sender) = feed();
        let child = Child::spawn(candidate(command, &server, "theirs"), 0, &sender).unwrap();
        let mut theirs = Theirs { child, feed: &feed };
        assert_eq!(theirs.said(), "leading");
        assert_eq!(value(&mut observer).await, "theirs");
        assert!(ours.try_campaign("ours").await.unwrap().is_none());
        let leader = ours.leader().await.unwrap().unwrap();
        let campaign = tokio::spawn({
            let ours = ours.clone();
            async move { ours.campaign("ours").await.unwrap() }
        });
        server.eyes().await.wait_for_line(2).await;
        assert_eq!(theirs.leader(), "leader theirs");
        theirs.resign();
        let leadership = soon("our turn", campaign).await.unwrap();
        assert!(leadership.term() > leader.term);
        while value(&mut observer).await != "ours" {}
        theirs.child.wait(LONG).unwrap();

        let (feed, sender) = fencepost_rig::feed();
        let child = Child::spawn(candidate(command, &server, "next"), 1, &sender).unwrap();
        let mut next = Theirs { child, feed: &feed };
        server.eyes().await.wait_for_line(2).await;
        assert_eq!(next.leader(), "leader ours", "it sees our value");
        match layout {
            ElectionLayout::Kazoo => {
                leadership.proclaim("changed").await.unwrap();
                assert_eq!(next.leader(), "leader changed");
                while value(&mut observer).await != "changed" {}
            }
            ElectionLayout::Curator => {
                // Otherwise the candidate in line would never learn that we have resigned.
                let error = leadership.proclaim("changed").await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            }
        }
        assert!(leadership.resign().await.is_released());
        assert_eq!(next.said(), "leading");
        assert_eq!(next.leader(), "leader next");
        while value(&mut observer).await != "next" {}
        next.resign();
        while value(&mut observer).await != "nobody" {}
        next.child.wait(LONG).unwrap();
    });
}

fn the_layout_is_a_part_of_the_address() {
    run(async {
        let server = Server::start();
        for (parameter, form) in [
            ("", "-latch-"),
            ("?election=curator", "-latch-"),
            ("?election=kazoo", "__lock__"),
        ] {
            let address = format!("zk://{}{BASE}{parameter}", server.0.address());
            let store = Arc::new(Zookeeper::open(&address).await.unwrap());
            let election = locker(&store, SESSION).election(NAME).unwrap();
            let leadership = election.campaign("v").await.unwrap();
            let line = server.eyes().await.line().await;
            assert!(line.len() == 1 && line[0].contains(form), "{line:?}");
            assert!(leadership.resign().await.is_released());
        }
    });
}

fn candidates_of_the_other_layout_are_no_leaders() {
    run(async {
        let server = Server::start();
        let curators = election(&server, ElectionLayout::Curator).await;
        let kazoos = election(&server, ElectionLayout::Kazoo).await;
        let leadership = curators.campaign("curator").await.unwrap();
        assert_eq!(kazoos.leader().await.unwrap(), None);
        // Ours exclude each other even so.
        assert!(kazoos.try_campaign("kazoo").await.unwrap().is_none());
        let name = NAME.try_into().unwrap();
        let record = curators.backend().inspect(&name).await.unwrap().unwrap();
        assert_eq!(&*record.holder.unwrap().label, "curator");
        assert!(leadership.resign().await.is_released());
    });
}
