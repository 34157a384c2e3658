//! The messages that `serve` prints when it starts and when it stops.

use std::time::Duration;

use fencepost_checkout::checkout::OrderPath;
use fencepost_checkout::locks::WaitMode;
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
\x20 locks     {locks}   TTL {}, kept alive{}{path}
\x20 data      {}: {}, {}; abandoned ones return after {}
\x20 access    {access}
",
        ms(serve.ttl),
        waiting(serve),
        serve.db.place(),
        counted(products, "product"),
        counted(open, "open reservation"),
        time(serve.reserve_for),
    )
}

fn ms(time: Duration) -> String {
    let ms = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    format!("{} ms", whole(ms))
}

/// Returns how orders wait for each other, unless the database makes them wait.
fn waiting(serve: &Serve) -> String {
    match (serve.order_path, serve.wait_mode) {
        (OrderPath::Lock, WaitMode::Line) => {
            let longest = serve.wait_policy().longest_wait().min(serve.deadline);
            format!("   waits up to {} in line", ms(longest))
        }
        (OrderPath::Lock, WaitMode::Poll) | (OrderPath::Optimistic, _) => format!(
            "   retry {} × {}",
            serve.retries,
            serve.retry.written.replace("ms", " ms")
        ),
        (OrderPath::Row, _) => String::new(),
    }
}

fn counted(count: i64, what: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{} {what}{ending}", whole(count))
}

fn time(time: Duration) -> String {
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

#[cfg(test)]
mod tests {
    use super::super::tests::parsed;
    use super::*;

    #[test]
    fn it_says_how_orders_wait() {
        for (flags, said) in [
            ("", "   waits up to 500 ms in line"),
            (
                "--retry jitter:10ms:50ms --retries 4",
                "   waits up to 120 ms in line",
            ),
            (
                "--retries 1000 --deadline 400ms",
                "   waits up to 400 ms in line",
            ),
            ("--wait-mode poll", "   retry 10 × 50 ms"),
            ("--order-path optimistic", "   retry 10 × 50 ms"),
            ("--order-path row", ""),
        ] {
            assert_eq!(waiting(&parsed(flags)), said, "{flags}");
        }
    }
}
