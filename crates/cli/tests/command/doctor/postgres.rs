//! Tests of `doctor` on Postgres.

use std::net::TcpListener;

use fencepost_rig::{Pooler, Postgres};

use super::Seen;
use crate::interrupt::until;
use crate::run;

fn tell(server: &Postgres, sql: &str) -> String {
    let output = server.psql().args(["-c", sql]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn table(server: &Postgres) -> String {
    format!("{}?table=shedlock", server.url())
}

/// Starts a server with the tables that the library needs. Returns the address of an ordinary user, to whom limits apply.
fn with_tables() -> (Postgres, String) {
    let server = Postgres::start().unwrap();
    let refused = run(&format!("exec --name x --store {} -- true", table(&server)));
    let (_, statements) = refused.stderr.split_once("CREATE").unwrap();
    let statements: Vec<&str> = statements.split_whitespace().collect();
    let statements = statements.join(" ");
    let end = statements.rfind(';').unwrap();
    tell(&server, &format!("CREATE {}", &statements[..=end]));
    tell(&server, "create role shop login");
    tell(&server, "grant all on all tables in schema public to shop");
    let url = table(&server).replace("fencepost@", "shop@");
    (server, url)
}

#[test]
fn a_server_with_nothing_the_matter_is_fine_for_either_kind_of_lock() {
    let (server, url) = with_tables();
    let before = tell(
        &server,
        "select pg_current_wal_insert_lsn(), count(*) from pg_locks where locktype = 'advisory'",
    );
    let seen = Seen::at(&server.url());
    assert_eq!((seen.ran.code, seen.troubles()), (0, vec![]));
    seen.says(", a primary, up ");
    seen.says(
        "advisory locks exclude (tested); the first program that opens the store for locking creates the sequences",
    );
    seen.says("a session of its own");
    let restarts =
        "every restart of the server frees the advisory locks, and their holders are notified";
    seen.says(restarts);
    assert!(
        seen.ran
            .stdout
            .ends_with("\nall fine: nothing was found that endangers locks here.\n")
    );
    let seen = Seen::at(&url);
    assert_eq!((seen.ran.code, seen.troubles()), (0, vec![]));
    seen.says("table public.shedlock has the right columns, and the user may use them");
    seen.says("as user shop");
    assert!(!seen.ran.stdout.contains("every restart"));
    let sequences = "select count(*) from pg_class where relname like 'fencepost_%'";
    assert_eq!(tell(&server, sequences), "0", "the doctor made something");
    let after = tell(
        &server,
        "select pg_current_wal_insert_lsn(), count(*) from pg_locks where locktype = 'advisory'",
    );
    assert_eq!(before.split('|').nth(1), Some("0"));
    assert_eq!(after.split('|').nth(1), Some("0"), "{before} {after}");
    assert_eq!(tell(&server, "select count(*) from shedlock"), "0");
}

/// A program that uses the address creates the table. The doctor only inspects.
#[test]
fn a_table_that_is_to_be_made_is_not_made_by_the_doctor() {
    let server = Postgres::start().unwrap();
    let seen = Seen::at(&table(&server));
    assert_eq!(seen.troubles(), ["danger table"]);
    seen.says("say create=true in the address");
    let url = format!("{}&create=true", table(&server));
    let seen = Seen::at(&url);
    assert_eq!(
        (seen.ran.code, seen.troubles()),
        (0, vec!["unknown table".to_owned()])
    );
    seen.says("whether create=true can create it was not tested");
    let tables = "select count(*) from pg_class where relname like 'shedlock%'";
    assert_eq!(tell(&server, tables), "0");
    let used = run(&format!("exec --name x --store {url} -- true"));
    assert_eq!(used.code, 0, "{}", used.stderr);
    Seen::at(&url).says("table public.shedlock has the right columns, and the user may use them");
    let wrong = run(&format!("doctor --store {}&create=maybe", table(&server)));
    assert_eq!(wrong.code, 64, "{}", wrong.stderr);
}

#[test]
fn what_a_power_cut_costs_depends_on_the_kind_of_lock() {
    let server = Postgres::start_with(&["fsync=off", "full_page_writes=off"]).unwrap();
    let seen = Seen::at(&server.url());
    assert_eq!(
        (seen.ran.code, seen.troubles()),
        (1, vec!["caution persistence".to_owned()])
    );
    seen.says("fsync and full_page_writes off");
    seen.says("the fence can fall");
    let seen = Seen::at(&table(&server));
    assert_eq!(seen.troubles(), ["danger table", "caution persistence"]);
    seen.says("a lock that is held can be granted again");
    seen.says("CREATE TABLE");
}

#[test]
fn limits_of_time_cut_the_table_short_and_not_the_sessions_of_locks() {
    let (server, url) = with_tables();
    tell(&server, "alter role shop set statement_timeout = '300ms'");
    tell(&server, "alter role shop set idle_session_timeout = '45s'");
    let seen = Seen::at(&url);
    assert_eq!(
        seen.troubles(),
        ["caution time limits", "caution idle sessions"]
    );
    seen.says("statement_timeout is 300 ms");
    seen.says("idle_session_timeout is 45,000 ms");
    seen.says("do: ALTER ROLE shop SET statement_timeout = '5s'");
    let advisory = server.url().replace("fencepost@", "shop@");
    tell(&server, "grant create on schema public to shop");
    let seen = Seen::at(&advisory);
    assert_eq!((seen.ran.code, seen.troubles()), (0, vec![]));
    seen.says(
        "statement_timeout 300 ms, idle_session_timeout 45,000 ms: does not apply to the sessions of locks",
    );
    tell(
        &server,
        "alter role shop set default_transaction_read_only = on",
    );
    assert_eq!(Seen::at(&advisory).ran.code, 0);
    let seen = Seen::at(&url);
    assert_eq!(seen.ran.code, 2);
    assert_eq!(seen.troubles()[0], "danger read-only");
}

#[test]
fn rights_names_and_room_for_connections() {
    let server = Postgres::start_with(&["max_connections=12", "track_activities=off"]).unwrap();
    tell(&server, "create role shop login");
    tell(&server, "revoke create on schema public from public");
    let url = server.url().replace("fencepost@", "shop@");
    let seen = Seen::at(&url);
    assert_eq!(seen.troubles(), ["danger exclusion", "caution names"]);
    seen.says("CREATE SEQUENCE IF NOT EXISTS public.fencepost_fence");
    let seen = Seen::at(&format!("{url}?fence=transaction-id"));
    assert_eq!(seen.troubles(), ["caution names", "caution fence"]);
    tell(&server, "grant create on schema public to shop");
    let seen = Seen::at(&url);
    assert_eq!(
        (seen.ran.code, seen.troubles()),
        (1, vec!["caution names".to_owned()])
    );
    tell(&server, "alter role shop connection limit 6");
    let seen = Seen::at(&url);
    assert_eq!(seen.troubles(), ["caution connections", "caution names"]);
    seen.says("5 of 6 connections of the user are left");
    assert_eq!(seen.finding("connections")["figures"]["left"], 5);
    tell(&server, "alter role shop connection limit 1");
    let seen = Seen::at(&url);
    assert_eq!(seen.ran.code, 2);
    seen.says("no second connection: ");
    tell(&server, "alter role shop connection limit -1");
    tell(
        &server,
        "revoke execute on function pg_logical_emit_message(boolean, text, text) from public",
    );
    let seen = Seen::at(&url);
    assert_eq!(seen.finding("rights")["severity"], "danger");
    seen.says("user shop may not call pg_logical_emit_message(boolean, text, text)");
}

#[test]
fn a_standby_takes_no_locks_and_makes_the_primary_forget_some() {
    let server = Postgres::start().unwrap();
    let standby = server.standby().unwrap();
    let standbys = "select count(*) from pg_stat_replication where state = 'streaming'";
    until("it follows", || tell(&server, standbys) == "1");
    let seen = Seen::at(&standby.url());
    assert_eq!(seen.ran.code, 2);
    seen.says(", a standby, up ");
    assert_eq!(seen.troubles(), ["danger standby"]);
    assert!(seen.ran.stdout.ends_with(": no lock can be taken here.\n"));
    let seen = Seen::at(&server.url());
    assert_eq!(seen.troubles(), ["caution standbys"]);
    seen.says("1 standby, asynchronous");
    seen.says("the later one has the larger fence");
    let last = ": a restart or a failover can forget locks that are held.\n";
    assert!(seen.ran.stdout.ends_with(last), "{}", seen.ran.stdout);
    let seen = Seen::at(&table(&server));
    assert_eq!(seen.troubles(), ["danger table", "caution standbys"]);
    seen.says("A promotion can forget a lock that was granted just before it: then two clients hold the lock.");
    tell(&server, "alter system set synchronous_standby_names = '*'");
    tell(&server, "select pg_reload_conf()");
    until("it is waited for", || {
        tell(
            &server,
            "select count(*) from pg_stat_replication where sync_state = 'sync'",
        ) == "1"
    });
    let seen = Seen::at(&server.url());
    assert_eq!((seen.ran.code, seen.troubles()), (0, vec![]));
    seen.says("1 standby, synchronous");
    let nobody = "alter system set synchronous_standby_names = 'nosuch'";
    tell(&server, nobody);
    tell(&server, "select pg_reload_conf()");
    let asynchronous = "select count(*) from pg_stat_replication where sync_state = 'async'";
    until("it is not waited for", || {
        tell(&server, asynchronous) == "1"
    });
    let seen = Seen::at(&server.url());
    assert!(
        seen.troubles().contains(&"danger standbys".to_owned()),
        "{:?}",
        seen.troubles()
    );
    seen.says("1 standby, and synchronous_standby_names is 'nosuch', which includes none of them");
    tell(&server, "alter system set synchronous_standby_names = '*'");
    tell(&server, "select pg_reload_conf()");
    until("it is read", || {
        tell(&server, "show synchronous_standby_names") == "*"
    });
    drop(standby);
    until("it is gone", || {
        tell(&server, "select count(*) from pg_stat_replication") == "0"
    });
    let seen = Seen::at(&server.url());
    assert!(
        seen.troubles().contains(&"danger standbys".to_owned()),
        "{:?}",
        seen.troubles()
    );
    seen.says("synchronous_standby_names is '*', and none is connected");
}

#[test]
fn a_pooler_that_gives_sessions_away() {
    let server = Postgres::start().unwrap();
    for (mode, size, code) in [
        ("transaction", 1, 2),
        ("transaction", 10, 2),
        ("statement", 10, 2),
        ("session", 20, 0),
    ] {
        let pooler = match Pooler::start(&server, mode, size) {
            Ok(pooler) => pooler,
            Err(error) => return println!("skipped: {error}"),
        };
        let seen = Seen::at(&pooler.url());
        assert_eq!(seen.ran.code, code, "{mode} {size}: {}", seen.ran.stdout);
        if code == 2 {
            assert_eq!(seen.troubles(), ["danger pooler"], "{mode}");
        }
    }
}

#[test]
fn who_is_not_there_or_lets_nobody_in() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let ran = run(&format!(
        "doctor --store postgres://shop:hunter2@127.0.0.1:{port}/shop"
    ));
    assert_eq!((ran.code, ran.stdout.as_str()), (69, ""));
    assert!(
        ran.stderr.starts_with(&format!(
            "error: cannot reach the store\n  where     postgres://shop:***@127.0.0.1:{port}/shop: "
        )),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr
            .contains("\n  effect    none: nothing was examined\n")
    );
    let server = Postgres::start().unwrap();
    let url = server.url().replace("fencepost@", "nobody:hunter2@");
    let ran = run(&format!("doctor --store {url}"));
    assert_eq!((ran.code, ran.stdout.as_str()), (69, ""));
    assert!(
        ran.stderr.starts_with("error: cannot use the store\n"),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains("hunter2"));
    let ran = run("doctor --store postgres://u:hunter2@h:port/d");
    assert_eq!(ran.code, 64, "{}", ran.stderr);
    assert!(!ran.stderr.contains("hunter2"));
}
