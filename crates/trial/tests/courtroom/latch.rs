//! A lock written from scratch on the run's SQLite file, one row per lock, with optional flaws.
//!
//! It uses nothing from the library but the clock, and keeps its rows where the lab can see them.

use std::time::{Duration, Instant, SystemTime};

use fencepost::clock::{BootClock, Clock};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::flaw::Flaw;
use crate::owner::{fence_kept, keep_fence, owner_is_gone, record_owner, started};
use crate::part::ExternalLock;
use crate::waiting_line::{is_first, leave_line};

/// How many letters of a name count, if names are cut off.
const LETTERS: usize = 9;
/// How often a lock is granted that wears out.
const GRANTS_MAX: i64 = 150;
/// How many letters count, if only long names are cut off.
const MANY_LETTERS: usize = 64;

/// How long the two steps of a lock are apart that looks before it takes.
const BETWEEN_STEPS: Duration = Duration::from_millis(60);
/// The same for a lock that removes what is stale. It is short: whoever takes over first must have a lease that certainly runs when the
/// next one takes over, and the lab counts that lease from the request, which came only some tens of milliseconds after the holder's.
const BETWEEN_LOOK_AND_REMOVAL: Duration = Duration::from_millis(15);
/// How long a waiter rests whose request goes on although it has given up.
const REST: Duration = Duration::from_millis(2);
/// The owner of every lock, if the owner is a thread or a machine.
const OWNER: &str = "1";

/// The lock from the point of view of one process.
pub(crate) struct Latch {
    connection: Connection,
    path: String,
    lock: ExternalLock,
    ttl: Duration,
    flaw: Option<Flaw>,
    has_fences: bool,
    /// Whether waiters stand in line.
    has_line: bool,
    /// The token of the latest request, and how many locks had been granted when it was made.
    request: (String, i64),
    /// How many locks this process was granted.
    grants: i64,
}

/// A grant.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    pub(crate) key: String,
    pub(crate) token: String,
    pub(crate) fence: Option<String>,
    pub(crate) until_ns: i64,
    /// The same in time that stands still while a machine is suspended: since when.
    pub(crate) since: Instant,
}

impl Latch {
    pub(crate) fn open(path: &str, ttl: Duration, lock: ExternalLock, is_restarted: bool) -> Self {
        let (flaw, has_fences) = (lock.flaw, lock.claims.fencing);
        let connection = Connection::open(path).unwrap();
        connection.busy_timeout(Duration::from_secs(20)).unwrap();
        let table = "CREATE TABLE IF NOT EXISTS courtroom_fence (n INTEGER)";
        connection.execute_batch(table).unwrap();
        let kept = "CREATE TABLE IF NOT EXISTS courtroom_kept (key TEXT PRIMARY KEY, fence TEXT)";
        connection.execute_batch(kept).unwrap();
        let line = "CREATE TABLE IF NOT EXISTS courtroom_line
            (n INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT, token TEXT UNIQUE, until_ns INTEGER)";
        connection.execute_batch(line).unwrap();
        if flaw == Some(Flaw::FenceRestarts) && is_restarted {
            let anew = "DELETE FROM courtroom_fence";
            connection.execute_batch(anew).unwrap();
        }
        Self {
            connection,
            path: path.into(),
            lock,
            ttl,
            flaw,
            has_fences,
            has_line: lock.has_line,
            request: (String::new(), 0),
            grants: 0,
        }
    }

    /// Returns how long a lease lasts; `None` means forever.
    fn lease(&self) -> Option<Duration> {
        match self.flaw {
            Some(Flaw::NoExpiry | Flaw::ForgetsToRelease) => None,
            Some(Flaw::LooksAlive | Flaw::KnowsItsOwner) => None,
            Some(Flaw::TtlInMicroseconds) => Some(self.ttl / 1_000),
            Some(Flaw::TtlOfWholeSeconds) => Some(self.ttl).filter(|ttl| ttl.as_secs() > 0),
            _ => Some(self.ttl),
        }
    }

    /// Remembers a request. Returns whether it is a further try.
    fn is_retry(&mut self, token: &str) -> bool {
        if self.request.0 == token {
            return true;
        }
        let granted = match self.flaw {
            Some(Flaw::FenceDrawnBefore) => next_fence(&self.connection) - 1,
            _ => fence_of(&self.connection),
        };
        self.request = (token.into(), granted);
        false
    }

    /// Tries once.
    pub(crate) fn take(&mut self, key: &str, token: &str, asked_ns: i64) -> Option<Grant> {
        let is_retry = self.is_retry(token);
        let (flaw, has_fences, lease) = (self.flaw, self.has_fences, self.lease());
        let (has_line, is_fair, ttl) = (self.has_line, self.lock.claims.fair, self.ttl);
        let counts = (self.request.1 + 1, self.grants + 1);
        let name = record_of(flaw, key);
        let name = name.as_str();
        let mut transaction = self.begin();
        if flaw == Some(Flaw::WearsOut) && fence_of(&transaction) > GRANTS_MAX {
            return None;
        }
        let now_ns = match flaw {
            Some(Flaw::WallClock) => wall_ns(),
            _ => now_ns(),
        };
        if has_line && !is_first(&transaction, name, token, now_ns, (flaw, is_fair)) {
            transaction.commit().unwrap();
            return None;
        }
        let begins_ns = if flaw == Some(Flaw::LeaseFromRequest) {
            asked_ns
        } else {
            now_ns
        };
        let until_ns = begins_ns + i64::try_from(lease.unwrap_or(ttl).as_nanos()).unwrap();
        let mut same_fence = None;
        if flaw != Some(Flaw::NoLock) {
            let end = end_of(&transaction, name);
            let is_own = match flaw {
                Some(Flaw::SetsOnRetry) => is_retry,
                flaw => gets_again(&transaction, flaw, name, token),
            };
            let is_taken = match end {
                None => false,
                Some(end) => {
                    end.is_none_or(|end| end > now_ns) && !owner_is_gone(&transaction, flaw, name)
                }
            };
            let is_kept = is_taken && is_own;
            if is_taken && !is_own {
                transaction.commit().unwrap();
                return None;
            }
            let between_steps = match flaw {
                Some(Flaw::LooksThenTakes) => Some(BETWEEN_STEPS),
                Some(Flaw::BreaksStale) => end.map(|_| BETWEEN_LOOK_AND_REMOVAL),
                _ => None,
            };
            if let Some(between_steps) = between_steps {
                transaction.commit().unwrap();
                std::thread::sleep(between_steps);
                transaction = self.begin();
            }
            if is_kept && flaw == Some(Flaw::FenceStaysWithPid) {
                same_fence = fence_kept(&transaction, name);
            }
            let keeps_row = flaw == Some(Flaw::TwiceAfterExpiry) && end.is_some()
                || flaw == Some(Flaw::OwnerIsPid) && is_kept;
            if !keeps_row {
                let row = params![name, token_of(flaw, token), lease.map(|_| until_ns)];
                transaction
                    .execute("INSERT OR REPLACE INTO latch VALUES (?1, ?2, ?3)", row)
                    .unwrap();
            }
        }
        leave_line(&transaction, token);
        let fence = match same_fence {
            None if has_fences => {
                let fence = fence(&transaction, flaw, counts);
                keep_fence(&transaction, name, fence.as_deref());
                fence
            }
            same_fence => same_fence,
        };
        transaction.commit().unwrap();
        self.grants += 1;
        let until_ns = match flaw {
            Some(Flaw::CountsFromRequest) => until_ns - (now_ns - asked_ns),
            _ => until_ns,
        };
        Some(Grant {
            key: name.into(),
            token: token.into(),
            fence,
            until_ns,
            since: Instant::now(),
        })
    }

    /// Gives up its place in line.
    pub(crate) fn give_up(&self, key: &str, token: &str) {
        if self.flaw == Some(Flaw::ReleasesAfterRefusal) {
            let sql = "DELETE FROM latch WHERE key = ?1";
            self.connection.execute(sql, [key]).unwrap();
        }
        if self.flaw == Some(Flaw::TakesAfterGivingUp) {
            self.go_on(key, token);
        }
        if matches!(
            self.flaw,
            Some(Flaw::LineKeepsGivenUp | Flaw::TakesAfterGivingUp)
        ) {
            let sql = "UPDATE courtroom_line SET until_ns = ?2 WHERE token = ?1";
            let until_ns = now_ns() + i64::try_from(self.ttl.as_nanos()).unwrap();
            self.connection
                .execute(sql, params![token, until_ns])
                .unwrap();
            return;
        }
        leave_line(&self.connection, token);
    }

    /// Goes on asking in the background for as long as a lease lasts.
    fn go_on(&self, key: &str, token: &str) {
        let mut latch = Self::open(&self.path, self.ttl, self.lock, false);
        let (key, token, deadline) = (key.to_owned(), token.to_owned(), Instant::now() + self.ttl);
        std::thread::spawn(move || {
            while latch.take(&key, &token, now_ns()).is_none() && Instant::now() < deadline {
                std::thread::sleep(REST);
            }
            leave_line(&latch.connection, &token);
        });
    }

    /// Releases the lock. Returns whether the grant was still there.
    pub(crate) fn give_back(&mut self, grant: &Grant) -> bool {
        if self.flaw == Some(Flaw::RenewalRecreates) {
            self.renew(grant);
        }
        if self.flaw == Some(Flaw::FenceEndsWithLock) {
            let sql = "DELETE FROM courtroom_fence";
            self.connection.execute(sql, []).unwrap();
        }
        let deleted = self.delete(grant);
        if deleted == 0 && self.flaw == Some(Flaw::ForcesRelease) {
            let sql = "DELETE FROM latch WHERE key = ?1";
            return self.connection.execute(sql, [&grant.key]).unwrap() > 0;
        }
        deleted > 0
    }

    /// Deletes what the grant stands for. Returns how many locks that were.
    fn delete(&self, grant: &Grant) -> usize {
        let is_over = grant.until_ns <= now_ns();
        let sql = match self.flaw {
            Some(Flaw::NoLock | Flaw::ForgetsToRelease) => return 1,
            Some(Flaw::ClearsExpired) if is_over => "DELETE FROM latch WHERE key = ?1 AND ?2 <> ''",
            Some(Flaw::ReleasesAll) => {
                let sql = "DELETE FROM latch WHERE token LIKE ?1 || ' %'";
                return self.connection.execute(sql, [owner(&grant.token)]).unwrap();
            }
            Some(Flaw::ReleasesOwnLater) => {
                let sql = "DELETE FROM latch WHERE key = ?1 AND token LIKE ?2 || ' %'";
                let parameters = params![grant.key, owner(&grant.token)];
                return self.connection.execute(sql, parameters).unwrap();
            }
            Some(Flaw::BlindDelete) => "DELETE FROM latch WHERE key = ?1 AND ?2 <> ''",
            Some(Flaw::ReleasesPrefix | Flaw::CutsNames) => {
                let sql = "DELETE FROM latch WHERE key LIKE ?1 || '%' AND token LIKE ?2 || ' %'";
                let parameters = params![grant.key, owner(&grant.token)];
                return self.connection.execute(sql, parameters).unwrap();
            }
            _ => "DELETE FROM latch WHERE key = ?1 AND token = ?2",
        };
        let parameters = params![grant.key, token_of(self.flaw, &grant.token)];
        self.connection.execute(sql, parameters).unwrap()
    }

    /// Renews a grant. Returns whether it was there.
    pub(crate) fn renew(&mut self, grant: &Grant) -> bool {
        let lease = match self.flaw {
            Some(Flaw::RenewalShortens) => self.ttl / 20,
            _ => self.ttl,
        };
        let until_ns = now_ns() + i64::try_from(lease.as_nanos()).unwrap();
        let sql = match self.flaw {
            Some(Flaw::RenewalRecreates) => "INSERT OR REPLACE INTO latch VALUES (?1, ?2, ?3)",
            Some(Flaw::RenewalDropsExpiry) => {
                "UPDATE latch SET expires_ns = NULL WHERE key = ?1 AND token = ?2 AND ?3"
            }
            Some(Flaw::RenewalAddsUp) => {
                let sql =
                    "UPDATE latch SET expires_ns = expires_ns + ?3 WHERE key = ?1 AND token = ?2";
                let added_ns = i64::try_from(self.ttl.as_nanos()).unwrap();
                let parameters = params![grant.key, grant.token, added_ns];
                return self.connection.execute(sql, parameters).unwrap() > 0;
            }
            _ => "UPDATE latch SET expires_ns = ?3 WHERE key = ?1 AND token = ?2",
        };
        let parameters = params![grant.key, grant.token, until_ns];
        self.connection.execute(sql, parameters).unwrap() > 0
    }

    pub(crate) fn units(&self, product: &str) -> i64 {
        let sql = "SELECT units FROM stock WHERE product = ?1";
        let units = self.connection.query_row(sql, [product], |row| row.get(0));
        units.unwrap()
    }

    pub(crate) fn set_units(&self, product: &str, units: i64) {
        let sql = "UPDATE stock SET units = ?2 WHERE product = ?1";
        self.connection
            .execute(sql, params![product, units])
            .unwrap();
    }

    fn begin(&mut self) -> Transaction<'_> {
        let behavior = TransactionBehavior::Immediate;
        self.connection.transaction_with_behavior(behavior).unwrap()
    }
}

/// Returns the name under which a lock is kept.
fn record_of(flaw: Option<Flaw>, key: &str) -> String {
    match flaw {
        Some(Flaw::CutsNames) => key.get(..LETTERS).unwrap_or(key).into(),
        Some(Flaw::CutsLongNames) => key.get(..MANY_LETTERS).unwrap_or(key).into(),
        Some(Flaw::IgnoresCase) => key.to_lowercase(),
        Some(Flaw::OneName) => "the lock".into(),
        Some(Flaw::SlashIsUnderscore) => key.replace('/', "_"),
        Some(Flaw::TagIsName) => match key.split_once('}') {
            Some((tag, _)) => tag.trim_start_matches('{').into(),
            None => key.into(),
        },
        Some(Flaw::CutsLastLetter) => key[..key.len() - 1].into(),
        _ => key.into(),
    }
}

/// Returns what the record of a lock says about its owner.
fn token_of(flaw: Option<Flaw>, token: &str) -> String {
    match flaw {
        Some(Flaw::OwnerIsThread | Flaw::OwnerIsHost) => OWNER.into(),
        Some(
            Flaw::OwnerIsPid | Flaw::ResumesByPid | Flaw::FenceStaysWithPid | Flaw::LooksAlive,
        ) => std::process::id().to_string(),
        Some(Flaw::KnowsItsOwner) => {
            let pid = std::process::id().to_string();
            format!("{pid} {}", started(&pid).unwrap())
        }
        _ => token.into(),
    }
}

/// Returns the process that a token belongs to.
fn owner(token: &str) -> Option<&str> {
    token.split(' ').next()
}

fn owner_of(transaction: &Transaction<'_>, key: &str) -> Option<String> {
    let token = record_owner(transaction, key)?;
    owner(&token).map(str::to_owned)
}

/// Returns whether whoever owns a lock gets it again, and this is the one who does.
fn gets_again(transaction: &Transaction<'_>, flaw: Option<Flaw>, name: &str, token: &str) -> bool {
    let is_by_pid = matches!(
        flaw,
        Some(Flaw::OwnerIsPid | Flaw::ResumesByPid | Flaw::FenceStaysWithPid)
    );
    (is_by_pid || matches!(flaw, Some(Flaw::CutsNames | Flaw::OwnerIsThread)))
        && owner_of(transaction, name).as_deref() == owner(&token_of(flaw, token))
}

/// Returns when the current grant expires; `Some(None)` means never.
fn end_of(transaction: &Transaction<'_>, key: &str) -> Option<Option<i64>> {
    let sql = "SELECT expires_ns FROM latch WHERE key = ?1";
    let end = transaction.query_row(sql, [key], |row| row.get(0));
    end.optional().unwrap()
}

/// Returns how often a lock was granted.
fn fence_of(connection: &Connection) -> i64 {
    let sql = "SELECT COUNT(*) FROM courtroom_fence";
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Draws the next fence.
fn next_fence(connection: &Connection) -> i64 {
    let sql = "INSERT INTO courtroom_fence SELECT 1 + COUNT(*) FROM courtroom_fence RETURNING n";
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Counts a grant. Returns its fence. `counts` are one more than the number of grants before the request, and than those of the process.
fn fence(transaction: &Transaction<'_>, flaw: Option<Flaw>, counts: (i64, i64)) -> Option<String> {
    let number = next_fence(transaction);
    match flaw {
        Some(Flaw::NoFence) => None,
        Some(Flaw::FenceConstant) => Some("7".into()),
        Some(Flaw::FenceOfWords) => Some(format!("word {number}")),
        Some(Flaw::FenceWraps) => Some((number % 100).to_string()),
        Some(Flaw::FenceByText) => Some(if number < 10 { number } else { 10 }.to_string()),
        Some(Flaw::FenceReadBefore | Flaw::FenceDrawnBefore) => Some(counts.0.to_string()),
        Some(Flaw::FenceOfProcess) => Some(counts.1.to_string()),
        Some(Flaw::FenceOfSeconds) => Some((wall_ns() / 1_000_000_000).to_string()),
        Some(Flaw::FenceRegressing) => Some((1_000 - number).to_string()),
        _ => Some(number.to_string()),
    }
}

/// Returns the time of day, which anybody may set.
pub(crate) fn wall_ns() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    i64::try_from(now.unwrap().as_nanos()).unwrap()
}

pub(crate) fn now_ns() -> i64 {
    i64::try_from(BootClock.now().as_nanos()).unwrap()
}
