//! Tests of `--store`: private servers, the user's own, and servers that do not exist.

use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::interrupt::{processes, send, until};
use crate::{Ran, fencepost, finish, run};

#[test]
fn a_private_server_serves_one_run_and_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let arguments =
        "oversell --store redis --lock=safe --stock=2 --concurrency=6 --wait 20000 --delay=20000";
    let output = fencepost(arguments).env("TMPDIR", folder.path()).output();
    let ran = finish(output.unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("store redis (a private server)"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout
            .contains("HELD   2 orders for a stock of 2, and 0 left")
    );
    nothing_is_left(folder.path());
}

fn nothing_is_left(folder: &Path) {
    assert_eq!(processes(folder), [] as [i32; 0]);
    let files = std::fs::read_dir(folder).unwrap();
    assert_eq!(files.count(), 0, "no temporary file stays");
}

/// Starts a sale on a private server, and returns once every process was asked to buy.
fn sale(folder: &Path, history: &Path) -> std::process::Child {
    let child = fencepost("oversell --store redis --concurrency=4 --delay 10000000 --history")
        .arg(history)
        .env("TMPDIR", folder)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    until("everybody is asked", || {
        let text = std::fs::read_to_string(history).unwrap_or_default();
        text.matches(r#""event":"purchase","#).count() == 4
    });
    assert_eq!(
        processes(folder).len(),
        10,
        "the lab, the server, and four processes with their supervisors"
    );
    child
}

/// The system ends a read from a socket with a timeout when its process is stopped and continued.
#[test]
fn a_pause_of_the_lab_never_fails_a_request_to_redis() {
    let server = fencepost_rig::Redis::start().unwrap();
    let proxy = fencepost_rig::Proxy::start(server.address()).unwrap();
    // Every request of the lab is under way for several pauses.
    let answers = fencepost_rig::Direction::ToClient;
    proxy.delay(answers, Duration::from_millis(150));
    let mut lab = fencepost("oversell --lock=safe --stock=2 --concurrency=2 --quiet --store")
        .arg(format!("redis://{}", proxy.address()))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    until("it ends", || {
        send(&lab, Signal::SIGSTOP);
        std::thread::sleep(Duration::from_millis(5));
        send(&lab, Signal::SIGCONT);
        std::thread::sleep(Duration::from_millis(10));
        lab.try_wait().unwrap().is_some()
    });
    let ran = finish(lab.wait_with_output().unwrap());
    assert_eq!(ran.stderr, "", "{}", ran.stdout);
    assert!(
        ran.code <= 2 && !ran.stdout.contains("nterrupted"),
        "{}",
        ran.stdout
    );
}

#[test]
fn ctrl_c_stops_the_private_server_too() {
    let (folder, results) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let child = sale(folder.path(), &results.path().join("run.jsonl"));
    send(&child, Signal::SIGINT);
    let ran = finish(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    nothing_is_left(folder.path());
}

#[test]
fn a_private_server_dies_with_the_lab_even_when_it_is_killed() {
    let (folder, results) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut child = sale(folder.path(), &results.path().join("run.jsonl"));
    send(&child, Signal::SIGKILL);
    child.wait().unwrap();
    until("the server is gone", || processes(folder.path()).is_empty());
}

#[test]
fn the_users_server_is_used_and_left_as_it_was() {
    let server = fencepost_rig::Redis::start().unwrap();
    let timeout = std::time::Duration::from_secs(20);
    let mut connection = fencepost_rig::resp::Connection::open(server.address(), timeout).unwrap();
    connection.ask(&["SET", "product_A", "mine"]).unwrap();
    let ran = run(&format!(
        "retry --store {} --concurrency=4 --stock=2 --delay=30000",
        server.url()
    ));
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains(&format!("store {}", server.url())));
    assert!(ran.stdout.contains("\n  waiting line  "), "{}", ran.stdout);
    use fencepost_rig::resp::Value;
    assert_eq!(connection.ask(&["DBSIZE"]).unwrap(), Value::Number(1));
    assert_eq!(
        connection.ask(&["GET", "product_A"]).unwrap(),
        Value::Text("mine".into())
    );
}

#[test]
fn a_server_that_is_not_there_is_told_before_anything_starts() {
    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .unwrap()
        .port();
    let ran = run(&format!(
        "retry --store redis://shop:hunter2@127.0.0.1:{port}"
    ));
    assert_eq!((ran.code, ran.stdout.as_str()), (69, ""));
    assert_eq!(
        ran.stderr,
        format!(
            "error: cannot reach the store\n  \
             where     redis://shop:***@127.0.0.1:{port}: connection refused, tried for 2.0 s\n  \
             effect    none: no process was started\n  \
             try       start Redis there · --store redis for a private one · no --store for sqlite\n"
        )
    );
}

#[test]
fn a_missing_server_is_reported_with_the_install_command() {
    let mut command = fencepost("oversell");
    command
        .env("PATH", "/nowhere")
        .env("FENCEPOST_TRIAL_STORE", "redis");
    let ran = finish(command.output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (69, ""));
    assert_eq!(
        ran.stderr,
        "error: --store redis starts a private redis-server, and none is installed\n  \
         where     no redis-server or valkey-server in PATH\n  \
         effect    none: no process was started\n  \
         try       apt-get install redis-server · brew install redis · --store redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE] for your own\n"
    );
}

/// What a trial says if the variable for production locks is set.
const NOTE: &str = "note: trials do not read FENCEPOST_STORE: this one uses its default store; \
                    --store or FENCEPOST_TRIAL_STORE sets another\n";

/// Returns whether a sale of two buyers was run. They may not meet: then it shows nothing, and that is 2. Without its store it is 69.
fn has_run(sale: &Ran) -> bool {
    [0, 2].contains(&sale.code)
}

#[test]
fn a_trial_never_runs_on_the_store_of_production_locks() {
    let sale = "oversell --lock=safe --concurrency=2 --stock=1";
    for (more, said) in [
        ("", NOTE),
        (" --quiet", ""),
        (" --json", ""),
        (" --store sqlite", ""),
    ] {
        let mut command = fencepost(&format!("{sale}{more}"));
        command.env("FENCEPOST_STORE", "redis://127.0.0.1:1");
        let ran = finish(command.output().unwrap());
        assert!(has_run(&ran), "{more}: {}", ran.stderr);
        assert_eq!(ran.stderr, said, "{more}");
    }
    let mut command = fencepost("gauntlet --list");
    command.env("FENCEPOST_STORE", "redis://127.0.0.1:1");
    let ran = finish(command.output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, NOTE));
}

#[test]
fn trials_have_a_variable_of_their_own() {
    let mut command = fencepost("oversell --lock=safe --concurrency=2 --stock=1");
    command
        .env("FENCEPOST_STORE", "redis://127.0.0.1:1")
        .env("FENCEPOST_TRIAL_STORE", "sqlite");
    let ran = finish(command.output().unwrap());
    assert!(has_run(&ran) && ran.stderr.is_empty(), "{}", ran.stderr);
    let mut command = fencepost("locks list");
    command
        .env("FENCEPOST_STORE", "mongo")
        .env("FENCEPOST_TRIAL_STORE", "sqlite");
    let ran = finish(command.output().unwrap());
    assert_eq!(ran.code, 64, "{}", ran.stderr);
    let place = "\n  where     FENCEPOST_STORE\n";
    assert!(ran.stderr.contains(place), "{}", ran.stderr);
}

#[test]
fn an_invalid_redis_address_is_refused() {
    let ran = run("retry --store redis://cache:port");
    assert_eq!(ran.code, 64);
    assert!(
        ran.stderr
            .starts_with("error: 'redis://cache:port' is not a valid address of Redis\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_lock_of_the_database_is_tried_nowhere_else() {
    for (command, store) in [
        ("oversell --lock=row", "sqlite"),
        ("crash --lock=lease --store redis", "redis"),
        ("retry --lock=advisory", "sqlite"),
    ] {
        let ran = run(command);
        assert_eq!((ran.code, ran.stdout.as_str()), (64, ""), "{command}");
        let what = " is a lock of Postgres and runs only there\n";
        assert!(ran.stderr.contains(what), "{}", ran.stderr);
        let place = format!(" --store {store}\n");
        assert!(ran.stderr.contains(&place), "{}", ran.stderr);
        assert!(ran.stderr.contains(" --store postgres"), "{}", ran.stderr);
    }
}

#[cfg(not(feature = "postgres"))]
#[test]
fn a_build_without_postgres_says_how_to_get_one() {
    for store in ["postgres", "postgres://shop:hunter2@127.0.0.1/shop"] {
        let ran = run(&format!("oversell --store {store}"));
        assert_eq!((ran.code, ran.stdout.as_str()), (64, ""));
        assert!(
            ran.stderr
                .starts_with("error: this program was built without Postgres\n"),
            "{}",
            ran.stderr
        );
        assert!(ran.stderr.contains("--features full"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
    }
}
