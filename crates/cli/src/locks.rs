//! `fencepost locks`: lists and shows locks, and releases a lock by force.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use fencepost::{Backend, LockName};
use fencepost_trial::text::shell_word;

use crate::command_error::{CommandError, system_words};
use crate::exit;
use crate::screen::Screen;
use crate::store::{LockStore, NotOpened};
use crate::terminal::Colour;
use crate::values::BadValue;
use crate::wording::harmless_record;

mod document;
mod entry;
mod list;
mod release;
mod show;

use entry::Entry;

/// How long the store may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The exit code if nobody holds the lock, or if it was not released.
const NOT_HELD: u8 = 1;

#[derive(Debug, Args)]
#[command(disable_help_flag = true, disable_help_subcommand = true)]
pub(crate) struct Locks {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Subcommand)]
#[command(disable_help_flag = true)]
enum What {
    List {
        pattern: Option<String>,
    },
    Show {
        #[arg(value_parser = name)]
        name: LockName,
    },
    Release {
        #[arg(value_parser = name)]
        name: LockName,
        #[arg(long, short)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
struct Common {
    #[arg(long, global = true, env = "FENCEPOST_STORE", hide_env_values = true, default_value = "sqlite", value_parser = LockStore::parse)]
    store: LockStore,
    #[arg(long, global = true)]
    json: bool,
    #[arg(long, short, global = true)]
    quiet: bool,
    #[arg(long, global = true, default_value = "auto", value_parser = Colour::parse)]
    color: Colour,
    #[arg(long, global = true)]
    ascii: bool,
}

fn name(text: &str) -> Result<LockName, BadValue> {
    LockName::new(text).map_err(|error| BadValue {
        what: error.message().to_owned(),
        advice: "fencepost locks list".into(),
    })
}

/// What every `locks` command works with: the open store and the screen.
struct CommandContext {
    store: LockStore,
    /// `None` if there is no file, and so there are no locks.
    backend: Option<Arc<dyn Backend>>,
    screen: Screen,
    json: bool,
    quiet: bool,
}

/// Runs `fencepost locks`.
pub(crate) fn run(arguments: Locks) -> Result<ExitCode, CommandError> {
    let Locks { what, common } = arguments;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| {
        CommandError::new(exit::INTERNAL, "cannot wait for a store").at(system_words(&error))
    })?;
    runtime.block_on(async {
        let opened = match what {
            What::List { .. } | What::Show { .. } => common.store.open_read_only().await,
            What::Release { .. } => common.store.open_to_release().await,
        };
        let backend = opened.map_err(|error| error.command_error())?;
        let context = CommandContext {
            backend,
            screen: Screen::new(common.color, common.ascii, common.quiet || common.json),
            store: common.store,
            json: common.json,
            quiet: common.quiet,
        };
        match what {
            What::List { pattern } => list::run(context, pattern.as_deref()).await,
            What::Show { name } => show::run(context, &name).await,
            What::Release { name, yes } => release::run(context, &name, yes).await,
        }
    })
}

impl CommandContext {
    /// Reads the record of one lock.
    async fn record(
        &self,
        name: &LockName,
    ) -> Result<Option<fencepost::backend::Record>, CommandError> {
        let Some(backend) = &self.backend else {
            return Ok(None);
        };
        let record = self.answer(ANSWER_TIMEOUT, backend.inspect(name)).await?;
        let record = record.map_err(|error| self.command_error(&error))?;
        Ok(if self.json {
            record
        } else {
            record.map(harmless_record)
        })
    }

    /// Waits for an answer of the store, at most for [`ANSWER_TIMEOUT`].
    async fn answer<A: Future>(
        &self,
        timeout: Duration,
        asked: A,
    ) -> Result<A::Output, CommandError> {
        let answer = tokio::time::timeout(timeout, asked).await;
        answer.map_err(|_| NotOpened::silent(&self.store, timeout).command_error())
    }

    /// Reads everything whose name matches the pattern.
    async fn entries(&self, pattern: Option<&str>) -> Result<Vec<Entry>, CommandError> {
        let Some(backend) = &self.backend else {
            return Ok(Vec::new());
        };
        let asked = entry::read_all(backend, pattern);
        let entries = self.answer(list::LIST_TIMEOUT, asked).await?;
        entries.map_err(|error| self.command_error(&error))
    }

    /// Reads the semaphore or read-write lock of this name.
    async fn shares(&self, name: &LockName) -> Result<Option<Entry>, CommandError> {
        let Some(backend) = &self.backend else {
            return Ok(None);
        };
        let asked = entry::read_shares(backend, name);
        let entry = self.answer(ANSWER_TIMEOUT, asked).await?;
        let mut entry = entry.map_err(|error| self.command_error(&error))?;
        if let (Some(entry), false) = (&mut entry, self.json) {
            entry.record = harmless_record(entry.record.clone());
        }
        Ok(entry)
    }

    fn seen(&self) -> document::Seen {
        document::Seen {
            at: self.now(),
            has_line: self.has_line(),
        }
    }

    /// Returns whether the store knows who waits.
    fn has_line(&self) -> bool {
        let backend = self.backend.as_ref();
        backend.is_none_or(|backend| backend.capabilities().fifo)
    }

    /// Returns the name and the store of a lock, as arguments for another command.
    fn named_here(&self, name: &LockName) -> String {
        shell_word(name.as_str()) + &self.store.flag()
    }

    /// Returns the current moment on the clock that the store's records use.
    fn now(&self) -> fencepost::clock::Moment {
        match &self.backend {
            Some(backend) => backend.clock().now(),
            None => fencepost::clock::Moment::ZERO,
        }
    }

    fn command_error(&self, error: &fencepost::Error) -> CommandError {
        NotOpened::new(&self.store, error).command_error()
    }
}
