//! Answers the lab, so that the store can be put on trial: one JSON line per request, one per answer. `lab.md` in the repository's docs
//! folder describes the protocol.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fencepost::{Guard, Locker, ReleaseOutcome};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Folder;

/// A request of the lab.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Ask {
    Init { ttl_ms: u64, endpoints: Vec<String> },
    Acquire { op: u64, key: String, wait_ms: u64 },
    Step { op: u64, hold: u64 },
    Release { op: u64, hold: u64 },
    Shutdown,
}

/// Answers requests until the lab sends no more.
pub(super) async fn answer_the_lab() {
    let mut subject = None;
    // Blocks this thread; renewals run on the worker threads. With a current-thread runtime, read in `spawn_blocking`.
    for line in std::io::stdin().lines() {
        let ask = line.map_err(|error| error.to_string());
        let ask =
            ask.and_then(|line| serde_json::from_str(&line).map_err(|error| error.to_string()));
        let answer = match (ask, &mut subject) {
            (Ok(Ask::Shutdown), _) => return,
            (Ok(Ask::Init { ttl_ms, endpoints }), _) => match Subject::ready(ttl_ms, &endpoints) {
                Ok(ready) => {
                    subject = Some(ready);
                    let recovery_ms = ttl_ms + 1000;
                    json!({"type": "init_ok", "claims": {"fencing": true, "keep_alive": true, "recovery_ms": recovery_ms}})
                }
                Err(message) => error(message),
            },
            (Ok(ask), Some(subject)) => subject.answer(ask).await,
            (Ok(_), None) => error("not ready".to_owned()),
            (Err(message), _) => error(message),
        };
        // `println!` flushes at the end of a line.
        println!("{answer}");
    }
}

fn error(message: String) -> Value {
    json!({"type": "error", "definite": true, "message": message})
}

struct Subject {
    locker: Locker,
    holds: HashMap<u64, Guard>,
    last: u64,
}

impl Subject {
    /// Opens a separate folder for each trial, beside the trial's own place.
    fn ready(ttl_ms: u64, endpoints: &[String]) -> Result<Self, String> {
        let file = endpoints
            .first()
            .and_then(|one| one.strip_prefix("sqlite:"));
        let file = file.ok_or("this lock lives in a folder: try it with --store sqlite")?;
        let folder = Folder::open(Path::new(&format!("{file}.locks")));
        let locker = folder.and_then(|folder| {
            let builder = Locker::builder(Arc::new(folder));
            builder.ttl(Duration::from_millis(ttl_ms)).build()
        });
        Ok(Self {
            locker: locker.map_err(|error| error.to_string())?,
            holds: HashMap::new(),
            last: 0,
        })
    }

    async fn answer(&mut self, ask: Ask) -> Value {
        match ask {
            Ask::Acquire { op, key, wait_ms } => self.acquire(op, &key, wait_ms).await,
            Ask::Step { op, hold } => match self.holds.get(&hold) {
                Some(guard) if !guard.is_lost() => {
                    json!({"type": "stepped", "op": op, "fence": guard.fence().to_string()})
                }
                _ => json!({"type": "declined", "op": op}),
            },
            Ask::Release { op, hold } => {
                let outcome = match self.holds.remove(&hold) {
                    Some(guard) => outcome(guard.release().await),
                    None => "already_lost",
                };
                json!({"type": "released", "op": op, "outcome": outcome})
            }
            Ask::Init { .. } | Ask::Shutdown => error("not now".to_owned()),
        }
    }

    async fn acquire(&mut self, op: u64, key: &str, wait_ms: u64) -> Value {
        let timeout = Duration::from_millis(wait_ms);
        match self.locker.acquire_within(key, timeout).await {
            Ok(Some(guard)) => {
                self.last += 1;
                let acquired = json!({
                    "type": "acquired",
                    "op": op,
                    "hold": self.last,
                    "fence": guard.fence().to_string(),
                    "valid_ms": guard.valid_for().as_millis() as u64,
                    "contended": guard.was_contended(),
                });
                self.holds.insert(self.last, guard);
                acquired
            }
            Ok(None) => json!({"type": "refused", "op": op}),
            Err(error) => {
                json!({"type": "error", "op": op, "definite": false, "message": error.to_string()})
            }
        }
    }
}

fn outcome(outcome: ReleaseOutcome) -> &'static str {
    match outcome {
        ReleaseOutcome::Released => "released",
        ReleaseOutcome::AlreadyLost => "already_lost",
        _ => "unknown",
    }
}
