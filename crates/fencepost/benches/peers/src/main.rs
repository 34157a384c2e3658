//! Locks of other libraries as contenders of the Redis benchmark: `fencepost-bench-peers rslock|postgres ADDRESS`.
//!
//! Reads one request per line, answers each with one line, and ends when its input does. `player.rs` of the benchmark describes the
//! requests; `peer.py` and `peer.js` beside this package answer the same ones.

mod answers;
mod postgres;
mod rslock;

use std::future::Future;
use std::io::{BufRead, Write};
use std::time::Duration;

/// A lock of another library, used as its users do.
pub(crate) trait Peer: 'static {
    /// The pause between two requests that makes the order of asking the order of arrival.
    const APART: Option<Duration>;

    /// Makes sure that this many tasks can ask at once, so that connecting happens here and not while time is measured.
    fn seats(&mut self, count: usize) -> impl Future<Output = ()>;

    /// Waits for the lock with this number, runs `inside`, and releases.
    fn under(
        &self,
        seat: usize,
        lock: i64,
        inside: impl Future<Output = ()>,
    ) -> impl Future<Output = ()>;
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(which), Some(address)) = (arguments.next(), arguments.next()) else {
        panic!("usage: fencepost-bench-peers rslock|postgres ADDRESS");
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let tasks = tokio::task::LocalSet::new();
    match which.as_str() {
        "rslock" => serve(&runtime, &tasks, rslock::Rslock::new(&address)),
        "postgres" => serve(&runtime, &tasks, postgres::Advisory::new(&address)),
        other => panic!("no such peer: {other}"),
    }
}

fn serve(runtime: &tokio::runtime::Runtime, tasks: &tokio::task::LocalSet, peer: impl Peer) {
    let mut peer = Some(peer);
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a request");
        let words: Vec<&str> = line.split_whitespace().collect();
        let peer_now = peer.take().expect("it comes back");
        let (back, answer) = tasks.block_on(runtime, answers::to(peer_now, &words));
        peer = Some(back);
        println!("{answer}");
        std::io::stdout().flush().expect("a reader");
    }
}
