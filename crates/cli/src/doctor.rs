//! `fencepost doctor`: examines a store for settings and conditions that endanger locks. It changes nothing there.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use fencepost::stores::{StoreAddress, StoreKind, kinds};

use fencepost_trial::text::numbers::count;

use crate::command_error::CommandError;
use crate::exit;
use crate::screen::OutputFlags;
use crate::store::LockStore;
use crate::values::duration;

#[cfg(feature = "etcd")]
mod etcd;
mod finding;
mod pace;
#[cfg(all(
    test,
    feature = "postgres",
    feature = "etcd",
    feature = "zookeeper",
    feature = "redlock"
))]
mod page;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(
    feature = "postgres",
    feature = "etcd",
    feature = "zookeeper",
    feature = "redlock"
))]
mod reach;
mod redis;
#[cfg(feature = "redlock")]
mod redlock;
mod rules;
mod show;
mod sqlite;
#[cfg(feature = "zookeeper")]
mod zookeeper;

use finding::Finding;

/// The arguments of `fencepost doctor`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Doctor {
    #[arg(long, env = "FENCEPOST_STORE", hide_env_values = true, default_value = "sqlite", value_parser = LockStore::parse)]
    store: LockStore,
    #[arg(long, allow_hyphen_values = true, default_value = "250ms", value_parser = duration)]
    slow: Duration,
    #[command(flatten)]
    output_flags: OutputFlags,
}

/// The result of examining a store.
struct Examination {
    /// The address, without its password.
    address: String,
    /// A description of the server, like `Redis 7.0.15, one primary, up 12 d, as user shop`.
    server: String,
    /// What was found; [`run`] sorts the findings by severity.
    findings: Vec<Finding>,
}

/// How long to retry a server that does not answer, and how long to wait for each answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs `fencepost doctor`.
pub(crate) fn run(arguments: &Doctor) -> Result<ExitCode, CommandError> {
    let mut examination = match &arguments.store {
        LockStore::Address(address) => at(&arguments.store, address, arguments.slow)?,
        LockStore::Sqlite(path) => {
            let place = arguments.store.path(path.as_deref());
            sqlite::examine(
                &place.map_err(|error| error.command_error())?,
                path.is_none(),
            )?
        }
    };
    examination.findings.sort_by_key(|finding| finding.severity);
    let mut screen = arguments.output_flags.screen();
    if arguments.output_flags.json {
        screen.print_json(&show::document(&examination));
    } else {
        screen.print(&show::text(
            &examination,
            arguments.output_flags.quiet,
            screen.ink,
        ));
    }
    Ok(screen.end(finding::exit_code(&examination.findings)))
}

/// Examines the server at an address; the duration is the limit of `--slow`.
type Examine = fn(&LockStore, &str, Duration) -> Result<Examination, CommandError>;

/// The kinds of server that the doctor can examine.
static EXAMINERS: &[(&StoreKind, Examine)] = &[
    (&kinds::REDIS, |_, address, slow| {
        redis::examine(address, slow)
    }),
    #[cfg(feature = "redlock")]
    (&kinds::REDLOCK, redlock::examine),
    #[cfg(feature = "postgres")]
    (&kinds::POSTGRES, in_postgres),
    #[cfg(feature = "postgres")]
    (&kinds::POSTGRES_TABLE, in_postgres),
    #[cfg(feature = "etcd")]
    (&kinds::ETCD, |store, address, slow| {
        reach::in_runtime(etcd::examine(store, address, slow))
    }),
    #[cfg(feature = "zookeeper")]
    (&kinds::ZOOKEEPER, |store, address, slow| {
        reach::in_runtime(zookeeper::examine(store, address, slow))
    }),
];

#[cfg(feature = "postgres")]
fn in_postgres(
    store: &LockStore,
    address: &str,
    slow: Duration,
) -> Result<Examination, CommandError> {
    reach::in_runtime(postgres::examine(store, address, slow))
}

/// Examines the server at an address.
fn at(
    store: &LockStore,
    address: &StoreAddress,
    slow: Duration,
) -> Result<Examination, CommandError> {
    let kind = address.kind();
    let (_, examine) = EXAMINERS
        .iter()
        .find(|(examined, _)| *examined == kind)
        .ok_or_else(|| no_check(kind, &store.place()))?;
    examine(store, address.as_str(), slow)
}

/// Returns the error for a store that can be used, but for which the doctor has no rules.
fn no_check(kind: &StoreKind, place: &str) -> CommandError {
    let what = format!("the doctor cannot check {} yet", kind.title);
    CommandError::new(exit::USAGE, what)
        .at(format_args!("--store {place}"))
        .effect("none: nothing was examined")
        .try_this("fencepost locks list shows whether the store answers")
}

fn uptime(seconds: i64) -> String {
    match seconds {
        i64::MIN..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", count(seconds / 86_400)),
    }
}
