//! The messages that `serve` prints when it starts and when it stops.

use fencepost_checkout::checkout::OrderPath;
use fencepost_checkout::locking::WaitMode;
use fencepost_checkout::service::Report;
use fencepost_trial::text::numbers::count as whole;

use super::Serve;
use crate::store::LockStore;

/// Returns the lines under `listening on …`.
pub(super) fn ready(serve: &Serve, (products, open): (i64, i64)) -> String {
    let locks = match &serve.store {
        LockStore::Sqlite(_) => "sqlite (one machine)".to_owned(),
        store => store.place(),
    };
    let pauses = format!(
        "retry {} × {}",
        serve.retries,
        serve.retry.written.replace("ms", " ms")
    );
    let wait_mode = match serve.wait {
        WaitMode::Line => ", in line",
        WaitMode::Poll => "",
    };
    let path = match serve.order_path {
        OrderPath::Lock => String::new(),
        other => format!("   orders use {} instead of locks", other.as_str()),
    };
    let access = match (serve.host.is_loopback(), serve.admin_token.is_some()) {
        (true, false) => "this machine only. For others: --host ADDRESS and --admin-token",
        (true, true) => "this machine only; changes need the admin token",
        (false, _) => "everybody who reaches this address; changes need the admin token",
    };
    let (trials, lab) = if serve.lab {
        (
            "; starts lock trials at the press of a button",
            "lab       a scratch shop for load-tests/: POST /reset, POST /purchase, GET /stock/{id}",
        )
    } else {
        (
            "",
            "lab       off. --lab: lock trials on the page, a scratch shop for load-tests/",
        )
    };
    format!(
        "\
\x20 page      /: live locks, contention, orders{trials}
\x20 api       /v1, described by /openapi.json · /healthz · /readyz · /metrics
\x20 {lab}
\x20 locks     {locks}   TTL {} ms, kept alive   {pauses}{wait_mode}{path}
\x20 data      {}: {}, {}; abandoned ones return after {}
\x20 access    {access}
",
        whole(i64::try_from(serve.ttl.as_millis()).unwrap_or(i64::MAX)),
        serve.db.place(),
        counted(products, "product"),
        counted(open, "open reservation"),
        time(serve.reserve_for),
    )
}

fn counted(count: i64, what: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{} {what}{ending}", whole(count))
}

fn time(time: std::time::Duration) -> String {
    let text = humantime::format_duration(time).to_string();
    match text
        .strip_suffix('m')
        .filter(|minutes| minutes.parse::<u64>().is_ok())
    {
        Some(minutes) => format!("{minutes} min"),
        None => text,
    }
}

/// Returns the last line, after the service has stopped.
pub(super) fn stopped(report: &Report) -> String {
    let plural = |count: u64, what: &str| {
        let ending = if count == 1 { "" } else { "s" };
        format!("{count} {what}{ending}")
    };
    let unfinished = match report.unfinished {
        0 => String::new(),
        count => format!(
            " {count} not (repeat an order with its Idempotency-Key to see what became of it),"
        ),
    };
    format!(
        "stopped: {} in flight finished,{unfinished} {} undone, {} released\n",
        plural(report.finished, "request"),
        report.undone,
        plural(report.released, "lock"),
    )
}
