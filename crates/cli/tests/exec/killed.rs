//! Tests that nothing of the command survives if `exec` or its warden is killed.

use nix::sys::signal::Signal;

use crate::lost::{FAMILY, family};
use crate::stage::{Stage, is_running, signal, until};

#[test]
fn everything_dies_with_exec_wherever_it_went() {
    let stage = Stage::new();
    let play = stage.shell("--name deploy --ttl 2s", FAMILY);
    let all = family(&stage);
    play.send(Signal::SIGKILL);
    until("the whole family is gone", || {
        !all.iter().any(|pid| is_running(*pid))
    });
    let ran = play.end();
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&ran.status),
        Some(9)
    );
    stage.until_empty();
    let next = stage.run(&["exec", "--name", "deploy", "--wait", "30s", "--", "true"]);
    assert_eq!(next.code(), 0, "free after the TTL: {}", next.stderr);
}

#[test]
fn everything_dies_with_the_warden_too() {
    let stage = Stage::new();
    let play = stage.shell("--name deploy --ttl 60s", FAMILY);
    let all = family(&stage);
    signal(play.warden(), Signal::SIGKILL);
    let ran = play.end();
    assert!(!all.iter().any(|pid| is_running(*pid)));
    let said = "fencepost: the process that watches over sh was killed: it and all it started were killed, too\n";
    assert_eq!((ran.code(), ran.stderr.as_str()), (137, said));
    stage.until_empty();
    let next = stage.run(&["exec", "--name", "deploy", "--", "true"]);
    assert_eq!(next.code(), 0, "given back at once: {}", next.stderr);
}

#[test]
fn exec_killed_while_it_waits_leaves_nobody() {
    let stage = Stage::new();
    // The shell becomes the sleeper, so the number of processes does not change.
    let _holder = stage.shell("--name deploy --ttl 60s", "echo > held; exec sleep 1000");
    stage.until_lines("held", 1);
    let before = stage.processes().len();
    let waiter = stage.shell("--name deploy --wait 60s", "touch started");
    until("it stands in line", || stage.waiting("deploy") == 1);
    waiter.send(Signal::SIGKILL);
    until("it and its warden are gone", || {
        stage.processes().len() == before
    });
    assert!(!stage.path("started").exists());
}
