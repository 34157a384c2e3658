//! Mutual exclusion with `etcdctl lock`, which runs in separate processes.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fencepost::Backend;
use fencepost_rig::{Child, Output, feed};

use crate::actor::{At, Count, Part, Task};
use crate::support::{
    LONG, NAME, Plain, is_soak, locker, open, released, run, run_within, soon, until_waiting,
};

/// Returns a shell command that runs `script` under `etcdctl lock` this many times.
fn etcdctl_lock(server: &fencepost_rig::Etcd, script: &str, turns: u64) -> Command {
    let mut command = Command::new("sh");
    let looping = r#"for turn in $(seq "$1"); do etcdctl --endpoints="$2" lock -- "$3" sh -c "$4" || exit 1; done"#;
    command
        .env("ETCDCTL_API", "3")
        .args(["-c", looping, "sh", &turns.to_string()])
        .args([&server.address().to_string(), NAME, script]);
    command
}

pub(crate) fn excludes_and_is_excluded() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let store = open(&server.url()).await;
        let locker = locker(&store, LONG);
        let (feed, sender) = feed();
        let heard = || match feed.next(LONG).unwrap().output {
            Output::Line(line) => line,
            Output::TooLong(_) | Output::Closed => "closed".to_owned(),
        };
        // It holds the lock until a file appears, because a program under etcdctl has no input.
        let folder = fencepost_rig::folder().unwrap();
        let sign = folder.path().join("go-on");
        let wait = format!("while ! [ -e '{}' ]; do sleep 0.02; done", sign.display());
        let script = etcdctl_lock(&server, &format!("echo held; {wait}; echo done"), 1);
        let mut theirs = Child::spawn(script, 0, &sender).unwrap();
        assert_eq!(heard(), "held");
        assert!(locker.try_acquire(NAME).await.unwrap().is_none());
        let record = store
            .inspect(&NAME.try_into().unwrap())
            .await
            .unwrap()
            .unwrap();
        let holder = record.holder.unwrap();
        assert_eq!((holder.owner, holder.epoch), (None, None));
        assert!(holder.ttl_left <= Some(Duration::from_secs(10)));
        let listed = store.list(Some("*")).await.unwrap();
        assert_eq!(listed.len(), 1);
        assert!(
            store.list(None).await.unwrap().is_empty(),
            "not one of ours"
        );
        let waiting = tokio::spawn({
            let locker = locker.clone();
            async move { locker.acquire(NAME).await }
        });
        until_waiting(&store, 1).await;
        assert!(!waiting.is_finished());
        std::fs::write(&sign, "").unwrap();
        assert_eq!(heard(), "done");
        let guard = soon("the lock", waiting).await.unwrap().unwrap();

        let script = etcdctl_lock(&server, "echo held", 1);
        let mut theirs_again = Child::spawn(script, 1, &sender).unwrap();
        until_waiting(&store, 1).await;
        assert!(theirs_again.status().is_none());
        released(guard).await;
        loop {
            match heard().as_str() {
                "held" => break,
                "closed" => {}
                other => panic!("{other}"),
            }
        }
        assert!(theirs_again.wait(LONG).unwrap().success());
        assert!(theirs.wait(LONG).unwrap().success());
        no_key_is_left(&server).await;
    });
}

/// Two shells with etcdctl and two of our processes add to one number in a file that only the lock protects.
pub(crate) fn counters_are_exact() {
    let turns = if is_soak() { 500 } else { 100 };
    let longest = if is_soak() { 20 * LONG } else { 4 * LONG };
    run_within(longest, async move {
        let server = fencepost_rig::Etcd::start().unwrap();
        let store = open(&server.url()).await;
        let held = locker(&store, LONG).acquire(NAME).await.unwrap();
        let folder = fencepost_rig::folder().unwrap();
        let file = folder.path().join("count");
        std::fs::write(&file, "0\n").unwrap();
        let file = file.to_str().unwrap();
        let script = format!("n=$(cat '{file}'); echo $((n + 1)) > '{file}'");
        let (_feed, sender) = feed();
        let ours = Part {
            store: At(server.url()),
            ttl: Duration::from_secs(10),
            task: Task::Verb(Count {
                file: file.to_owned(),
                turns,
            }),
        };
        let mut children = vec![ours.start(0, &sender), ours.start(1, &sender)];
        for id in 2..4 {
            let command = etcdctl_lock(&server, &script, turns);
            children.push(Child::spawn(command, id, &sender).unwrap());
        }
        // All start together.
        until_waiting(&store, 4).await;
        let started = Instant::now();
        released(held).await;
        for child in &mut children {
            let status = until_ended(child, longest).await;
            assert!(status.success(), "{status}: {:#?}", child.last_words());
        }
        let counted = std::fs::read_to_string(Path::new(file)).unwrap();
        println!(
            "interop: etcdctl and ours counted {} in {:?}",
            counted.trim(),
            started.elapsed()
        );
        assert_eq!(counted.trim(), (4 * turns).to_string());
        no_key_is_left(&server).await;
    });
}

/// Leases are not checked, because `etcdctl lock` leaves its leases to expire.
async fn no_key_is_left(server: &fencepost_rig::Etcd) {
    let keys = Plain::open(server.address()).await.keys("").await;
    assert_eq!(keys, [""; 0]);
}

async fn until_ended(child: &mut Child, longest: Duration) -> std::process::ExitStatus {
    let started = Instant::now();
    loop {
        if let Some(status) = child.status() {
            return status;
        }
        assert!(started.elapsed() < longest, "it was to end");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
