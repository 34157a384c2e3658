//! Parses the values of the flags of `serve`.

use std::net::IpAddr;
use std::time::Duration;

use fencepost::retry::Schedule;
use fencepost_checkout::checkout::OrderPath;
use fencepost_checkout::http::AdminToken;
use fencepost_checkout::locks::WaitMode;
use fencepost_checkout::logging::LogFormat;

use crate::values::{BadValue, duration};

/// A schedule, and the text that it was parsed from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pauses {
    pub(super) schedule: Schedule,
    pub(super) written: String,
}

pub(super) fn pauses(text: &str) -> Result<Pauses, BadValue> {
    let wrong = || BadValue {
        what: format!("'{text}' is not a schedule of pauses"),
        advice: "50ms · exponential:10ms:1s · jitter:10ms:1s · 10ms,20ms,50ms".into(),
    };
    let time = |text: &str| match duration(text.trim()) {
        Ok(time) if time <= Duration::from_secs(60) => Ok(time),
        _ => Err(wrong()),
    };
    let schedule = match text.split(':').collect::<Vec<_>>()[..] {
        ["exponential", base, cap] => Schedule::exponential(time(base)?, time(cap)?),
        ["jitter", base, cap] => Schedule::full_jitter(time(base)?, time(cap)?),
        [list] if list.contains(',') => {
            let pauses: Result<Vec<Duration>, BadValue> = list.split(',').map(time).collect();
            Schedule::list(pauses?)
        }
        ["fixed", pause] | [pause] => Schedule::fixed(time(pause)?),
        _ => return Err(wrong()),
    };
    Ok(Pauses {
        schedule,
        written: text.to_owned(),
    })
}

pub(super) fn wait_mode(text: &str) -> Result<WaitMode, BadValue> {
    match text {
        "line" => Ok(WaitMode::Line),
        "poll" => Ok(WaitMode::Poll),
        _ => Err(BadValue {
            what: format!("'{text}' is not a valid value for --wait-mode"),
            advice: "--wait-mode line or poll".into(),
        }),
    }
}

pub(super) fn order_path(text: &str) -> Result<OrderPath, BadValue> {
    let all = [OrderPath::Lock, OrderPath::Optimistic, OrderPath::Row];
    let found = all.into_iter().find(|path| path.as_str() == text);
    found.ok_or_else(|| BadValue {
        what: format!("there is no order path '{text}'"),
        advice: "--order-path lock, optimistic or row".into(),
    })
}

pub(super) fn log(text: &str) -> Result<LogFormat, BadValue> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(BadValue {
            what: format!("'{text}' is not a valid value for --log"),
            advice: "--log text or json".into(),
        }),
    }
}

pub(super) fn host(text: &str) -> Result<IpAddr, BadValue> {
    let name = if text == "localhost" {
        "127.0.0.1"
    } else {
        text
    };
    name.trim_matches(['[', ']']).parse().map_err(|_| BadValue {
        what: format!("'{text}' is not an address of this machine"),
        advice: "--host 127.0.0.1, ::1, 0.0.0.0 or another address".into(),
    })
}

/// Parses an admin token. The error does not contain the token.
pub(super) fn token(text: &str) -> Result<AdminToken, BadValue> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_plain && text.len() >= 8 {
        Ok(AdminToken::new(text))
    } else {
        Err(BadValue {
            what: "an admin token must have at least 8 visible ASCII characters".into(),
            advice: "openssl rand -hex 16".into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn every_schedule_of_the_library_can_be_written() {
        let schedule = |text| pauses(text).unwrap().schedule;
        assert_eq!(schedule("50ms"), Schedule::fixed(ms(50)));
        assert_eq!(schedule("fixed:50ms"), Schedule::fixed(ms(50)));
        assert_eq!(
            schedule("exponential:10ms:1s"),
            Schedule::exponential(ms(10), ms(1_000))
        );
        assert_eq!(
            schedule("jitter:10ms:1s"),
            Schedule::full_jitter(ms(10), ms(1_000))
        );
        assert_eq!(schedule("10ms,20ms"), Schedule::list([10, 20].map(ms)));
        for wrong in [
            "",
            "50",
            "jitter",
            "jitter:1s",
            "10ms,",
            "exponential:a:b",
            "2m",
        ] {
            assert!(pauses(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_refused_token_is_not_repeated() {
        assert!(!token("hunter2").unwrap_err().what.contains("hunter2"));
    }
}
