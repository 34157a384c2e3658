//! W6: one process keeps many leases alive.

use std::time::{Duration, Instant};

use fencepost::Locker;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::Bench;
use crate::report::{Against, Row};

const TTL: Duration = Duration::from_secs(10);

pub(crate) fn kept_alive(bench: &Bench) -> Vec<Row> {
    let sizes: &[(usize, u64)] = match bench.effort.pick(1, 0) {
        0 => &[(100, 1)],
        _ => &[(1_000, 20), (10_000, 20), (100_000, 60)],
    };
    let row = |&(leases, seconds): &(usize, u64)| {
        let what = format!("{leases} leases, TTL 10 s, kept for {seconds} s");
        let here = keep(bench, leases, Duration::from_secs(seconds));
        Row::new("W6", what, Against::NOTHING, here)
    };
    sizes.iter().map(row).collect()
}

fn keep(bench: &Bench, leases: usize, time: Duration) -> String {
    let locker = Locker::builder(bench.store()).ttl(TTL).build();
    let locker = locker.expect("valid settings");
    let mut wire = bench.wire();
    bench.runtime.block_on(async {
        let mut asking = FuturesUnordered::new();
        let mut guards = Vec::with_capacity(leases);
        for number in 0..leases {
            let locker = &locker;
            asking.push(async move {
                let name = format!("bench:many:{number}");
                locker.acquire(name).await.expect("a free lock")
            });
            if asking.len() >= 256 {
                guards.extend(asking.next().await);
            }
        }
        while let Some(guard) = asking.next().await {
            guards.push(guard);
        }
        let (calls, cpu, own) = (wire.script_calls(), wire.server_cpu(), own_cpu());
        let started = Instant::now();
        tokio::time::sleep(time).await;
        let seconds = started.elapsed().as_secs_f64();
        let calls = wire.script_calls() - calls;
        let (cpu, own) = (wire.server_cpu() - cpu, own_cpu() - own);
        let lost = guards.iter().filter(|guard| guard.valid_for().is_zero()).count();
        assert_eq!(lost, 0, "leases were lost");
        let renewals = seconds / (TTL.as_secs_f64() / 3.0);
        let text = format!(
            "none lost; per renewal of all: {:.0} commands, {:.1} ms of the server's processor, {:.1} ms of ours",
            calls as f64 / renewals,
            cpu * 1e3 / renewals,
            own * 1e3 / renewals,
        );
        drop(guards);
        locker.shutdown().await;
        text
    })
}

/// Returns the processor time of this process, in seconds.
fn own_cpu() -> f64 {
    let usage = nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID);
    usage.map_or(0.0, |time| Duration::from(time).as_secs_f64())
}
