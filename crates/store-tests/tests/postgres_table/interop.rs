//! Mutual exclusion with ShedLock on the same table: real `psql` processes send ShedLock's statements.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fencepost::backend::{Release, Renewal};
use fencepost::{Backend, Locker};

use crate::support::{
    LONG, NAME, Plain, Server, claim, eventually, is_soak, locker, run, run_within,
};

/// ShedLock's statements for Postgres with the server's time (`usingDbTime`), as its JDBC provider builds them.
const NOW: &str = "timezone('utc', CURRENT_TIMESTAMP)";

pub(crate) fn insert(seconds: u32) -> String {
    format!(
        "INSERT INTO shedlock(name, lock_until, locked_at, locked_by) \
         VALUES('{NAME}', {NOW} + cast('{seconds}000 milliseconds' as interval), {NOW}, :'me') ON CONFLICT (name) DO UPDATE{};",
        set(seconds)
    )
}

pub(crate) fn update(seconds: u32) -> String {
    format!("UPDATE shedlock{};", set(seconds))
}

fn set(seconds: u32) -> String {
    format!(
        " SET lock_until = {NOW} + cast('{seconds}000 milliseconds' as interval), locked_at = {NOW}, locked_by = :'me' \
         WHERE shedlock.name = '{NAME}' AND shedlock.lock_until <= {NOW}"
    )
}

pub(crate) fn unlock() -> String {
    unlock_after(0)
}

/// The statement with which ShedLock ends a lock whose `lockAtLeastFor` has this many seconds.
pub(crate) fn unlock_after(seconds: u32) -> String {
    let at_least = format!("locked_at + cast('{seconds}000 milliseconds' as interval)");
    format!(
        "UPDATE shedlock SET lock_until = CASE WHEN {at_least} > {NOW} THEN {at_least} ELSE {NOW} END \
         WHERE name = '{NAME}' AND locked_by = :'me';"
    )
}

pub(crate) fn extend(seconds: u32) -> String {
    format!(
        "UPDATE shedlock SET lock_until = {NOW} + cast('{seconds}000 milliseconds' as interval) \
         WHERE name = '{NAME}' AND locked_by = :'me' AND lock_until > {NOW};"
    )
}

/// A `psql` process that receives one statement after another.
pub(crate) struct Psql {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Psql {
    pub(crate) fn start(server: &Server, me: &str) -> Self {
        let mut command = server.0.psql();
        command.args(["-v", &format!("me={me}")]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let to = child.stdin.take().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap());
        Self { child, to, from }
    }

    /// Sends lines, the last of which prints one line.
    fn ask(&mut self, lines: &str) -> String {
        writeln!(self.to, "{lines}").unwrap();
        self.to.flush().unwrap();
        let mut answer = String::new();
        self.from.read_line(&mut answer).unwrap();
        answer.trim().to_owned()
    }

    /// Returns how many rows a statement changed, which is what ShedLock relies on.
    pub(crate) fn changes(&mut self, statement: &str) -> u64 {
        let answer = self.ask(&format!("{statement}\n\\echo :ROW_COUNT"));
        answer.parse().expect(&answer)
    }

    /// Adds one to a number under the lock, with a separate read and write. Returns whether it had the lock.
    fn counts(&mut self, is_first: bool) -> bool {
        let take = if is_first { insert(30) } else { update(30) };
        let unlock = unlock();
        let answer = self.ask(&format!(
            "{take}\n\\if :ROW_COUNT\nSELECT n FROM counter \\gset\nUPDATE counter SET n = :n + 1;\n{unlock}\n\\echo :ROW_COUNT\n\\else\n\\echo busy\n\\endif"
        ));
        match answer.as_str() {
            "1" => true,
            "busy" => false,
            other => panic!("psql: {other}"),
        }
    }
}

impl Drop for Psql {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two `psql` processes and four of our tasks in two stores add to one number. No update is lost, and each gets its turns.
pub(crate) fn counters_are_exact() {
    let turns: u64 = if is_soak() { 500 } else { 100 };
    let longest = if is_soak() { 20 * LONG } else { 4 * LONG };
    run_within(longest, async move {
        let server = Server::start().await;
        let plain = server.plain().await;
        plain
            .does("CREATE TABLE counter (n bigint); INSERT INTO counter VALUES (0)")
            .await;
        let stop = Arc::new(AtomicBool::new(false));
        let ours = Arc::new(AtomicU64::new(0));
        let mut tasks = Vec::new();
        for _ in 0..2 {
            let locker = locker(&server.store().await, LONG);
            for _ in 0..2 {
                let (locker, plain) = (locker.clone(), server.plain().await);
                tasks.push(tokio::spawn(count(
                    locker,
                    plain,
                    stop.clone(),
                    ours.clone(),
                )));
            }
        }
        let foreign = ["host-1", "host-2"].map(|me| {
            let mut psql = Psql::start(&server, me);
            let ours = ours.clone();
            std::thread::spawn(move || {
                let (mut counted, mut refused) = (0, 0_u64);
                // Until our tasks have had their turns, too.
                while counted < turns || ours.load(Ordering::SeqCst) < turns {
                    if psql.counts(counted == 0) {
                        counted += 1;
                    } else {
                        refused += 1;
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
                (counted, refused)
            })
        });
        let (mut theirs, mut refused) = (0, 0);
        for thread in foreign {
            while !thread.is_finished() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let (counted, busy) = thread.join().unwrap();
            theirs += counted;
            refused += busy;
        }
        stop.store(true, Ordering::SeqCst);
        for task in tasks {
            task.await.unwrap();
        }
        let ours = ours.load(Ordering::SeqCst);
        println!(
            "interop: ShedLock's statements in two psql counted {theirs} (and were refused {refused} times), ours {ours}"
        );
        assert!(refused > 0, "they were to compete");
        assert_eq!(
            plain.number("SELECT n FROM counter").await.cast_unsigned(),
            theirs + ours
        );
        server.wait_until_clean().await;
    });
}

async fn count(locker: Locker, plain: Plain, stop: Arc<AtomicBool>, ours: Arc<AtomicU64>) {
    while !stop.load(Ordering::SeqCst) {
        let guard = locker.acquire(NAME).await.unwrap();
        let number = plain.number("SELECT n FROM counter").await;
        plain
            .does(&format!("UPDATE counter SET n = {}", number + 1))
            .await;
        ours.fetch_add(1, Ordering::SeqCst);
        assert!(guard.release().await.is_released());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Every statement of either side behaves correctly while the other side holds the lock.
pub(crate) fn each_keeps_the_other_out() {
    run(async {
        let server = Server::start().await;
        let store = server.store().await;
        let mut psql = Psql::start(&server, "ip-10-0-0-7");
        // We hold the lock: none of their statements acquires or changes it.
        let claim = claim(LONG);
        assert!(store.try_acquire(&claim).await.unwrap().is_some());
        for statement in [insert(30), update(30), unlock(), extend(30)] {
            assert_eq!(psql.changes(&statement), 0, "{statement}");
        }
        let renewed = store.renew(std::slice::from_ref(&claim)).await.remove(0);
        assert_eq!(renewed.unwrap(), Renewal::Extended);
        assert_eq!(store.release(&claim).await.unwrap(), Release::Freed);
        // They hold the lock: none of our requests acquires or changes it, and it is shown as theirs.
        assert_eq!(psql.changes(&update(30)), 1);
        assert!(store.try_acquire(&claim).await.unwrap().is_none());
        assert_eq!(store.release(&claim).await.unwrap(), Release::NotHeld);
        let renewed = store.renew(std::slice::from_ref(&claim)).await.remove(0);
        assert_eq!(renewed.unwrap(), Renewal::Lost);
        let holder = store
            .inspect(&claim.name)
            .await
            .unwrap()
            .unwrap()
            .holder
            .unwrap();
        assert_eq!(
            (holder.owner, &*holder.label, holder.epoch),
            (None, "ip-10-0-0-7", None)
        );
        assert!(
            store.list(None).await.unwrap().is_empty(),
            "not one of ours"
        );
        assert_eq!(store.list(Some("st*")).await.unwrap().len(), 1);
        assert_eq!(psql.changes(&extend(30)), 1);
        assert_eq!(psql.changes(&unlock()), 1);
        // Its end is rounded up to the next millisecond, which may not be over yet.
        eventually("what they gave back", async || {
            store.try_acquire(&claim).await.unwrap().is_some()
        })
        .await;
        assert_eq!(store.release(&claim).await.unwrap(), Release::Freed);
        // A lease of theirs that expires lets a waiter in.
        assert_eq!(psql.changes(&insert(1)), 1);
        let guard = locker(&store, LONG)
            .acquire_within(NAME, LONG)
            .await
            .unwrap();
        assert_eq!(psql.changes(&update(1)), 0);
        assert!(guard.unwrap().release().await.is_released());
        assert_eq!(psql.changes(&update(1)), 1);
    });
}
