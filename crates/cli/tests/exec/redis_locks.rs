//! Tests of `locks` on a Redis server that other programs use, too.

use std::time::Duration;

use fencepost_rig::resp::Connection;
use fencepost_rig::{Direction, Fate, Proxy, Redis};

use crate::stage::Stage;

fn ask(server: &Redis, words: &[&str]) {
    let mut connection = Connection::open(server.address(), Duration::from_secs(10)).unwrap();
    connection.ask(words).unwrap();
}

#[test]
fn what_others_have_written_cannot_command_a_terminal() {
    let server = Redis::start().unwrap();
    let stage = Stage::with_store(server.url());
    let hostile = "\u{1b}]0;x\u{7}\r\n\u{202e}host:1";
    let value = format!("{} 5 1000 1 {hostile}", "a".repeat(32));
    ask(&server, &["SET", "deploy", &value, "PX", "60000"]);
    let name = format!("plain{hostile}");
    ask(&server, &["SET", &name, "token", "PX", "60000"]);
    for arguments in [
        &["locks", "list", "*"][..],
        &["locks", "show", "deploy"],
        &["exec", "--name", "deploy", "--", "true"],
        &["locks", "release", "deploy", "--yes"],
    ] {
        let ran = stage.run(arguments);
        let said = ran.stdout + &ran.stderr;
        assert!(said.contains("host"), "{said}");
        let is_hostile = |c: char| c == '\u{202e}' || c.is_control() && c != '\n';
        assert!(!said.contains(is_hostile), "{said:?}");
    }
}

#[test]
fn values_of_others_are_not_read() {
    let server = Redis::start().unwrap();
    let stage = Stage::with_store(server.url());
    ask(
        &server,
        &[
            "CONFIG",
            "SET",
            "client-output-buffer-limit",
            "normal 1mb 0 0",
        ],
    );
    let large = "x".repeat(2_000_000);
    for name in ["big:1", "big:2"] {
        ask(&server, &["SET", name, &large, "PX", "60000"]);
    }
    let ran = stage.run(&["locks", "list", "big:*"]);
    assert!(
        ran.stdout.ends_with("2 locks like 'big:*'\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_store_that_falls_silent_is_told() {
    let server = Redis::start().unwrap();
    let proxy = Proxy::start(server.address()).unwrap();
    proxy.judge(Direction::ToServer, |message| {
        let is_script = message.windows(4).any(|part| part == b"EVAL");
        if is_script { Fate::Lose } else { Fate::Pass }
    });
    let stage = Stage::with_store(format!("redis://{}", proxy.address()));
    let ran = stage.run(&["locks", "show", "deploy"]);
    assert_eq!(ran.code(), 69, "{}", ran.stdout);
    assert!(ran.stderr.contains("did not answer"), "{}", ran.stderr);
}

#[test]
fn a_release_that_was_not_answered_may_have_happened() {
    let server = Redis::start().unwrap();
    let proxy = Proxy::start(server.address()).unwrap();
    let stage = Stage::with_store(format!("redis://{}", proxy.address()));
    let value = format!("{} 5 60000 1 host:1", "a".repeat(32));
    ask(&server, &["SET", "deploy", &value, "PX", "60000"]);
    // Only the release names the owner.
    proxy.judge(Direction::ToServer, |message| {
        let owner = "a".repeat(32);
        let is_release = message.windows(32).any(|part| part == owner.as_bytes());
        if is_release { Fate::Lose } else { Fate::Pass }
    });
    let ran = stage.run(&["locks", "release", "deploy", "--yes"]);
    assert_eq!(ran.code(), 69, "{}", ran.stdout);
    assert!(ran.stderr.contains("effect    maybe"), "{}", ran.stderr);
}
