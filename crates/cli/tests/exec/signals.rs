//! Tests that signals to `exec` reach the command exactly once, and that the command decides what to do.

use fencepost_rig::with_default_signals;
use nix::sys::signal::Signal;

use crate::stage::{Play, Stage, state, until};

#[test]
fn what_exec_gets_the_command_gets() {
    let stage = Stage::new();
    // The script starts no program: a shell that is just starting one may lose a signal (dash during its vfork).
    let script = "
        for name in INT TERM HUP QUIT USR1 USR2; do trap \"echo $name >> got\" $name; done
        echo > ready; while [ ! -e go ]; do :; done; exit 7";
    let play = stage.shell("--name deploy", script);
    stage.until_lines("ready", 1);
    let signals = [
        (Signal::SIGINT, "INT"),
        (Signal::SIGTERM, "TERM"),
        (Signal::SIGHUP, "HUP"),
        (Signal::SIGQUIT, "QUIT"),
        (Signal::SIGUSR1, "USR1"),
        (Signal::SIGUSR2, "USR2"),
    ];
    for (count, (signal, _)) in signals.iter().enumerate() {
        play.send(*signal);
        stage.until_lines("got", count + 1);
    }
    std::fs::write(stage.path("go"), "").unwrap();
    let ran = play.end();
    assert_eq!((ran.code(), ran.stderr.as_str()), (7, ""));
    let names = signals.map(|(_, name)| name).join("\n") + "\n";
    assert_eq!(stage.read("got"), names);
}

#[test]
fn a_command_without_a_handler_ends_and_says_by_what() {
    for (signal, code) in [
        (Signal::SIGTERM, 143),
        (Signal::SIGINT, 130),
        (Signal::SIGHUP, 129),
    ] {
        let stage = Stage::new();
        let play = stage.start(&[
            "exec",
            "--name",
            "deploy",
            "--",
            "sh",
            "-c",
            "echo > ready; exec sleep 1000",
        ]);
        stage.until_lines("ready", 1);
        play.send(signal);
        let ran = play.end();
        assert_eq!((ran.code(), ran.stderr.as_str()), (code, ""));
        assert!(stage.run(&["locks", "list"]).stdout.starts_with("no locks"));
    }
}

#[test]
fn whoever_is_interrupted_while_it_waits_leaves_the_line() {
    let stage = Stage::new();
    let _holder = stage.shell("--name deploy --ttl 60s", "echo > held; sleep 1000");
    stage.until_lines("held", 1);
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let waiter = stage.shell("-q --name deploy --wait 60s", "touch started");
        until("it stands in line", || stage.waiting("deploy") == 1);
        waiter.send(signal);
        let ran = waiter.end();
        let said = format!("fencepost: sh was not started: {signal} while waiting for deploy\n");
        assert_eq!((ran.code(), ran.stderr), (code, said));
        assert_eq!(stage.waiting("deploy"), 0);
    }
    assert!(!stage.path("started").exists());
}

#[test]
fn a_pause_pauses_the_command_and_it_goes_on_with_exec() {
    let stage = Stage::new();
    // Waits without a child: one that is paused between its fork and its exec keeps the shell from pausing.
    let script = "mkfifo go; echo $$ > pid; read x < go; exit 5";
    let play = stage.shell("--name deploy --ttl 60s", script);
    stage.until_lines("pid", 1);
    let command: i32 = stage.read("pid").trim().parse().unwrap();
    play.send(Signal::SIGTSTP);
    until("both stand still", || {
        state(play.pid()) == Some('T') && state(command) == Some('T')
    });
    play.send(Signal::SIGCONT);
    until("both go on", || {
        state(play.pid()) != Some('T') && state(command) != Some('T')
    });
    std::fs::write(stage.path("go"), "on\n").unwrap();
    let ran = play.end();
    assert_eq!((ran.code(), ran.stderr.as_str()), (5, ""));
}

/// Starts `exec` with a shell script, from a shell that ignores these signals.
fn deaf_to(signals: &str, stage: &Stage, script: &str) -> Play {
    let mut command = std::process::Command::new("sh");
    // A shell cannot restore a signal that was ignored when it was started.
    with_default_signals(&mut command);
    let exec = stage.fencepost(&["exec", "--name", "deploy", "--wait", "60s", "--"]);
    let deaf = format!("trap '' {signals}; exec \"$@\"");
    command.args(["-c", &deaf, "sh"]);
    command.arg(exec.get_program()).args(exec.get_args());
    command.args(["sh", "-c", script]);
    command.envs(
        exec.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    command
        .current_dir(stage.path(""))
        .stdin(std::process::Stdio::null());
    stage.start_command(command)
}

/// Ignores SIGHUP, as `nohup` does.
fn with_nohup(stage: &Stage, script: &str) -> Play {
    deaf_to("HUP", stage, script)
}

/// Returns whether a process ignores a signal, according to the kernel.
fn ignores(pid: i32, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("SigIgn:"));
    let mask = line.unwrap().split_whitespace().last().unwrap().to_owned();
    u64::from_str_radix(&mask, 16).unwrap() & (1 << (signal as i32 - 1)) != 0
}

#[test]
fn what_was_ignored_at_the_start_is_ignored_by_exec_and_by_the_command() {
    let stage = Stage::new();
    let script = "mkfifo go; echo $$ > pid; read x < go; exit 4";
    let play = deaf_to("HUP INT", &stage, script);
    stage.until_lines("pid", 1);
    let command: i32 = stage.read("pid").trim().parse().unwrap();
    for signal in [Signal::SIGHUP, Signal::SIGINT] {
        assert!(ignores(command, signal), "{signal}: the command");
        assert!(ignores(play.pid(), signal), "{signal}: exec");
        play.send(signal);
    }
    assert!(!ignores(command, Signal::SIGTERM));
    std::fs::write(stage.path("go"), "on\n").unwrap();
    let ran = play.end();
    assert_eq!((ran.code(), ran.stderr.as_str()), (4, ""));
}

#[test]
fn the_command_ignores_nothing_that_was_not_ignored_at_the_start() {
    let stage = Stage::new();
    let ran = stage.run(&[
        "exec",
        "--name",
        "deploy",
        "--",
        "grep",
        "-E",
        "Sig(Ign|Blk)",
        "/proc/self/status",
    ]);
    assert_eq!(ran.code(), 0, "{}", ran.stderr);
    for line in ran.stdout.lines() {
        let (what, mask) = line.split_once(':').unwrap();
        let mask = u64::from_str_radix(mask.trim(), 16).unwrap();
        // Signals from 32 on are reserved for libraries and the C runtime. No program may set 32 and 33, not even to their
        // previous action.
        assert_eq!(mask & 0x7fff_ffff, 0, "{what}");
    }
    assert_eq!(ran.stdout.lines().count(), 2, "{}", ran.stdout);
}

#[test]
fn whoever_ignores_a_signal_waits_on() {
    let stage = Stage::new();
    let holder = stage.shell(
        "--name deploy --ttl 60s",
        "echo > held; while [ ! -e go ]; do sleep 0.02; done",
    );
    stage.until_lines("held", 1);
    let waiter = with_nohup(&stage, "exit 4");
    until("it stands in line", || stage.waiting("deploy") == 1);
    waiter.send(Signal::SIGHUP);
    waiter.send(Signal::SIGCONT);
    std::fs::write(stage.path("go"), "").unwrap();
    assert_eq!(holder.end().code(), 0);
    let ran = waiter.end();
    assert_eq!(ran.code(), 4, "{}", ran.stderr);
}

#[test]
fn a_signal_that_was_ignored_from_the_beginning_stays_so() {
    let stage = Stage::new();
    let script = "echo > ready; while [ ! -e go ]; do sleep 0.02; done; exit 4";
    let play = with_nohup(&stage, script);
    stage.until_lines("ready", 1);
    play.send(Signal::SIGHUP);
    std::fs::write(stage.path("go"), "").unwrap();
    assert_eq!(play.end().code(), 4);
}
