//! The faults of the chaos test: kills, a lock store that disappears, and a pause at the worst moment.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fencepost_rig::{Direction, Proxy, Redis};
use nix::sys::signal::Signal;
use serde_json::Value;

use super::{LATE, TTL, Town, name};
use crate::stage::{Service, Stage, until};

/// The faults, and the instances that they affect.
pub(super) struct Stormy<'a> {
    pub(super) stage: &'a Stage,
    pub(super) flags: [String; 2],
    pub(super) redis: Redis,
    /// The connection between the second instance and the database.
    pub(super) line: Proxy,
    pub(super) instances: [Service; 2],
}

impl Stormy<'_> {
    /// Causes each kind of fault once, and kills both instances, with a pause of `calm` in between.
    pub(super) fn round(&mut self, town: &Town, calm: Duration) {
        std::thread::sleep(calm);
        self.kill(0, town);
        std::thread::sleep(calm);
        self.without_locks(Duration::from_millis(300));
        std::thread::sleep(calm);
        self.kill(1, town);
        std::thread::sleep(calm);
        self.pause_before_the_database(town);
    }

    fn kill(&mut self, one: usize, town: &Town) {
        self.instances[one].signal(Signal::SIGKILL);
        self.instances[one].end();
        self.instances[one] = self.stage.serve(&self.flags[one]);
        town.doors.write().unwrap()[one] = self.instances[one].client;
    }

    fn without_locks(&mut self, time: Duration) {
        self.redis.crash();
        std::thread::sleep(time);
        self.redis.restart().unwrap();
    }

    /// Stops the second instance for longer than its lease, with an order that has its lock but has not reached the database.
    /// Meanwhile another customer buys the same product.
    fn pause_before_the_database(&self, town: &Town) {
        let one = &self.instances[1];
        until("both sell again", || town.visit(0) && town.visit(1));
        let (lost, refused) = losses(one);
        std::thread::scope(|scope| {
            let holder = self.stage.hold_in(&self.redis.url(), &late_lock_name());
            scope.spawn(|| until("the late one buys", || town.visit(1)));
            until("it is in line", || {
                late_lock(one).is_some_and(|lock| lock["waiting_here"] != 0)
            });
            self.line.delay(Direction::ToServer, Proxy::FOREVER);
            holder.release();
            // Unless it has left the line by now; then there is another round.
            let began = Instant::now();
            let stands = || late_lock(one).is_some_and(|lock| !lock["held_ms"].is_null());
            while !stands() && began.elapsed() < TTL {}
            one.pause();
            std::thread::sleep(TTL * 3 / 2);
            until("another buys the same", || town.visit(0));
            self.line.heal();
            one.signal(Signal::SIGCONT);
        });
        let (lost_now, refused_now) = losses(one);
        let met = &town.met;
        met.locks_lost.fetch_add(lost_now - lost, Ordering::Relaxed);
        met.fences_refused
            .fetch_add(refused_now - refused, Ordering::Relaxed);
    }
}

fn late_lock_name() -> String {
    format!("lock:product:{}", name(LATE))
}

/// Returns what this instance knows about the lock of the late product.
fn late_lock(one: &Service) -> Option<Value> {
    let locks = one.client.get("/v1/locks").json();
    let mut locks = locks["locks"].as_array()?.iter();
    let found = locks.find(|lock| lock["name"] == late_lock_name());
    found.cloned()
}

/// Returns how many locks of this instance ended while they were held, and how many writes the database refused because of
/// that.
fn losses(service: &Service) -> (u64, u64) {
    let metrics = service.client.get("/metrics").body;
    let sum = |is_meant: &dyn Fn(&str) -> bool| {
        let lines = metrics.lines().filter(|line| is_meant(line));
        let counts = lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
        counts.sum()
    };
    let of_ttl = ["reason=\"expired\"", "reason=\"gone\""];
    (
        sum(&|line| {
            line.starts_with("fencepost_lost_total{") && of_ttl.iter().any(|why| line.contains(why))
        }),
        sum(&|line| line.starts_with("checkout_fences_refused_total ")),
    )
}
