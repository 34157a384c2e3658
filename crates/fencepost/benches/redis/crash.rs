//! W5: the holder is killed while another client waits.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost::Locker;
use fencepost::stores::redis::Redis;

use crate::measure::Spread;
use crate::peers::Peer;
use crate::report::{Against, Row};
use crate::{Bench, OURS, runtime};

const NAME: &str = "bench:crash";
const TTL: Duration = Duration::from_secs(2);
/// The environment variable with the server's address for a child process.
const CHILD: &str = "FENCEPOST_BENCH_CRASH";

pub(crate) fn killed_holder(bench: &Bench) -> Vec<Row> {
    let rounds = bench.effort.pick(9, 1);
    let row = |contender: &str, extra: Vec<f64>, after: &str| {
        let Spread { median, min, max } = Spread::of(extra.into_iter());
        let here = format!("{median:.1} ms ({min:.1} … {max:.1}) after {after}");
        let what = "the holder is killed, TTL 2 s: the next has the lock";
        let mut row = Row::new("W5", what, Against::NOTHING, here);
        row.contender = contender.to_owned();
        row
    };
    let ours = (0..rounds).map(|_| kill_one(bench)).collect();
    let mut rows = vec![row(OURS, ours, "the end of its lease")];
    for peer in &bench.peers.list {
        let rounds = bench.effort.pick(5, 1);
        let extra = (0..rounds).map(|number| kill_peer(peer, number)).collect();
        let after = if peer.on_redis {
            "the end of its lease"
        } else {
            "its death"
        };
        rows.push(row(peer.name, extra, after));
    }
    rows
}

/// Does the same with a peer that does not renew: its lease ends a TTL after it was granted. In Postgres it ends with the session.
fn kill_peer(peer: &Peer, number: usize) -> f64 {
    let mut players = peer.players(2);
    let [holder, next] = players.as_mut_slice() else {
        unreachable!("two were asked for");
    };
    // Make both connect first.
    holder.time("pairs 1");
    next.time("pairs 1");
    let request = format!("hold {number}");
    holder.ask(&request);
    let held = Instant::now();
    next.request(&request).expect("a player that listens");
    // Give the waiter time to ask and to be refused.
    std::thread::sleep(TTL / 4);
    holder.kill();
    let killed = Instant::now();
    next.answer().expect("a player that answers");
    let now = Instant::now();
    next.kill();
    match peer.on_redis {
        true => ((now - held).as_secs_f64() - TTL.as_secs_f64()) * 1e3,
        false => (now - killed).as_secs_f64() * 1e3,
    }
}

/// Returns the milliseconds from the end of the dead holder's lease to the next grant.
fn kill_one(bench: &Bench) -> f64 {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .env(CHILD, bench.server.url())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let mut words = BufReader::new(child.stdout.take().expect("its words"));
    words
        .read_line(&mut String::new())
        .expect("it holds the lock");
    let locker = Locker::builder(bench.store()).ttl(TTL).build();
    let locker = locker.expect("valid settings");
    let mut wire = bench.wire();
    bench.runtime.block_on(async {
        let waiting = tokio::spawn({
            let locker = locker.clone();
            async move { locker.acquire(NAME).await.expect("the lock of the dead") }
        });
        while !wire
            .ask(&["EXISTS", "fp:{bench:crash}:line:bench:crash"])
            .starts_with('1')
        {
            tokio::task::yield_now().await;
        }
        child.kill().expect("it lives");
        child.wait().expect("it is dead");
        let asked = Instant::now();
        let left: u64 = wire.ask(&["PTTL", NAME]).parse().expect("it is still held");
        let guard = waiting.await.expect("no panic");
        let took = asked.elapsed();
        let _ = guard.release().await;
        locker.shutdown().await;
        took.as_secs_f64() * 1e3 - left as f64
    })
}

/// Holds the lock until it is killed, if this process was started for that.
pub(crate) fn is_child() -> bool {
    let Ok(url) = std::env::var(CHILD) else {
        return false;
    };
    runtime().block_on(async {
        let store = Redis::open(&url).await.expect("a connection");
        let locker = Locker::builder(Arc::new(store)).ttl(TTL).build();
        let locker = locker.expect("valid settings");
        let _guard = locker.acquire(NAME).await.expect("a free lock");
        println!("held");
        // Wait for ever: the parent kills this process. If the parent dies first, the pipe breaks and this process ends.
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if std::os::unix::process::parent_id() == 1 {
                return;
            }
        }
    });
    true
}
