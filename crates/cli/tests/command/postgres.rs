//! Tests of trials on Postgres, with a private server and the user's own, and of locks that only a database has.

use std::net::TcpListener;
use std::process::Stdio;

use fencepost_rig::Postgres;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::interrupt::{processes, send, until};
use crate::{fencepost, finish, run, shape};

fn ask(server: &Postgres, sql: &str) -> String {
    let output = server.psql().args(["-c", sql]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

const SCHEMAS: &str = "select count(*) from pg_namespace where nspname like 'fencepost%'";

#[test]
fn a_private_server_serves_one_run_and_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let arguments =
        "oversell --store postgres --lock=row --stock=2 --concurrency=6 --wait 20000 --delay=20000";
    let output = fencepost(arguments).env("TMPDIR", folder.path()).output();
    let ran = finish(output.unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    for words in [
        "store postgres (a private server)",
        "HELD   2 orders for a stock of 2, and 0 left",
        "fencepost crash --lock=row --store postgres\n",
    ] {
        assert!(ran.stdout.contains(words), "{words}: {}", ran.stdout);
    }
    assert_eq!(processes(folder.path()), [] as [i32; 0]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_users_database_is_used_and_left_as_it_was() {
    let server = Postgres::start().unwrap();
    ask(&server, "create table stock as select 7 as mine");
    for command in [
        "retry --concurrency=4 --stock=2 --delay=30000 --lock=advisory",
        "oversell --lock=fenced --concurrency=4 --delay=30000",
        "crash --lock=table --ttl 500",
    ] {
        let ran = run(&format!("{command} --store {}", server.url()));
        assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
        let named = format!("store {}", server.url());
        assert!(ran.stdout.contains(&named), "{}", ran.stdout);
    }
    assert_eq!(ask(&server, SCHEMAS), "0");
    assert_eq!(ask(&server, "select mine from stock"), "7");
    let locks = "select count(*) from pg_locks where locktype = 'advisory'";
    assert_eq!(ask(&server, locks), "0");
}

#[test]
fn ctrl_c_leaves_neither_a_schema_nor_a_session() {
    let server = Postgres::start().unwrap();
    let results = tempfile::tempdir().unwrap();
    let history = results.path().join("run.jsonl");
    let asked = "oversell --lock=row --wait 20000 --concurrency=4 --delay 10000000 --history";
    let child = fencepost(asked)
        .arg(&history)
        .args(["--store", &server.url()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("everybody is asked", || {
        let text = std::fs::read_to_string(&history).unwrap_or_default();
        text.matches(r#""event":"purchase","#).count() == 4
    });
    assert_eq!(ask(&server, SCHEMAS), "1");
    send(&child, Signal::SIGINT);
    let ran = finish(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    assert_eq!(ask(&server, SCHEMAS), "0");
    let sessions = "select count(*) from pg_stat_activity where application_name = 'fencepost lab'";
    until("the sessions are gone", || ask(&server, sessions) == "0");
}

#[test]
fn an_external_lock_that_does_not_get_ready_leaves_no_schema() {
    let server = Postgres::start().unwrap();
    let user_store = server.url();
    for (lock, code) in [("./no-such-lock --fast", 64), ("sh -c 'exit 4'", 76)] {
        let mut command = fencepost("crash");
        command.args(["--store", &user_store]);
        let ran = finish(command.arg(format!("--lock={lock}")).output().unwrap());
        assert_eq!(ran.code, code, "{}", ran.stderr);
        assert_eq!(ask(&server, SCHEMAS), "0", "{lock}");
    }
}

#[test]
fn who_may_not_make_a_schema_is_told_before_anything_starts() {
    let server = Postgres::start().unwrap();
    ask(&server, "create role guest login");
    let url = server.url().replace("fencepost@", "guest@");
    let ran = run(&format!("oversell --store {url}"));
    assert_eq!((ran.code, ran.stdout.as_str()), (69, ""));
    let why = "the user guest may not make a schema in the database postgres";
    assert!(ran.stderr.contains(why), "{}", ran.stderr);
    assert!(ran.stderr.contains("none: no process was started"));
    let nobody = server.url().replace("fencepost@", "nobody:hunter2@");
    let ran = run(&format!("oversell --store {nobody}"));
    assert_eq!(ran.code, 69);
    assert!(ran.stderr.contains("nobody:***@"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
}

#[test]
fn a_server_that_is_not_there_is_told_before_anything_starts() {
    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .unwrap()
        .port();
    let ran = run(&format!(
        "retry --store postgres://shop:hunter2@127.0.0.1:{port}/shop"
    ));
    assert_eq!((ran.code, ran.stdout.as_str()), (69, ""));
    assert_eq!(
        ran.stderr,
        format!(
            "error: cannot reach the store\n  \
             where     postgres://shop:***@127.0.0.1:{port}/shop: connection refused, tried for 2.0 s\n  \
             effect    none: no process was started\n  \
             try       start Postgres there · --store postgres for a private one · no --store for sqlite\n"
        )
    );
}

#[test]
fn an_invalid_postgres_address_is_refused() {
    let ran = run("retry --store postgres://u:hunter2@h:port/d");
    assert_eq!(ran.code, 64);
    let what = "error: 'postgres://u:***@h:port/d' is not a valid address of Postgres\n";
    assert!(ran.stderr.starts_with(what), "{}", ran.stderr);
    assert!(!ran.stderr.contains("hunter2"));
}

#[test]
fn the_database_ends_a_deadlock_and_a_dead_session() {
    let ran = run("deadlock --lock=row --ttl 500 --store postgres");
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let shown = shape(&ran.stdout);
    assert!(
        shown.contains("HELD The store ended the deadlock after N ms: "),
        "{shown}"
    );
    let ran = run("crash --lock=unique-index --ttl 300 --store postgres");
    assert_eq!(ran.code, 3, "{}{}", ran.stdout, ran.stderr);
    let next = "fencepost crash --lock=lease --ttl 300 --store postgres";
    assert!(ran.stdout.contains(next), "{}", ran.stdout);
}

#[test]
fn everything_on_postgres_is_as_expected() {
    let ran = run("run-all --store postgres --json");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (&document["as_expected"], &document["total"]),
        (&97.into(), &97.into())
    );
    for run in document["runs"].as_array().unwrap() {
        assert_eq!(run["verdict"]["outcome"], run["verdict"]["expected"]);
        assert_eq!(run["store"], "postgres");
    }
}
