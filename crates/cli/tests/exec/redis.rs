//! Tests of `exec` with locks in Redis, behind a network that fails.

use fencepost_rig::{Direction, Proxy, Redis};
use nix::sys::signal::Signal;

use crate::fenced_file::{fences, writer};
use crate::lost::{in_time, is_in_time};
use crate::stage::{Play, Stage, signal, until};

/// Returns how often a test runs: once normally, twenty times in a soak.
fn rounds() -> usize {
    if fencepost_rig::is_soak() { 20 } else { 1 }
}

fn next_writer(stage: &Stage) -> Play {
    let next = writer(stage, "--wait 60s --ttl 60s");
    until("it stands in line", || stage.waiting("shared") == 1);
    next
}

#[test]
fn a_command_that_waited_its_turn_runs_to_its_end() {
    let server = Redis::start().unwrap();
    let stage = Stage::with_store(server.url());
    let first = stage.shell(
        "--name deploy",
        "echo > held; while test ! -e go; do sleep 0.01; done",
    );
    stage.until_lines("held", 1);
    let second = stage.shell("--name deploy --wait 60s", "sleep 1; echo $FENCEPOST_FENCE");
    until("it stands in line", || stage.waiting("deploy") == 1);
    std::fs::write(stage.path("go"), "").unwrap();
    assert_eq!(first.end().code(), 0);
    let ran = second.end();
    assert_eq!(ran.code(), 0, "{}", ran.stderr);
    assert!(ran.stdout.trim().ends_with(".0"), "{}", ran.stdout);
    stage.until_empty();
}

#[test]
fn a_command_cut_off_from_redis_is_gone_before_the_next_begins() {
    for _ in 0..rounds() {
        in_time(|| {
            let server = Redis::start().unwrap();
            let proxy = Proxy::start(server.address()).unwrap();
            let stage = Stage::with_store(server.url());
            let behind = format!("--ttl 3s --grace 200ms --store redis://{}", proxy.address());
            let first = writer(&stage, &behind);
            stage.until_lines("file", 5);
            let next = next_writer(&stage);
            proxy.swallow(Direction::ToServer);
            proxy.swallow(Direction::ToClient);
            let ran = first.end();
            assert_eq!(ran.code(), 125, "{}", ran.stderr);
            if !is_in_time(ran.stderr.lines().nth(1).unwrap()) {
                return false;
            }
            let written = stage.read("file").lines().count();
            stage.until_lines("file", written + 5);
            assert_eq!(fences(&stage).len(), 2);
            assert!(!stage.path("file.refused").exists(), "nobody came too late");
            drop(next);
            stage.until_empty();
            true
        });
    }
}

#[test]
fn a_command_whose_exec_stood_still_beyond_the_lease_is_refused_by_the_file() {
    for _ in 0..rounds() {
        let server = Redis::start().unwrap();
        let stage = Stage::with_store(server.url());
        let first = writer(&stage, "--ttl 1s");
        stage.until_lines("file", 5);
        let warden = first.warden();
        let next = next_writer(&stage);
        first.stop();
        signal(warden, Signal::SIGSTOP);
        until("the next writes", || fences(&stage).len() == 2);
        stage.until_lines("file.refused", 3);
        signal(warden, Signal::SIGCONT);
        first.send(Signal::SIGCONT);
        assert_eq!(first.end().code(), 125);
        assert_eq!(fences(&stage).len(), 2);
        drop(next);
        stage.until_empty();
    }
}
