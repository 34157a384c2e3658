//! W4: two hundred clients wait, and each holds the lock for a millisecond.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fencepost::{Fence, Locker};

use crate::measure::{Contender, rounds_of};
use crate::mutex::time_per_turn;
use crate::player::nanoseconds;
use crate::report::{Against, Contest, Goal, Row, Shown};
use crate::{Bench, OURS};

const NAME: &str = "bench:waiters";

const WAITERS: Contest<'_> = Contest {
    workload: "W4",
    what: "200 wait, each holds for 1 ms",
    against: Against::time_of("tokio's mutex"),
    goal: Some(Goal::AtMost(1.05)),
    shown: Shown::Time("per hold"),
};

/// Waiters in one process: with hand-over as our users have it, each on its own at the server, and with other libraries.
pub(crate) fn all(bench: &Bench) -> Vec<Row> {
    let waiters = bench.effort.pick(200, 10);
    let handing_over = bench.locker();
    let alone = Locker::builder(bench.store()).without_hand_over().build();
    let alone = alone.expect("valid settings");
    let mut lines: Vec<Line> = vec![
        Line::new(OURS, || queue(bench, &handing_over, waiters)),
        Line::new("each at the server", || queue(bench, &alone, waiters)),
    ];
    for peer in &bench.peers.list {
        let request = format!("queue {waiters}");
        let turn = move || Served::read(&peer.ask(&request));
        let line = Line::new(peer.name, turn);
        lines.push(Line {
            on_redis: peer.on_redis,
            ..line
        });
    }
    let samples = {
        let floor: Contender<'_> = Box::new(|| mutex(bench, waiters));
        let turns = lines.iter_mut().map(|one| {
            let turn = || (one.turn)().time_per_hold();
            Box::new(turn) as Contender<'_>
        });
        let mut all: Vec<_> = std::iter::once(floor).chain(turns).collect();
        rounds_of(bench.effort.pick(7, 1), &mut all)
    };
    let mut rows = Vec::new();
    for (line, own) in lines.iter_mut().zip(&samples[1..]) {
        let mut row = match line.name {
            OURS | "each at the server" => WAITERS.ours(own, &samples[0]),
            name => WAITERS.row(name, own, &samples[0]),
        };
        row.contender = line.name.to_owned();
        (row.commands, row.order) = line.watched(bench);
        rows.push(row);
    }
    rows
}

struct Line<'a> {
    name: &'static str,
    on_redis: bool,
    turn: Box<dyn FnMut() -> Served + 'a>,
}

impl<'a> Line<'a> {
    fn new(name: &'static str, turn: impl FnMut() -> Served + 'a) -> Self {
        Self {
            name,
            on_redis: true,
            turn: Box::new(turn),
        }
    }

    /// Returns the commands per hold and the order of service, measured in one more round while the server is monitored.
    fn watched(&mut self, bench: &Bench) -> (Option<f64>, Option<f64>) {
        let mut served = None;
        let turn = || served = Some((self.turn)());
        let commands = bench.wire().commands_during(bench.server.address(), turn);
        let order = served.map(|served| (served.order.len(), served.rank_correlation()));
        let Some((holds, rank_correlation)) = order else {
            unreachable!("it had its turn");
        };
        let commands = commands as f64 / holds.max(1) as f64;
        (self.on_redis.then_some(commands), Some(rank_correlation))
    }
}

/// How the waiters were served.
struct Served {
    time: Duration,
    /// The numbers of the waiters (in order of asking), in the order in which they were served.
    order: Vec<usize>,
}

impl Served {
    /// Parses a player's answer.
    fn read(answer: &str) -> Self {
        let mut words = answer.split_whitespace();
        let time = nanoseconds(words.next().expect("a time"));
        let order = words.map(|word| word.parse().expect("a number")).collect();
        Self { time, order }
    }

    fn time_per_hold(&self) -> Duration {
        self.time / self.order.len().max(1) as u32
    }

    /// Returns Spearman's rank correlation: 1 is first come, first served, and 0 is chance.
    fn rank_correlation(&self) -> f64 {
        let count = self.order.len() as f64;
        let square = |(at, &number): (usize, &usize)| (at as f64 - number as f64).powi(2);
        let distance: f64 = self.order.iter().enumerate().map(square).sum();
        1.0 - 6.0 * distance / (count * (count * count - 1.0))
    }
}

/// All waiters are in line before the first gets its turn, and are served in that order.
fn queue(bench: &Bench, locker: &Locker, waiters: usize) -> Served {
    bench.runtime.block_on(async {
        let first = locker.acquire(NAME).await.expect("a free lock");
        let served: Arc<Mutex<Vec<(usize, Fence)>>> = Arc::default();
        let mut tasks = Vec::new();
        for number in 0..waiters {
            let (locker, served) = (locker.clone(), served.clone());
            tasks.push(tokio::spawn(async move {
                let guard = locker.acquire(NAME).await.expect("a turn");
                let turn = (number, guard.fence());
                served.lock().expect("no panic").push(turn);
                tokio::time::sleep(Duration::from_millis(1)).await;
                let _ = guard.release().await;
            }));
            tokio::task::yield_now().await;
        }
        let started = Instant::now();
        let _ = first.release().await;
        for task in tasks {
            task.await.expect("no panic");
        }
        let time = started.elapsed();
        let served = served.lock().expect("no panic");
        assert!(
            served.is_sorted(),
            "not first come, first served: {served:?}"
        );
        let order = served.iter().map(|(number, _)| *number).collect();
        Served { time, order }
    })
}

fn mutex(bench: &Bench, waiters: usize) -> Duration {
    bench.runtime.block_on(time_per_turn(waiters))
}
