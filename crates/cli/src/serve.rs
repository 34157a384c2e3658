//! `fencepost serve`: runs the checkout service over HTTP.
//!
//! Checks the flags, opens the port, the lock store and the database, and serves until a signal stops it.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use fencepost::Backend;
use fencepost::stores::sqlite::Sqlite;
use fencepost_checkout::checkout::OrderPath;
use fencepost_checkout::http::{AdminToken, ExtraRoutes, HttpSettings};
use fencepost_checkout::locks::{WaitMode, WaitPolicy};
use fencepost_checkout::logging::{self, LogFormat};
use fencepost_checkout::server::ConnectionSettings;
use fencepost_checkout::service::{Report, Service, Settings};
use fencepost_checkout::storage::Storage;
use fencepost_checkout::telemetry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::command_error::{CommandError, system_words};
use crate::exit;
use crate::store::{LockStore, NotOpened};
use crate::terminal::Colour;
use crate::values::{at_once, duration, port, retries};

mod database;
mod ending;
mod flags;
mod lab;
mod messages;

use database::Database;
use flags::{Pauses, log, order_path, pauses, token, wait_mode};

const LONGEST_KEPT: Duration = Duration::from_secs(366 * 24 * 60 * 60);
const LONGEST_DEADLINE: Duration = Duration::from_secs(60 * 60);

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Serve {
    #[arg(long, allow_hyphen_values = true, default_value_t = 8080, value_parser = port)]
    port: u16,
    #[arg(long, default_value = "127.0.0.1", value_parser = flags::host)]
    host: IpAddr,
    #[arg(long, env = "FENCEPOST_ADMIN_TOKEN", hide_env_values = true, value_parser = token)]
    admin_token: Option<AdminToken>,
    #[arg(long, env = "FENCEPOST_DB", hide_env_values = true, default_value = "shop.db", value_parser = Database::parse)]
    db: Database,
    #[arg(long, env = "FENCEPOST_STORE", hide_env_values = true, default_value = "sqlite", value_parser = LockStore::parse)]
    store: LockStore,
    #[arg(long, allow_hyphen_values = true, default_value = "3s", value_parser = duration)]
    ttl: Duration,
    #[arg(long, allow_hyphen_values = true, default_value_t = 10, value_parser = retries)]
    retries: u32,
    #[arg(long, default_value = "50ms", value_parser = pauses)]
    retry: Pauses,
    #[arg(long, default_value = "line", value_parser = wait_mode)]
    wait_mode: WaitMode,
    #[arg(long, default_value = "lock", value_parser = order_path)]
    order_path: OrderPath,
    #[arg(long, allow_hyphen_values = true, default_value = "10m", value_parser = duration)]
    reserve_for: Duration,
    #[arg(long, allow_hyphen_values = true, default_value = "24h", value_parser = duration)]
    keep_keys: Duration,
    #[arg(long, allow_hyphen_values = true, default_value = "5s", value_parser = duration)]
    deadline: Duration,
    #[arg(long, allow_hyphen_values = true, default_value_t = 512, value_parser = at_once)]
    max_in_flight: usize,
    #[arg(long, allow_hyphen_values = true, default_value_t = 1_024, value_parser = at_once)]
    max_connections: usize,
    #[arg(long)]
    lab: bool,
    #[arg(long, value_parser = log)]
    log: Option<LogFormat>,
    #[arg(long, short)]
    quiet: bool,
    /// Evaluated before the command line is parsed.
    #[arg(long, default_value = "auto", value_parser = Colour::parse)]
    color: Colour,
    #[arg(long)]
    ascii: bool,
}

pub(crate) fn run(arguments: Serve) -> Result<ExitCode, CommandError> {
    // These flags were evaluated before the command line was parsed.
    let _ = (arguments.color, arguments.ascii);
    arguments.check()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            CommandError::new(exit::SYSTEM, "cannot start").at(system_words(&error))
        })?;
    logging::install(arguments.log);
    let report = runtime.block_on(arguments.serve())?;
    if !arguments.quiet {
        tell(&messages::stopped(&report));
    }
    // Do not wait for threads that wait for a store that is gone.
    runtime.shutdown_timeout(Duration::from_millis(200));
    Ok(ExitCode::SUCCESS)
}

impl Serve {
    /// Turns on the lab, for `http-server`.
    pub(crate) fn with_lab(self) -> Self {
        Self { lab: true, ..self }
    }

    fn check(&self) -> Result<(), CommandError> {
        let usage = |what: &str| CommandError::new(exit::USAGE, what);
        if !self.host.is_loopback() && self.admin_token.is_none() {
            return Err(usage(
                "without a token, anybody who reaches this address could change things",
            )
            .at(format_args!("--host {}", self.host))
            .effect("none: nothing was opened")
            .try_this("--admin-token TEXT, or FENCEPOST_ADMIN_TOKEN · --host 127.0.0.1"));
        }
        for (flag, time, longest, up_to) in [
            ("--reserve-for", self.reserve_for, LONGEST_KEPT, "366d"),
            ("--keep-keys", self.keep_keys, LONGEST_KEPT, "366d"),
            ("--deadline", self.deadline, LONGEST_DEADLINE, "1h"),
        ] {
            let typed = humantime::format_duration(time);
            let (fault, advice) = if time > longest {
                ("long", format!("up to {up_to}"))
            } else if time.is_zero() {
                ("short", format!("more than zero, up to {up_to}"))
            } else {
                continue;
            };
            return Err(usage(&format!("a {flag} of {typed} is too {fault}"))
                .at(format_args!("{flag} {typed}"))
                .effect("none: nothing was opened")
                .try_this(advice));
        }
        Ok(())
    }

    fn wait_policy(&self) -> WaitPolicy {
        WaitPolicy {
            schedule: self.retry.schedule.clone(),
            retries: self.retries,
            mode: self.wait_mode,
        }
    }

    fn settings(&self) -> Settings {
        Settings {
            ttl: self.ttl,
            wait_policy: self.wait_policy(),
            order_path: self.order_path,
            reserve_for: self.reserve_for,
            keep_keys: self.keep_keys,
            http: HttpSettings {
                admin_token: self.admin_token.clone(),
                is_loopback: self.host.is_loopback(),
                max_in_flight: self.max_in_flight,
                deadline: self.deadline,
                ..HttpSettings::default()
            },
            connections: ConnectionSettings {
                max_connections: self.max_connections,
                ..ConnectionSettings::default()
            },
            ..Settings::default()
        }
    }

    async fn serve(&self) -> Result<Report, CommandError> {
        // Bind the port first: if it is taken, no file is opened or created.
        let (listener, address) = self.listen().await?;
        // Must come before the locker is built, which looks up the metrics recorder once.
        let metrics = telemetry::install().map_err(|error| {
            CommandError::new(exit::INTERNAL, "cannot record metrics").at(error.to_string())
        })?;
        // Before the database, so that an invalid address or a server that is down leaves no file of products behind.
        let (backend, locks) = self
            .locks()
            .await
            .map_err(|reason| reason.command_error())?;
        let storage = self.db.open().await?;
        let files = ending::Files {
            storage: Arc::clone(&storage),
            locks,
        };
        let counts = storage.counts().await;
        let counts = counts.map_err(|error| self.db.command_error(&error))?;
        let routes = if self.lab {
            lab::open(&self.store).await?
        } else {
            lab::off()
        };
        let mut service = self.put_together(storage, backend, routes, metrics)?;
        if self.lab {
            service = lab::offer_trials(service);
        }
        let stop = CancellationToken::new();
        ending::signals(&stop).map_err(|error| {
            CommandError::new(exit::SYSTEM, "cannot listen for signals").at(system_words(&error))
        })?;
        // Printed only now, when requests are answered and nothing can fail any more.
        let mut stdout = io::stdout().lock();
        let said = writeln!(stdout, "listening on http://{address}").and_then(|()| stdout.flush());
        drop(stdout);
        // The parent process may have closed standard output.
        let _ = said;
        if !self.quiet {
            tell(&messages::ready(self, counts));
        }
        let report = service.run(listener, stop).await;
        files.leave_whole().await;
        Ok(report)
    }

    /// Opens the lock store. Also returns the SQLite store if it is a file.
    async fn locks(&self) -> Result<(Arc<dyn Backend>, Option<Arc<Sqlite>>), NotOpened> {
        let file = self.store.open_sqlite().await?;
        let backend: Arc<dyn Backend> = match &file {
            Some(file) => Arc::<Sqlite>::clone(file),
            None => self.store.open_with_ttl(self.ttl).await?,
        };
        Ok((backend, file))
    }

    async fn listen(&self) -> Result<(TcpListener, SocketAddr), CommandError> {
        let wanted = SocketAddr::new(self.host, self.port);
        let refused = |error: io::Error| {
            let (words, advice) = match error.kind() {
                io::ErrorKind::AddrInUse => (
                    "address in use".to_owned(),
                    format!("--port {}", self.port.wrapping_add(1).max(1024)),
                ),
                io::ErrorKind::PermissionDenied => (
                    system_words(&error),
                    "--port 8080: below 1024 needs rights".into(),
                ),
                _ => (
                    system_words(&error),
                    "--host 127.0.0.1, or another address of this machine".into(),
                ),
            };
            CommandError::new(exit::SYSTEM, "cannot listen")
                .at(format_args!("{wanted}: {words}"))
                .effect("none: nothing was opened")
                .try_this(advice)
        };
        let listener = TcpListener::bind(wanted).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        Ok((listener, address))
    }

    fn put_together(
        &self,
        storage: Arc<dyn Storage>,
        backend: Arc<dyn Backend>,
        routes: ExtraRoutes,
        metrics: telemetry::PrometheusHandle,
    ) -> Result<Service, CommandError> {
        let service = Service::new(storage, backend, routes, self.settings(), metrics);
        service.map_err(|error| {
            CommandError::new(exit::USAGE, error.message())
                .at(format_args!(
                    "--ttl {}",
                    humantime::format_duration(self.ttl)
                ))
                .try_this("--ttl 3s")
        })
    }
}

/// Writes to standard error.
fn tell(text: &str) {
    // If standard error is closed, there is nowhere left to report to.
    let _ = io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        serve: Serve,
    }

    pub(super) fn parsed(flags: &str) -> Serve {
        let words = std::iter::once("serve").chain(flags.split_whitespace());
        Serve {
            // The environment may have one.
            admin_token: None,
            ..Command::try_parse_from(words).unwrap().serve
        }
    }

    #[test]
    fn without_flags_the_service_has_its_default_settings() {
        assert_eq!(parsed("").settings(), Settings::default());
        assert_ne!(parsed("--ttl 4s").settings(), Settings::default());
    }
}
