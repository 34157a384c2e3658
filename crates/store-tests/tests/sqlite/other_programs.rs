//! Python's `sqlite3` module and the store on the same file.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fencepost::stores::sqlite::Sqlite;
use fencepost::{Backend, Effect, ErrorKind};

use crate::support::{
    LONG, Place, claim, renew, stand_and_freeze, take, until, until_waiting, wait_for,
};

/// A Python program that stops at each `pause()`, reports it, and continues on request.
struct Python {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Python {
    /// Starts the program. Panics if Python is not installed.
    fn start(place: &Place, program: &str) -> Self {
        let prelude = "import sqlite3, sys\n\
                       def pause(*said):\n    print(*said, flush=True); sys.stdin.readline()\n\
                       db = sqlite3.connect(sys.argv[1], isolation_level=None)\n";
        let spawned = Command::new("python3")
            .arg("-c")
            .arg(format!("{prelude}{program}"))
            .arg(&place.path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child =
            spawned.expect("python3 can be started; to install it: apt-get install python3");
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn says(&mut self) -> String {
        self.lines.next().expect("it says something").unwrap()
    }

    fn go_on(&mut self) {
        writeln!(self.child.stdin.as_mut().unwrap()).unwrap();
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn python_reads_who_holds_what_and_who_waits() {
    let place = Place::new();
    let store = place.open().await;
    let (held, waiter) = (claim("ключ 锁", LONG), claim("ключ 锁", LONG));
    let grant = take(&store, &held).await;
    stand_and_freeze(&store, &waiter).await;
    let program = "print(*db.execute('SELECT name, owner, epoch FROM fencepost_lock').fetchone(), sep='|')\n\
                   print(*db.execute('SELECT name, owner FROM fencepost_line').fetchone(), sep='|', flush=True)";
    let mut python = Python::start(&place, program);
    let expected = format!("{}|{}|{}", held.name, held.owner, grant.epoch);
    assert_eq!(python.says(), expected);
    assert_eq!(python.says(), format!("{}|{}", waiter.name, waiter.owner));
}

#[tokio::test]
async fn a_file_locked_by_another_program_is_unavailable_and_nothing_happens() {
    let place = Place::new();
    let open = || {
        Sqlite::builder(&place.path)
            .busy_timeout(Duration::from_millis(100))
            .open()
    };
    let store = open().await.unwrap();
    let held = claim("held", LONG);
    take(&store, &held).await;
    let mut python = Python::start(
        &place,
        "db.execute('BEGIN EXCLUSIVE'); pause('locked')\n\
                                                  db.execute('COMMIT'); pause('free')",
    );
    assert_eq!(python.says(), "locked");

    let mine = claim("one", LONG);
    let wait = fencepost::backend::Wait::default();
    let errors = [
        store.try_acquire(&mine).await.unwrap_err(),
        store.acquire(&mine, &wait).await.unwrap_err(),
        renew(&store, &held).await.unwrap_err(),
        store.release(&held).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(error.effect(), Effect::None);
        let text = error.to_string();
        assert!(
            text.contains("locked by another program for longer than 100ms"),
            "{text}"
        );
    }
    assert!(!wait.was_busy());
    // Inspecting needs no lock.
    assert!(store.inspect(&held.name).await.unwrap().is_some());
    open().await.unwrap();

    python.go_on();
    assert_eq!(python.says(), "free");
    take(&store, &mine).await;
    for claim in [&mine, &held] {
        store.release(claim).await.unwrap();
    }
    assert_eq!(place.rows(), (0, 0));
}

#[tokio::test]
async fn a_waiter_outlasts_another_programs_lock() {
    // On a busy machine, a short lease may end before Python has locked the file.
    for ttl_ms in [300, 3_000, 30_000] {
        if outlasts_another_programs_lock(Duration::from_millis(ttl_ms)).await {
            return;
        }
    }
    panic!("Python never came before the end of the lease");
}

/// Returns whether the lease lasted until Python had locked the file.
async fn outlasts_another_programs_lock(ttl: Duration) -> bool {
    let place = Place::new();
    let (a, b) = (place.open().await, place.open().await);
    let program =
        "pause('ready'); db.execute('BEGIN EXCLUSIVE'); pause('locked'); db.execute('COMMIT')";
    let mut python = Python::start(&place, program);
    assert_eq!(python.says(), "ready");
    let (held, waiter) = (claim("one", ttl), claim("one", LONG));
    take(&a, &held).await;
    let waiting = tokio::spawn({
        let waiter = waiter.clone();
        async move {
            wait_for(&b, &waiter).await;
            b
        }
    });
    until_waiting(&a, &waiter).await;
    python.go_on();
    assert_eq!(python.says(), "locked");
    let record = a.inspect(&held.name).await.unwrap().unwrap();
    if record
        .holder
        .is_none_or(|holder| holder.owner == Some(waiter.owner))
    {
        return false;
    }
    // After the end of the lease the waiter asks, and SQLite repeatedly refuses it.
    until(async || {
        let record = a.inspect(&held.name).await.unwrap().unwrap();
        record.holder.is_none()
    })
    .await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished());
    python.go_on();
    let b = waiting.await.unwrap();
    b.release(&waiter).await.unwrap();
    assert_eq!(place.rows(), (0, 0));
    true
}

#[tokio::test]
async fn the_tables_live_beside_an_applications_own() {
    let place = Place::new();
    let sql = place.sql();
    sql.execute_batch(
        "PRAGMA application_id = 77; PRAGMA user_version = 5;
         CREATE TABLE stock (product TEXT, left_over INTEGER); INSERT INTO stock VALUES ('shirt', 3);",
    )
    .unwrap();
    let store = place.open().await;
    take(&store, &claim("shirt", LONG)).await;
    let number = |query: &str| {
        sql.query_row(query, [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    assert_eq!(number("PRAGMA application_id"), 77);
    assert_eq!(number("PRAGMA user_version"), 5);
    assert_eq!(number("SELECT left_over FROM stock"), 3);
    let strangers = "SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE 'fencepost%' AND name NOT LIKE 'sqlite%'";
    assert_eq!(number(strangers), 1);
}
