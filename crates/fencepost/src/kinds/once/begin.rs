//! How a run begins: it takes the lock, asks the record, keeps others out for long enough, and only then writes down that it begins.

use std::time::Duration;

use tracing::Instrument;

use super::recorded::{JobRecord, Recorded};
use super::run::Run;
use super::skipped::{Skipped, because_taken};
use super::{Began, Once, unsupported};
use crate::clock::Moment;
use crate::engine::Wanted;
use crate::error::Result;
use crate::guard::Guard;
use crate::line::Manner;

/// The pause before another attempt to extend the lease.
const PAUSE: Duration = Duration::from_millis(50);

/// What keeps others away until `at_least` is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeptOut {
    /// There is nothing to keep others away for.
    No,
    /// The lease, which lasts as long.
    ByLease(Duration),
    /// The record, because a lease ends with the process.
    ByRecord(Duration),
}

pub(super) async fn begin(once: &Once, at_most: Duration) -> Result<Began> {
    let store = once.locker.backend().store_name();
    let span = tracing::debug_span!("begin", store, name = %once.name);
    let began = try_begin(once, at_most).instrument(span).await?;
    if let Began::Skipped(skipped) = &began {
        once.locker.telemetry().skipped(skipped.why.as_str());
    }
    Ok(began)
}

async fn try_begin(once: &Once, at_most: Duration) -> Result<Began> {
    let locker = &once.locker;
    let kept_out = kept_out(once)?;
    let record = record(once, kept_out)?;
    let began_at = locker.clock().now();
    let ttl = locker.ttl().min(at_most);
    let wanted = Wanted::from(once.name.clone()).with_ttl(ttl);
    let Some(guard) = locker.ask_for(wanted, Manner::Try, Moment::FAR).await? else {
        let skipped = because_taken(once, record.as_ref()).await;
        return Ok(Began::Skipped(skipped));
    };
    guard.limit_to(began_at + at_most);
    let prepared = guard.run(prepare(once, &guard, kept_out, record.as_ref()));
    let recorded = match prepared.await.unwrap_or_else(|_| Err(guard.lost_error())) {
        Ok(Prepared::Yes(recorded)) => recorded,
        Ok(Prepared::No(skipped)) => {
            // Wait for the release, so that a machine that comes a moment later gets the same answer.
            let _ = guard.release().await;
            return Ok(Began::Skipped(skipped));
        }
        Err(error) => {
            let _ = guard.release().await;
            return Err(error);
        }
    };
    let left_until = match kept_out {
        KeptOut::ByLease(time) => began_at + time,
        _ => Moment::ZERO,
    };
    let times = (began_at, at_most, left_until);
    tracing::info!(name = %once.name, fence = %guard.fence(), slot = once.terms.slot.as_deref(), "run begins");
    Ok(Began::Run(Run::new(once.clone(), guard, times, recorded)))
}

/// Returns what can keep others away for as long as the terms say.
fn kept_out(once: &Once) -> Result<KeptOut> {
    let (backend, time) = (once.locker.backend(), once.terms.at_least);
    if time.is_zero() {
        Ok(KeptOut::No)
    } else if backend.capabilities().lasting {
        Ok(KeptOut::ByLease(time))
    } else if backend.records().is_some() {
        Ok(KeptOut::ByRecord(time))
    } else {
        let message = "at_least needs a store whose locks outlast the process, or one that keeps records; with this one, a lock ends when the \
                       process does";
        Err(unsupported(&once.locker, message.to_owned()))
    }
}

/// Returns the record, if it has to be asked.
fn record(once: &Once, kept_out: KeptOut) -> Result<Option<JobRecord<'_>>> {
    let record = JobRecord::of(once);
    if once.terms.slot.is_some() && record.is_none() {
        let message = "slots need a store that keeps records beside its locks and that all of its clients can rely on: SQLite, Redis, a Postgres \
                       table, etcd or ZooKeeper. This one keeps none, so it could forget that a slot was run";
        return Err(unsupported(&once.locker, message.to_owned()));
    }
    // Where locks do not outlast the process, an earlier run may keep others out by the record.
    let is_asked = is_written_down(once, kept_out) || !once.locker.backend().capabilities().lasting;
    Ok(record.filter(|_| is_asked))
}

/// Returns whether anybody needs to know of the run when it is over.
fn is_written_down(once: &Once, kept_out: KeptOut) -> bool {
    once.terms.slot.is_some() || kept_out != KeptOut::No
}

/// Whether the run may begin.
enum Prepared {
    /// The run was written down, if that is needed.
    Yes(Option<Recorded>),
    No(Skipped),
}

async fn prepare(
    once: &Once,
    guard: &Guard,
    kept_out: KeptOut,
    record: Option<&JobRecord<'_>>,
) -> Result<Prepared> {
    let fence = guard.fence();
    let out = match kept_out {
        KeptOut::ByRecord(time) => Some(time),
        _ => None,
    };
    // A machine that comes too late should not keep others out.
    if let Some(record) = record
        && let Some(refusal) = record.check(fence, out).await?
    {
        let skipped = Skipped::because(&refusal).ok_or_else(|| guard.lost_error())?;
        return Ok(Prepared::No(skipped));
    }
    // Before the run is written down: if this fails, the slot has not begun.
    if let KeptOut::ByLease(time) = kept_out {
        extend(guard, time).await?;
    }
    let Some(record) = record.filter(|_| is_written_down(once, kept_out)) else {
        return Ok(Prepared::Yes(None));
    };
    match record.begin(fence, out).await? {
        Ok(recorded) => Ok(Prepared::Yes(Some(recorded))),
        Err(refusal) => {
            let skipped = Skipped::because(&refusal).ok_or_else(|| guard.lost_error())?;
            Ok(Prepared::No(skipped))
        }
    }
}

/// Extends the lease. Tries again if the store cannot be reached; the caller stops that when the lock is lost.
async fn extend(guard: &Guard, time: Duration) -> Result<()> {
    if guard.claim().ttl >= time {
        return Ok(());
    }
    loop {
        match guard.extend(time).await {
            Err(error) if error.is_transient() => {
                tracing::debug!(name = %guard.name(), %error, "lease not extended yet");
                tokio::time::sleep(PAUSE).await;
            }
            answer => return answer,
        }
    }
}
