//! Formats holders, durations and times of day for `exec` and `locks`.

use std::time::{Duration, SystemTime};

use fencepost::backend::{Holder, Record};
use fencepost::clock::Moment;
use fencepost_trial::text::harmless;
pub(crate) use fencepost_trial::text::harmless as harmless_text;
use fencepost_trial::text::numbers::{count, decimal};

/// Formats an age: `0.1 s`, `41 s`, `12 min`, `5 h`, `3 d`.
pub(crate) fn age(age: Duration) -> String {
    let seconds = age.as_secs_f64();
    let whole = |number: f64, unit| format!("{} {unit}", count(number.round() as i64));
    match seconds {
        ..9.95 => format!("{} s", decimal(seconds)),
        ..119.5 => whole(seconds, "s"),
        ..7_170.0 => whole(seconds / 60.0, "min"),
        ..171_000.0 => whole(seconds / 3_600.0, "h"),
        _ => whole(seconds / 86_400.0, "d"),
    }
}

/// Formats a time limit or remaining time: `8.8 s`, `30.0 s`, `12 min`.
pub(crate) fn seconds(duration: Duration) -> String {
    match duration.as_secs_f64() {
        short @ ..119.95 => format!("{} s", decimal(short)),
        _ => age(duration),
    }
}

/// Returns the record with [`harmless`] labels.
pub(crate) fn harmless_record(mut record: Record) -> Record {
    let further = record.further_holders.iter_mut();
    for label in record
        .holder
        .iter_mut()
        .chain(further)
        .map(|holder| &mut holder.label)
        .chain(record.waiting.iter_mut().map(|waiter| &mut waiter.label))
    {
        *label = harmless(label).into();
    }
    record
}

/// Describes the owner of a label: `web-2, process 4121`.
pub(crate) fn who(label: &str) -> String {
    match host_and_process(label) {
        Some((host, process)) => format!("{host}, process {process}"),
        None if label.is_empty() => "another program".to_owned(),
        None => label.to_owned(),
    }
}

/// Returns the host of a label, if the label has the form `host:process`.
pub(crate) fn host(label: &str) -> &str {
    match host_and_process(label) {
        Some((host, _)) => host,
        None if label.is_empty() => "the holder",
        None => label,
    }
}

/// Splits a label like `web-2:4121` into host and process id.
pub(crate) fn host_and_process(label: &str) -> Option<(&str, u32)> {
    let (host, process) = label.rsplit_once(':')?;
    Some((host, process.parse().ok()?)).filter(|_| !host.is_empty())
}

/// Describes a holder: `web-2, process 4121, for 41 s`.
pub(crate) fn held_by(holder: &Holder, now: Moment) -> String {
    let who = who(&holder.label);
    match holder.since {
        Some(since) => format!("{who}, for {}", age(now.saturating_duration_since(since))),
        None => who,
    }
}

/// Returns the fence with which the lease was granted. The store does not know of hand-overs inside the holder's process.
pub(crate) fn fence(epoch: u64) -> String {
    format!("{epoch}.0")
}

/// Formats the time of day: `03:12:44 UTC`.
pub(crate) fn time_of_day(time: SystemTime) -> String {
    match jiff::Timestamp::try_from(time) {
        Ok(time) => time.strftime("%H:%M:%S UTC").to_string(),
        Err(_) => "an unknown time".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_people_say_them() {
        let ages = [0.06, 9.94, 41.2, 119.0, 720.0, 18_000.0, 259_200.0];
        let shown = ages.map(|seconds| age(Duration::from_secs_f64(seconds)));
        assert_eq!(
            shown,
            ["0.1 s", "9.9 s", "41 s", "119 s", "12 min", "5 h", "3 d"]
        );
        let shown = [8.8, 30.0, 600.0].map(|number| seconds(Duration::from_secs_f64(number)));
        assert_eq!(shown, ["8.8 s", "30.0 s", "10 min"]);
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(3 * 3600 + 12 * 60 + 44);
        assert_eq!(time_of_day(time), "03:12:44 UTC");
    }

    #[test]
    fn a_label_is_a_host_and_a_process_or_stands_for_itself() {
        assert_eq!(who("web-2:4121"), "web-2, process 4121");
        assert_eq!(host("web-2:4121"), "web-2");
        for odd in ["nightly", ":12", "web:2:x"] {
            assert_eq!((who(odd).as_str(), host(odd)), (odd, odd));
        }
        assert_eq!(who(""), "another program");
    }
}
