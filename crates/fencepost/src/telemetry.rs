//! The metrics, spans and events of the library, and their names. They cost almost nothing if nobody listens.
//!
//! | metric | kind | labels | meaning |
//! |---|---|---|---|
//! | `fencepost_acquire_wait_seconds` | histogram | `store` | from the call to the grant |
//! | `fencepost_acquires_total` | counter | `store`, `outcome` = `granted`, `busy`, `failed` | finished calls |
//! | `fencepost_contended_total` | counter | `store` | finished calls that found the lock taken on the first try |
//! | `fencepost_hold_seconds` | histogram | `store` | from the grant to the end of the guard |
//! | `fencepost_handovers_total` | counter | `store` | grants inside the process, without a round trip |
//! | `fencepost_renewals_total` | counter | `store`, `outcome` = `extended`, `lost`, `failed` | renewals of one lease each |
//! | `fencepost_renewal_margin_seconds` | histogram | `store` | validity that was left when a renewal was answered |
//! | `fencepost_terms_total` | counter | `store` | leaderships that began |
//! | `fencepost_runs_total` | counter | `store`, `outcome` = `completed`, `failed`, `lost`, `unknown`, `dropped` | runs of jobs that ended |
//! | `fencepost_skipped_runs_total` | counter | `store`, `why` = `running`, `recently_ran`, `completed`, `crash_unknown`, `below_floor` | runs of jobs that did not begin |
//! | `fencepost_lost_total` | counter | `store`, `reason` = `expired`, `gone`, `shutdown`, `unhealthy`, `out_of_time` | leases lost while a guard was alive |
//!
//! A leadership and a run are holds of a lock, so the metrics of locks count them, too.
//!
//! `fencepost_renewals_total` counts the renewals of the locker itself, not the calls of [`Guard::extend`](crate::Guard::extend).
//!
//! With `tracing`, acquiring a lock is a span `acquire` (level debug, fields `store` and `name`), campaigning in an election a span `campaign`,
//! and beginning a run a span `begin`, with the same level and fields. Events:
//!
//! | message | level | fields | when |
//! |---|---|---|---|
//! | "lock lost" | warn | `name`, `epoch`, `reason` | once for each lease that is lost while a guard is alive |
//! | "leading" | info | `name`, `term` | a candidate was elected |
//! | "run begins" | info | `name`, `fence`, `slot` | a run of a job begins |
//! | "renewal failed" | warn | `name`, `error`, `left` | a renewal failed; the lock is held for as long as `left` says |
//! | "release failed, trying again" | debug | `name`, `error` | a release in the background failed |
//! | "release unanswered, trying again" | debug | `name` | the store did not answer a release in the background |
//! | "could not release; left to its TTL" | warn | `name` | the store did not confirm a release for as long as the lease could last |
//! | "no runtime left to release in; the TTL ends it" | debug | | a guard was dropped after the runtime of its locker had ended |
//! | "too many attempts to withdraw; the oldest are left to their TTL" | warn | `limit` | calls were dropped faster than the store answered |
//! | "shut down before the store had confirmed every release" | warn | | [`Locker::shutdown`](crate::Locker::shutdown) ended after twice the store timeout |
//! | "ended before the store had confirmed every release" | warn | | the last clone of a `blocking::Locker` was dropped, and the store timeout was over |
//! | "no thread could be started; what is not released ends with its TTL" | warn | `error` | the last clone of a `blocking::Locker` was dropped inside an async runtime |
//! | "lease not extended yet" | debug | `name`, `error` | the short first lease of a new leader or of a run was not extended; it is renewed nevertheless |
//! | "value not published yet" | debug | `name`, `error` | the value of a new leader could not be written, and is tried again |
//! | "record of the job not reached yet" | debug | `name`, `error` | the record of a job could not be read or written, and is tried again |
//! | "value not withdrawn" | debug | `name`, `error` | a leader that resigned could not withdraw its value, which no longer counts |
//! | "the store does not answer; the wait continues" | debug | `error` | somebody waits for a lock or a share while the store cannot be reached |
//! | "cannot look after waiting claims; trying again" | warn | `error` | SQLite: the file cannot be used while clients wait |
//! | "the file of locks was deleted or replaced, and its locks with it; opening the new one" | warn | `path` | SQLite: somebody replaced the file |
//!
//! Stores also write events of the levels debug and trace about their connections and waiters. These are for diagnosis and may change in
//! any release.
//!
//! No label contains a lock's name, because the number of names is unlimited. Each [`Locker`](crate::Locker) fetches its handles once, so
//! install the recorder before you build a locker.

use std::time::Duration;

use metrics::{Counter, Histogram, IntoF64, counter, histogram};

use crate::lease::LostReason;

/// The handles of one locker.
pub(crate) struct Telemetry {
    wait: Histogram,
    hold: Histogram,
    margin: Histogram,
    granted: Counter,
    busy: Counter,
    failed: Counter,
    contended: Counter,
    handovers: Counter,
    extended: Counter,
    renewal_lost: Counter,
    renewal_failed: Counter,
    lost_expired: Counter,
    lost_gone: Counter,
    lost_shutdown: Counter,
    lost_unhealthy: Counter,
    lost_out_of_time: Counter,
    store: &'static str,
    /// Whether there is a recorder. Without one, times need not be measured.
    pub(crate) has_recorder: bool,
}

impl Telemetry {
    pub(crate) fn new(store: &'static str) -> Self {
        let acquires =
            |outcome| counter!("fencepost_acquires_total", "store" => store, "outcome" => outcome);
        let renewals =
            |outcome| counter!("fencepost_renewals_total", "store" => store, "outcome" => outcome);
        let lost = |reason| counter!("fencepost_lost_total", "store" => store, "reason" => reason);
        let wait = histogram!("fencepost_acquire_wait_seconds", "store" => store);
        Self {
            store,
            has_recorder: has_recorder(&wait),
            wait,
            hold: histogram!("fencepost_hold_seconds", "store" => store),
            margin: histogram!("fencepost_renewal_margin_seconds", "store" => store),
            granted: acquires("granted"),
            busy: acquires("busy"),
            failed: acquires("failed"),
            contended: counter!("fencepost_contended_total", "store" => store),
            handovers: counter!("fencepost_handovers_total", "store" => store),
            extended: renewals("extended"),
            renewal_lost: renewals("lost"),
            renewal_failed: renewals("failed"),
            lost_expired: lost("expired"),
            lost_gone: lost("gone"),
            lost_shutdown: lost("shutdown"),
            lost_unhealthy: lost("unhealthy"),
            lost_out_of_time: lost("out_of_time"),
        }
    }

    /// `waited` is `None` if there is no [recorder](Self::has_recorder).
    pub(crate) fn granted(&self, waited: Option<Duration>) {
        self.granted.increment(1);
        if let Some(waited) = waited {
            self.wait.record(waited);
        }
    }

    pub(crate) fn busy(&self) {
        self.busy.increment(1);
    }

    pub(crate) fn failed(&self) {
        self.failed.increment(1);
    }

    pub(crate) fn contended(&self) {
        self.contended.increment(1);
    }

    pub(crate) fn handed_over(&self) {
        self.handovers.increment(1);
    }

    pub(crate) fn held(&self, time: Duration) {
        self.hold.record(time);
    }

    pub(crate) fn renewed(&self, margin: Duration) {
        self.extended.increment(1);
        self.margin.record(margin);
    }

    pub(crate) fn renewal_lost(&self) {
        self.renewal_lost.increment(1);
    }

    pub(crate) fn renewal_failed(&self) {
        self.renewal_failed.increment(1);
    }

    /// Counts a leadership that has begun.
    pub(crate) fn elected(&self) {
        counter!("fencepost_terms_total", "store" => self.store).increment(1);
    }

    pub(crate) fn run_ended(&self, outcome: &'static str) {
        counter!("fencepost_runs_total", "store" => self.store, "outcome" => outcome).increment(1);
    }

    pub(crate) fn skipped(&self, why: &'static str) {
        counter!("fencepost_skipped_runs_total", "store" => self.store, "why" => why).increment(1);
    }

    pub(crate) fn lost(&self, reason: LostReason) {
        match reason {
            LostReason::Expired => self.lost_expired.increment(1),
            LostReason::Gone => self.lost_gone.increment(1),
            LostReason::Shutdown => self.lost_shutdown.increment(1),
            LostReason::Unhealthy => self.lost_unhealthy.increment(1),
            LostReason::OutOfTime => self.lost_out_of_time.increment(1),
        }
    }
}

/// Returns whether there is a recorder. A handle without one does not look at its argument, not even to record it zero times.
fn has_recorder(histogram: &Histogram) -> bool {
    struct Probe<'a>(&'a mut bool);
    impl IntoF64 for Probe<'_> {
        fn into_f64(self) -> f64 {
            *self.0 = true;
            0.0
        }
    }
    let mut heard = false;
    histogram.record_many(Probe(&mut heard), 0);
    heard
}
