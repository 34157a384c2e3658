//! Renews the grants of a process in the background.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost_rig::resp::Connection;

use crate::flaw::Flaw;
use crate::latch::{Grant, Latch, now_ns, wall_ns};
use crate::redis_latch::RedisLatch;
use crate::redis_renewal::RenewalLine;

/// How often leases are renewed, if renewal dies.
const RENEWALS_MAX: usize = 2;

/// The grants to renew.
#[derive(Default, Clone)]
pub(crate) struct Renewal(Arc<Mutex<Vec<Grant>>>, Option<Flaw>);

impl Renewal {
    /// Starts to renew with this connection. It ends with its process.
    pub(crate) fn start(&mut self, mut latch: Latch, ttl: Duration, flaw: Option<Flaw>) {
        self.1 = flaw;
        let grants = Arc::clone(&self.0);
        std::thread::spawn(move || {
            let (mut renewed_ns, mut renewals) = (wall_ns(), 0);
            loop {
                std::thread::sleep(ttl / 5);
                let since_ns = wall_ns() - renewed_ns;
                if flaw == Some(Flaw::RenewsByWallClock) && since_ns < 0 {
                    continue;
                }
                renewed_ns = wall_ns();
                let mut grants = grants.lock().unwrap();
                renewals += usize::from(!grants.is_empty());
                if flaw == Some(Flaw::RenewalDies) && renewals > RENEWALS_MAX {
                    return;
                }
                let first = match flaw {
                    Some(Flaw::RenewsLast) => grants.len().saturating_sub(1),
                    _ => 0,
                };
                for grant in &mut grants[first..] {
                    let sent_ns = now_ns();
                    if latch.renew(grant) {
                        grant.until_ns = sent_ns + i64::try_from(ttl.as_nanos()).unwrap();
                    }
                }
            }
        });
    }

    /// Starts to renew on Redis. It ends with its process, or when a renewal fails, if the lock gives up then.
    pub(crate) fn start_on_redis(&mut self, redis: RedisLatch, ttl: Duration) {
        if let Some(heard) = redis.listen() {
            self.start_by_hearing(heard, ttl);
        }
        let grants = Arc::clone(&self.0);
        let mut line = RenewalLine::of(redis, ttl);
        std::thread::spawn(move || {
            while !line.has_given_up() {
                std::thread::sleep(ttl / 5);
                // A process that asks for a lock does not wait for a renewal.
                let now: Vec<Grant> = grants.lock().unwrap().clone();
                let ends = line.renew(&now);
                for grant in grants.lock().unwrap().iter_mut() {
                    if let Some(until_ns) = ends.get(&grant.token) {
                        grant.until_ns = *until_ns;
                    }
                }
            }
        });
    }

    /// Takes whatever is heard for a renewal of everything.
    fn start_by_hearing(&self, mut heard: Connection, ttl: Duration) {
        let grants = Arc::clone(&self.0);
        let ttl_ns = i64::try_from(ttl.as_nanos()).unwrap();
        std::thread::spawn(move || {
            while heard.hear().is_ok() {
                for grant in grants.lock().unwrap().iter_mut() {
                    grant.until_ns = now_ns() + ttl_ns;
                }
            }
        });
    }

    /// Returns until when a grant lasts, with its renewals.
    pub(crate) fn until_ns(&self, grant: &Grant) -> i64 {
        let grants = self.0.lock().unwrap();
        let own = grants.iter().find(|own| own.token == grant.token);
        own.map_or(grant.until_ns, |own| own.until_ns)
    }

    pub(crate) fn add(&self, grant: &Grant) {
        self.0.lock().unwrap().push(grant.clone());
    }

    /// Forgets a grant before it is released. A renewal that has begun is finished.
    pub(crate) fn remove(&self, grant: &Grant) {
        let mut grants = self.0.lock().unwrap();
        if self.1 == Some(Flaw::StopsRenewing) {
            grants.clear();
        }
        grants.retain(|other| other.token != grant.token);
    }
}
