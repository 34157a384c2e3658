//! Tests of `oversell` and its reports.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::{fencepost, finish, run, shape};

#[test]
fn without_a_lock_more_is_sold_than_there_is() {
    let ran = run("oversell --lock=none --stock=1 --concurrency=10 --delay=20000 --seed 7041");
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(
        lines[0],
        "oversell   10 processes try to buy from a stock of 1, all at once"
    );
    assert_eq!(
        lines[1],
        "  lock none (no coordination)   delay 20,000 µs   store sqlite (one machine)   seed 7041"
    );
    assert_eq!(
        lines[3],
        "      at ms  process  outcome     stock    took ms"
    );
    let shape = shape(&ran.stdout);
    assert!(
        shape.contains("\nN proc_N ✓ sold N → N N order N of N\n"),
        "{shape}"
    );
    assert!(
        shape.contains("\nN proc_N ✗ sold N → N N order N of N\n"),
        "{shape}"
    );
    let report = "\
total attempts N initial stock N total duration N ms
successful N final stock N contention rate N %
failed (stock) N expected stock N sold beyond stock N
failed (lock) N initial − sold N unsold / buyers refused N / N

BROKEN N orders for a stock of N. The store says N are left, the orders say N.
proof #N N ms proc_N buys a unit order N: the stock is used up
#N N ms proc_N buys a unit order N: one more than there was
#N N ms the lab reads the stock: N N − N = N: ";
    assert!(shape.contains(report), "{shape}");
    assert!(ran.stdout.contains("\nBROKEN   "));
    assert!(
        ran.stdout
            .contains("  next      fencepost oversell --lock=safe --stock=1 --concurrency=10")
    );
}

#[test]
fn without_a_lock_updates_are_lost_also_when_everybody_could_be_served() {
    let ran = run("oversell --lock=none --stock=50 --concurrency=50 --quiet");
    assert_eq!(ran.code, 1);
    assert!(shape(&ran.stdout).contains(
        "BROKEN N orders for a stock of N. The store says N are left, the orders say N."
    ));
    assert!(ran.stdout.contains("lost\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains(": the same unit\n"));
    for removed in ["at ms", "next ", "why "] {
        assert!(
            !ran.stdout.contains(removed),
            "--quiet leaves '{removed}' out"
        );
    }
}

#[test]
fn with_a_lock_one_unit_is_sold_once() {
    let ran = run("oversell --lock=safe --stock=1 --concurrency=10 --delay=50000");
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stdout
            .contains("HELD   1 order for a stock of 1, and 0 left: orders and stock agree.\n")
    );
    let shape = shape(&ran.stdout);
    assert!(
        shape.contains("\nwitness N of N found the lock taken"),
        "{shape}"
    );
    assert!(shape.contains("\nlimits one run, no fault: "), "{shape}");
    assert!(
        shape.contains("\nN proc_N – busy – N lock taken\n"),
        "{shape}"
    );
}

#[test]
fn everybody_who_waits_is_served_exactly() {
    let ran = run("oversell --lock=safe --wait 20000 --stock=5");
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let verdict = "HELD   5 orders for a stock of 5, and 0 left: orders and stock agree. Nobody gave up waiting.\n";
    assert!(ran.stdout.contains(verdict), "{}", ran.stdout);
    assert!(
        ran.stdout
            .contains("      at ms  process  outcome     stock   waited ms  took ms\n")
    );
}

#[test]
fn alone_a_lock_shows_nothing() {
    let ran = run("oversell --lock=safe --concurrency=1");
    assert_eq!(ran.code, 2);
    assert!(ran.stdout.contains(
        "\nINCONCLUSIVE   Nothing broke, and nothing was tested: no attempt found the lock taken.\n"
    ));
    assert!(ran.stdout.contains("  missing   a witness of contention. "));
    let control = run("oversell --lock=none --concurrency=1 -q");
    assert_eq!(control.code, 2);
    assert!(
        control
            .stdout
            .contains("  missing   a race that goes wrong. "),
        "{}",
        control.stdout
    );
}

#[test]
fn all_strategies_stand_side_by_side() {
    let ran = run("oversell --all --concurrency=10 --delay=50000");
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    let shape = shape(&ran.stdout);
    assert!(
        shape.contains("\nNO COORDINATION\nnone ✗ BROKEN N N N N N all ten read the same unit\n"),
        "{shape}"
    );
    for line in [
        "decrement ✗ BROKEN N N N N N checked first, subtracted anyway",
        "LOCKS THAT END AT THE PROCESS",
        "LOCKS WITH A KNOWN FLAW",
        "naive ✓ HELD N N N N N flaw not met: see crash",
        "LOCKS\nsafe ✓ HELD N N N N N",
        "NO LOCK NEEDED\natomic ✓ HELD N N N N N one conditional update",
        "optimistic ✓ HELD N N N N N N met version conflicts, retried",
        "constraint ✓ HELD N N N N N the store refused N",
        "queue ✓ HELD N N N N N one consumer, ten requests",
    ] {
        assert!(shape.contains(&format!("\n{line}\n")), "{line}: {shape}");
    }
    assert!(
        ran.stdout
            .contains("\n16 of 16 as expected   11 HELD, 5 BROKEN\n")
    );
    assert!(
        ran.stdout.lines().all(|line| line.chars().count() <= 100),
        "{}",
        ran.stdout
    );
}

/// Returns whether a private server can be started here. Says so if it cannot.
fn redis_is_here() -> bool {
    let ran = run("oversell --store redis --concurrency=1 -q");
    if ran.stderr.contains("none is installed") {
        println!("skipped: no redis-server (apt-get install redis-server)");
        return false;
    }
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    true
}

#[test]
fn every_strategy_does_what_is_expected_of_it_every_time() {
    let stores = if redis_is_here() {
        &["sqlite", "redis"][..]
    } else {
        &["sqlite"]
    };
    for store in stores {
        for _ in 0..5 {
            let ran = run(&format!(
                "oversell --all --concurrency=10 --delay=20000 --store {store}"
            ));
            assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
        }
    }
}

#[test]
fn on_redis_the_same_race_is_run() {
    if !redis_is_here() {
        return;
    }
    let ran = run("oversell --all --concurrency=10 --delay=20000 --store redis");
    assert!(
        ran.stdout.contains("   redis (a private server)   seed "),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains("\n16 of 16 as expected"),
        "{}",
        ran.stdout
    );
    let ran = run("oversell --lock=safe --wait 20000 --stock=5 --store redis");
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let verdict = "HELD   5 orders for a stock of 5, and 0 left: orders and stock agree. Nobody gave up waiting.\n";
    assert!(ran.stdout.contains(verdict), "{}", ran.stdout);
}

#[test]
fn a_server_of_the_users_is_left_as_it_was_found() {
    use fencepost_rig::{Redis, ServerError, resp};
    let server = match Redis::start() {
        Ok(server) => server,
        Err(ServerError::NotInstalled { .. }) => {
            println!("skipped: no redis-server ({})", Redis::INSTALL);
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let timeout = std::time::Duration::from_secs(10);
    let mut connection = resp::Connection::open(server.address(), timeout).unwrap();
    connection.ask(&["SET", "product_A", "mine"]).unwrap();
    for lock in ["queue", "late-expiry"] {
        let arguments = format!(
            "oversell --lock={lock} --concurrency=5 --store {}",
            server.url()
        );
        let ran = run(&arguments);
        assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
        assert!(
            ran.stdout
                .contains(&format!("store {}   seed", server.url()))
        );
        let left = connection.ask(&["KEYS", "*"]).unwrap();
        assert_eq!(
            left,
            resp::Value::List(vec![resp::Value::Text("product_A".into())])
        );
    }
}

#[test]
fn a_surprise_is_reported_with_its_command() {
    let ran = run("oversell --all --concurrency=1 --seed 3");
    assert_eq!(ran.code, 1);
    assert!(
        ran.stdout
            .contains("\n1 of 16 as expected   16 INCONCLUSIVE\n"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("expected BROKEN\n"));
    let repeated = "  repeated  none, ";
    assert!(ran.stdout.contains(repeated), "{}", ran.stdout);
    assert!(ran.stdout.contains(
        "  surprise  INCONCLUSIVE: fencepost oversell --lock=none --stock=1 --concurrency=1 --seed 3\n"
    ));
}

#[test]
fn colours_and_glyphs_follow_the_flags_and_the_environment() {
    let race = "oversell --concurrency=5 --delay 100000";
    let colourful = |command: &mut std::process::Command| {
        finish(command.output().unwrap())
            .stdout
            .contains("\x1b[1;31mBROKEN\x1b[0m")
    };
    assert!(!colourful(&mut fencepost(race)), "a pipe");
    assert!(colourful(fencepost(race).env("CLICOLOR_FORCE", "1")));
    assert!(!colourful(
        fencepost(race)
            .env("CLICOLOR_FORCE", "1")
            .env("NO_COLOR", "1")
    ));
    assert!(colourful(
        fencepost(race).arg("--color=always").env("NO_COLOR", "1")
    ));
    assert!(!colourful(
        fencepost(race)
            .arg("--color=never")
            .env("CLICOLOR_FORCE", "1")
    ));
    for ran in [
        finish(fencepost(race).arg("--ascii").output().unwrap()),
        finish(fencepost(race).env("LC_ALL", "C").output().unwrap()),
    ] {
        assert!(ran.stdout.is_ascii(), "{}", ran.stdout);
        assert!(ran.stdout.contains("x sold      1 > 0"));
    }
}

#[test]
fn who_stops_reading_is_not_bothered() {
    let mut child = fencepost("oversell --concurrency=10 --delay=50000")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.starts_with("oversell   10 processes"));
    let ended = finish(child.wait_with_output().unwrap());
    assert_eq!(
        (ended.code, ended.stderr.as_str()),
        (1, ""),
        "the verdict stands, nobody complains"
    );
}

#[test]
fn what_to_run_next_follows_from_the_verdict() {
    let ran = run("oversell --lock=none --concurrency=10 --delay 20000");
    let words = shape(&ran.stdout);
    for command in [
        "next fencepost oversell --lock=safe --stock=N --concurrency=N --delay=N",
        "fencepost oversell --all --stock=N --concurrency=N --delay=N",
        "fencepost oversell --lock=none --concurrency=N --delay=N --report race.html",
    ] {
        assert!(
            words.contains(&format!("\n{command}")),
            "{command}\n{words}"
        );
    }
    let ran = run("oversell --lock=safe --concurrency=10 --delay 20000");
    let faults = "next      fencepost crash --lock=safe · fencepost crash --ttl-edge --lock=safe\n";
    assert!(ran.stdout.ends_with(faults), "{}", ran.stdout);
}
