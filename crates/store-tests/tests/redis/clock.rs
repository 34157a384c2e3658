//! A Redis server whose clock is changed while locks are held and wanted.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::time::Duration;

use fencepost::{Fence, Guard, Locker, LostReason};
use fencepost_rig::{Redis, TempDir, folder};
use tokio::task::JoinHandle;

use crate::support::{LONG, NAME, Server, eventually, kept_for, locker, run, soon};

const HOUR: i64 = 3600;
const TTL: Duration = Duration::from_secs(3);

/// A server, and the file with the offset of its clock in seconds.
struct Clocked {
    server: Server,
    off_by: File,
    _folder: TempDir,
}

impl Clocked {
    /// `faketime` cannot be loaded into a server with jemalloc, so this compiles a small library of its own.
    fn start() -> Self {
        let folder = folder().unwrap();
        let [library, file] = ["clock.so", "off_by"].map(|name| folder.path().join(name));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/redis/clock.c");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&library)
            .arg(source)
            .output();
        let compiled = compiled.expect("a C compiler, which the build of SQLite needs as well");
        assert!(
            compiled.status.success(),
            "{}",
            String::from_utf8_lossy(&compiled.stderr)
        );
        std::fs::write(&file, 0_i64.to_ne_bytes()).unwrap();
        let how = Redis::builder()
            .variable("LD_PRELOAD", library.to_str().unwrap())
            .variable("FENCEPOST_CLOCK_FILE", file.to_str().unwrap());
        Self {
            server: Server(how.start().unwrap()),
            off_by: File::options().write(true).open(&file).unwrap(),
            _folder: folder,
        }
    }

    fn set(&self, off_by_s: i64) {
        let before = self.time();
        self.off_by
            .write_all_at(&off_by_s.to_ne_bytes(), 0)
            .unwrap();
        let after = self.time();
        assert!(
            (after - before).abs() > HOUR / 2,
            "the clock was to move: {before}, {after}"
        );
    }

    fn time(&self) -> i64 {
        self.server.plain().texts(&["TIME"])[0].parse().unwrap()
    }
}

/// Makes this many claims wait, one after the other.
async fn line_up(server: &Server, locker: &Locker, count: i64) -> Vec<JoinHandle<Guard>> {
    let mut waiting = Vec::new();
    let before = server.in_line(NAME);
    for place in 1..=count {
        let locker = locker.clone();
        waiting.push(tokio::spawn(
            async move { locker.acquire(NAME).await.unwrap() },
        ));
        server.wait_for_line(NAME, before + place).await;
    }
    waiting
}

/// Checks that they are served in this order, each with a larger fence than the previous one.
async fn are_served(waiting: Vec<JoinHandle<Guard>>, mut last: Fence) -> Fence {
    for waiting in waiting {
        let guard = soon("a turn", waiting).await.unwrap();
        assert!(guard.fence() > last, "{} after {last}", guard.fence());
        last = guard.fence();
        assert!(guard.release().await.is_released());
    }
    last
}

/// An hour forward ends every lease at once. The holder is notified at its next renewal, waiters are served, and fences still
/// increase when the clock is set right again.
pub(crate) fn an_hour_forward() {
    run(async {
        let stage = Clocked::start();
        let server = &stage.server;
        let (one, other) = (
            locker(&server.store().await, TTL),
            locker(&server.store().await, TTL),
        );
        let held = one.acquire(NAME).await.unwrap();
        let waiting = line_up(server, &other, 4).await;
        server.wait_for_heartbeats(NAME, 4).await;
        stage.set(HOUR);
        let lost = soon("the loss", held.lost()).await;
        assert_eq!(lost.reason(), LostReason::Gone);
        let mut fences = vec![held.fence()];
        drop(held);
        // The line expired as well, so the first to come back goes first.
        let turns = waiting.into_iter().map(|waiting| async {
            let guard = soon("a turn", waiting).await.unwrap();
            let fence = guard.fence();
            assert!(guard.release().await.is_released());
            fence
        });
        fences.extend(futures_util::future::join_all(turns).await);
        assert!(fences.iter().skip(1).all(|fence| *fence > fences[0]));
        fences.sort();
        fences.dedup();
        assert_eq!(fences.len(), 5, "a fence came twice: {fences:?}");
        stage.set(0);
        let guard = soon("the lock", one.acquire(NAME)).await.unwrap();
        assert!(guard.fence() > fences[4]);
        assert!(guard.release().await.is_released());
        server.wait_until_clean().await;
    });
}

/// An hour back ends nothing. The holder keeps its lock and releases it, waiters keep their places, and a later claim does not
/// overtake them although its ticket has an earlier time.
pub(crate) fn an_hour_back() {
    run(async {
        let stage = Clocked::start();
        let server = &stage.server;
        let (one, other) = (
            locker(&server.store().await, TTL),
            locker(&server.store().await, TTL),
        );
        let held = one.acquire(NAME).await.unwrap();
        let mut waiting = line_up(server, &other, 4).await;
        server.wait_for_heartbeats(NAME, 4).await;
        stage.set(-HOUR);
        let mut plain = server.plain();
        let line = format!("fp:{{{NAME}}}:line:{NAME}");
        eventually("tickets of the new time", async || {
            let last = plain.texts(&["ZRANGE", &line, "-1", "-1", "WITHSCORES"]);
            last[1].parse::<f64>().unwrap() / 1e6 <= stage.time() as f64 + 1.0
        })
        .await;
        waiting.extend(line_up(server, &one, 2).await);
        assert!(!held.is_lost());
        assert!(!kept_for(&mut plain, held.owner()).is_zero());
        let fence = held.fence();
        assert!(held.release().await.is_released());
        let last = are_served(waiting, fence).await;
        stage.set(0);
        let guard = soon("the lock", one.acquire(NAME)).await.unwrap();
        assert!(guard.fence() > last);
        assert!(guard.release().await.is_released());
        server.wait_until_clean().await;
    });
}

/// A clock that was centuries ahead for a moment does not use up the fences for good.
pub(crate) fn centuries_forward() {
    run(async {
        let stage = Clocked::start();
        let server = &stage.server;
        let locker = locker(&server.store().await, LONG);
        let mut last = Fence::new(0, 0).unwrap();
        for off_by in [500 * 365 * 24 * HOUR, 0, -HOUR] {
            stage.set(off_by);
            let again = self::locker(&server.store().await, LONG);
            for locker in [&locker, &again] {
                let guard = soon("the lock", locker.acquire(NAME)).await.unwrap();
                assert!(guard.fence() > last);
                last = guard.fence();
                assert!(guard.release().await.is_released());
            }
        }
    });
}
