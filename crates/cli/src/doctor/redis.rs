//! The examination of a Redis server.
//!
//! Nothing is written: settings and figures come from `INFO` and `CONFIG GET`, rights are tried with commands that change
//! nothing or asked of the server itself.

use std::time::{Duration, Instant};

use ::redis::ProtocolVersion;
use fencepost::stores::redis::Redis;
use fencepost_trial::text::numbers::count;

use super::finding::{Finding, Harm};
use super::pace::{self, Asked};
use super::{Examination, PATIENCE};
use crate::arguments::without_password;
use crate::exit;
use crate::fault::Fault;

mod info;
mod keeping;
mod memory;
mod rights;
mod server;
mod what;

use info::Info;
pub(super) use server::Gone;
use server::{Reply, Server};

/// What is known when the findings are made.
struct Known {
    info: Option<Info>,
    user: String,
}

impl Known {
    fn get(&self, name: &str) -> Option<&str> {
        self.info.as_ref()?.get(name)
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.get(name)?.parse().ok()
    }

    fn is(&self, name: &str, value: &str) -> bool {
        self.get(name) == Some(value)
    }
}

pub(super) fn examine(address: &str) -> Result<Examination, Fault> {
    let place = without_password(address);
    if let Err(error) = Redis::visit(address, ProtocolVersion::RESP2) {
        let what = format!("'{place}' is not the address of a server");
        let advice =
            "redis://HOST, redis://USER:PASSWORD@HOST:PORT/DATABASE, rediss://… or unix:/PATH";
        let fault = Fault::new(exit::USAGE, what).at(format_args!("--store: {}", error.message()));
        return Err(fault.try_this(advice));
    }
    let form = "redis://USER:PASSWORD@HOST";
    let node = node(address).map_err(|gone| gone.fault(&place, form))?;
    Ok(Examination {
        place,
        patient: node.patient,
        findings: node.findings,
    })
}

/// A server, and what is the matter with it.
pub(super) struct Node {
    /// What it is, in words.
    pub(super) patient: String,
    /// What tells it from others; `None`: the user may not ask.
    #[cfg_attr(
        not(feature = "redlock"),
        expect(dead_code, reason = "tells several apart")
    )]
    pub(super) identity: Option<String>,
    pub(super) findings: Vec<Finding>,
}

/// Examines one server.
pub(super) fn node(address: &str) -> Result<Node, Gone> {
    server::reach(address, PATIENCE)?;
    look(address)
}

fn look(address: &str) -> Result<Node, Gone> {
    let mut server = Server::open(address)?;
    let info = match server.ask::<String>(&["INFO"])? {
        Reply::Said(text) => Some(Info::parse(&text)),
        Reply::Denied | Reply::Refused(_) => None,
    };
    let user = match server.ask::<String>(&["ACL", "WHOAMI"])? {
        Reply::Said(user) => user,
        Reply::Denied | Reply::Refused(_) => server.user().to_owned(),
    };
    let known = Known { info, user };
    let mut findings = Vec::new();
    if known.info.is_none() {
        findings.push(no_info(&known));
    }
    findings.extend(memory::judge(&known));
    findings.extend(keeping::judge(&known, &mut server)?);
    findings.extend(what::judge(&known, address)?);
    findings.extend(rights::judge(&known, &mut server, address)?);
    findings.extend(pace(&mut server)?);
    Ok(Node {
        patient: what::patient(&known),
        identity: known.get("run_id").map(str::to_owned),
        findings,
    })
}

fn pace(server: &mut Server) -> Result<Vec<Finding>, Gone> {
    let start = Instant::now();
    let mut samples = Vec::with_capacity(pace::TRIES);
    for _ in 0..pace::TRIES {
        let asked = Asked::now();
        let Some((seconds, micros)) = server.ask::<(u64, u32)>(&["TIME"])?.said() else {
            let why = "this user may not ask for the TIME";
            return Ok(vec![Finding::unknown("clock", why)]);
        };
        let theirs = Duration::from_secs(seconds) + Duration::from_micros(micros.into());
        samples.push(asked.answered(theirs, start));
    }
    Ok(pace::judge(&samples, Some("Redis")))
}

/// Most of the rest rests on this.
fn no_info(known: &Known) -> Finding {
    let what = format!("user {} may not INFO", known.user);
    Finding::caution("settings", Harm::Vanishes, what)
        .means("Eviction, persistence, replicas and version cannot be told: each can cost a lock.")
        .advice("ask as a user who may: +info and +config|get are enough")
}

/// As `64.0 MiB`.
fn mebibytes(bytes: i64) -> String {
    let tenths = (bytes as f64 / 104_857.6).round() as i64;
    format!("{}.{}", count(tenths / 10), tenths % 10)
}

impl Gone {
    /// In a few words.
    #[cfg(feature = "redlock")]
    pub(super) fn words(&self) -> &str {
        match self {
            Self::Silent(words) | Self::Refuses(words) => words,
            Self::NotRedis => "not Redis",
        }
    }

    /// `form` is how an address of this kind looks.
    pub(super) fn fault(self, place: &str, form: &str) -> Fault {
        let (what, at, advice) = match self {
            Self::Silent(words) => (
                "cannot reach the store",
                words,
                "start Redis there, or give another address",
            ),
            Self::NotRedis => (
                "this is not a Redis server",
                "answers, but not as Redis does".to_owned(),
                "another HOST:PORT",
            ),
            Self::Refuses(words) => ("cannot use the store", words, form),
        };
        Fault::new(exit::STORE, what)
            .at(format_args!("{place}: {at}"))
            .effect("none: nothing was examined")
            .try_this(advice)
    }
}
