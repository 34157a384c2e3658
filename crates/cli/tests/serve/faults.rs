//! Tests of failures at startup: the service says why it cannot start, and what to do.

use crate::http::LONG;
use crate::stage::{Stage, order};

#[test]
fn a_port_that_is_taken_is_never_shared() {
    let stage = Stage::new();
    let service = stage.serve("");
    let port = service.client.0.port();
    let (code, stdout, stderr) = stage.run(&format!("serve --port {port} --db other.db"));
    assert_eq!((code, stdout.as_str()), (71, ""), "{stderr}");
    let expected = format!(
        "error: cannot listen\n  where     127.0.0.1:{port}: address in use\n  \
         effect    none: nothing was opened\n  try       --port {}\n",
        port.wrapping_add(1).max(1024)
    );
    assert_eq!(stderr, expected);
    assert!(!stage.path("other.db").exists());
}

#[test]
fn a_database_that_cannot_be_is_told_before_anything_is_served() {
    let stage = Stage::new();
    for (flags, advice) in [
        (
            "--db nowhere/shop.db",
            "in a folder that this user may write to",
        ),
        ("--db .", "this is a folder, but the database is a file"),
    ] {
        let (code, stdout, stderr) = stage.run(&format!("serve --port 0 {flags}"));
        assert_eq!((code, stdout.as_str()), (73, ""), "{stderr}");
        assert!(
            stderr.starts_with("error: cannot open the database\n"),
            "{stderr}"
        );
        assert!(stderr.contains(advice), "{stderr}");
    }
    std::fs::write(
        stage.path("not.db"),
        "this is no database, but long enough to be looked at",
    )
    .unwrap();
    let (code, _, stderr) = stage.run("serve --port 0 --db not.db");
    assert_eq!(code, 73, "{stderr}");
    // The folder is not the problem.
    let expected = "error: cannot use the file as a database\n  where     not.db: file is not a database\n  \
         effect    nothing is served\n  \
         try       --db FILE: an SQLite database, or a file that does not exist yet\n";
    assert_eq!(stderr, expected);
    let (code, _, stderr) = stage.run("serve --port 0 --db mysql://shop:hunter2@db/shop");
    assert_eq!(code, 64);
    assert!(!stderr.contains("hunter2"), "{stderr}");
}

#[test]
fn a_store_that_is_not_there_is_told_before_anything_is_served() {
    let stage = Stage::new();
    let (code, stdout, stderr) = stage.run("serve --port 0 --store redis://u:hunter2@127.0.0.1:1");
    assert_eq!((code, stdout.as_str()), (69, ""), "{stderr}");
    assert!(
        stderr.starts_with("error: cannot use the store\n"),
        "{stderr}"
    );
    assert!(!stderr.contains("hunter2"), "{stderr}");
}

#[cfg(feature = "postgres")]
#[test]
fn a_database_server_that_is_not_there_is_told_before_anything_is_served() {
    let stage = Stage::new();
    let address = "postgres://shop:hunter2@127.0.0.1:1/shop";
    let (code, stdout, stderr) = stage.run(&format!("serve --port 0 --db {address}"));
    assert_eq!((code, stdout.as_str()), (69, ""), "{stderr}");
    assert!(
        stderr.starts_with("error: cannot use the database\n"),
        "{stderr}"
    );
    assert!(!stderr.contains("hunter2"), "{stderr}");
}

/// Two addresses of Postgres that no server could make valid: certificates without TLS, and a port that is no number.
#[cfg(feature = "postgres")]
const INVALID: [&str; 2] = [
    "postgres://u:hunter2@127.0.0.1:1/x?sslrootcert=/x",
    "postgres://u:hunter2@127.0.0.1:many/x",
];

#[cfg(feature = "postgres")]
#[test]
fn an_invalid_address_of_a_database_is_a_matter_of_the_command_line() {
    for address in INVALID {
        let stage = Stage::new();
        let (code, stdout, stderr) = stage.run(&format!("serve --port 0 --db {address}"));
        assert_eq!((code, stdout.as_str()), (64, ""), "{stderr}");
        assert!(!stderr.contains("start Postgres there"), "{stderr}");
        assert!(stderr.contains("--db postgres://"), "{stderr}");
        assert!(!stderr.contains("hunter2"), "{stderr}");
    }
}

#[cfg(feature = "postgres")]
#[test]
fn a_lock_store_that_cannot_be_opened_leaves_no_database_behind() {
    for (address, expected) in [
        (INVALID[0], 64),
        (INVALID[1], 64),
        ("postgres://127.0.0.1:1/x", 69),
    ] {
        let stage = Stage::new();
        let (code, _, stderr) = stage.run(&format!("serve --port 0 --store {address}"));
        assert_eq!(code, expected, "{stderr}");
        assert!(stderr.contains("  effect    none\n"), "{stderr}");
        assert!(!stage.path("shop.db").exists(), "{stderr}");
    }
}

#[test]
fn flags_that_make_no_sense_are_told_so() {
    let stage = Stage::new();
    for flags in [
        "--port 99999",
        "--host nowhere",
        "--retry often",
        "--wait-mode never",
        "--order-path hope",
        "--reserve-for 10",
        "--reserve-for 0s",
        "--deadline 0s",
        "--reserve-for 999999999d",
        "--deadline 2h",
        "--ttl 1ms",
        "--log xml",
        "--admin-token short",
        "--max-in-flight 0",
    ] {
        let (code, stdout, stderr) = stage.run(&format!("serve --port 0 {flags}"));
        assert_eq!((code, stdout.as_str()), (64, ""), "{flags}: {stderr}");
        assert!(stderr.contains("  try  "), "{flags}: {stderr}");
    }
}

#[test]
fn a_time_that_is_too_long_is_named_as_it_was_typed() {
    let (_, _, stderr) = Stage::new().run("serve --port 0 --deadline 2h");
    assert_eq!(
        stderr,
        "error: a --deadline of 2h is too long\n  where     --deadline 2h\n  effect    none: nothing was opened\n  \
         try       up to 1h\n"
    );
}

#[test]
fn an_error_in_the_log_always_names_its_request() {
    let stage = Stage::new();
    let service = stage.serve("");
    service.put_in("lamp", 5);
    let database = rusqlite::Connection::open(stage.path("shop.db")).unwrap();
    database.busy_timeout(LONG).unwrap();
    database
        .execute("ALTER TABLE checkout_keys RENAME TO gone", [])
        .unwrap();
    let headers = ["X-Request-Id: find-me", "Idempotency-Key: k"];
    let body = order("c", &[("lamp", 1)]);
    let failed = service
        .client
        .try_post("/v1/checkout/order", &body, &headers);
    let failed = failed.unwrap();
    assert_eq!(failed.status, 503);
    assert_eq!(
        failed.problem()["detail"],
        "the database failed: the order may have been made. Repeat the request with the same Idempotency-Key"
    );
    let log = stage.read("stderr");
    let mut errors = log.lines().filter(|line| line.contains("ERROR"));
    assert!(errors.any(|line| line.contains("find-me")), "{log}");
}

#[test]
fn it_answers_to_its_old_name() {
    let stage = Stage::new();
    let (code, stdout, _) = stage.run("http-server --help");
    assert_eq!(code, 0);
    assert!(stdout.contains("Usage: fencepost serve") && stdout.contains("Examples"));
    let (code, _, stderr) = stage.run("http-server --port nowhere");
    assert_eq!(code, 64, "{stderr}");
}
