//! `fencepost locks release`: asks for confirmation, then releases a lock by force.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;

use fencepost::backend::{Holder, Record, Release};
use fencepost::{Claim, Effect, Error, LockName, MIN_TTL};
use serde_json::json;

use super::entry::{Entry, Kind};
use super::{ANSWER_TIMEOUT, CommandContext, NOT_HELD, document};
use crate::command_error::CommandError;
use crate::exit;
use crate::store::NotOpened;
use crate::wording::{held_by, host, seconds, who};

pub(super) async fn run(
    context: CommandContext,
    name: &LockName,
    yes: bool,
) -> Result<ExitCode, CommandError> {
    let record = context.record(name).await?;
    let held = record
        .as_ref()
        .and_then(|record| Some((record, record.holder.as_ref()?)));
    let (Some((record, holder)), Some(backend)) = (held, context.backend.clone()) else {
        if let Some(entry) = context.shares(name).await? {
            return Err(not_from_here(name, &entry));
        }
        return Ok(finish(
            context,
            name,
            record.as_ref(),
            false,
            &format!("{name}   nobody holds it\n"),
        ));
    };
    let Some(owner) = holder.owner else {
        return Err(anothers(&context, name, holder));
    };
    if !yes && !is_meant(&context, name, holder)? {
        return Ok(finish(
            context,
            name,
            Some(record),
            false,
            &format!("{name}   not released\n"),
        ));
    }
    let claim = Claim::new(name.clone(), owner, holder.ttl.unwrap_or(MIN_TTL))
        .with_label(Arc::clone(&holder.label));
    let answer = tokio::time::timeout(ANSWER_TIMEOUT, backend.release(&claim)).await;
    let released = match answer {
        Ok(answer) => answer.map_err(|error| failed(&context, name, &error)),
        Err(_) => {
            let silent = NotOpened::silent(&context.store, ANSWER_TIMEOUT);
            Err(unsure(&context, silent, name))
        }
    };
    let (done, text) = match released? {
        Release::Freed => (true, released_text(name, holder, record)),
        Release::NotHeld => (
            false,
            format!(
                "{name}   not released: {} had just released it\n",
                host(&holder.label)
            ),
        ),
    };
    Ok(finish(context, name, Some(record), done, &text))
}

/// Returns the error for a semaphore or a read-write lock. Which of its holders would be meant?
fn not_from_here(name: &LockName, entry: &Entry) -> CommandError {
    let last = entry.record.holders().filter_map(|holder| holder.ttl_left);
    let what = match entry.kind {
        Kind::Semaphore => "permits of a semaphore",
        _ => "readers and writers of a read-write lock",
    };
    let error = CommandError::new(NOT_HELD, format!("{what} cannot be released from here"))
        .at(name)
        .effect("none");
    match last.max() {
        Some(left) => error.try_this(format_args!(
            "stop the holder: its lease ends within {}",
            seconds(left)
        )),
        None => error,
    }
}

/// Returns the error for a lock of another program.
fn anothers(context: &CommandContext, name: &LockName, holder: &Holder) -> CommandError {
    CommandError::new(
        NOT_HELD,
        "another program holds the lock, and only that program can release it",
    )
    .at(format_args!(
        "{name}, held by {}",
        held_by(holder, context.now())
    ))
    .effect("none")
}

/// Returns the error for a release that the store did not carry out, or may not have.
fn failed(context: &CommandContext, name: &LockName, error: &Error) -> CommandError {
    if error.effect() == Effect::None {
        return context.command_error(error);
    }
    unsure(context, NotOpened::new(&context.store, error), name)
}

/// Returns the error for a request that was sent but not answered.
fn unsure(context: &CommandContext, reason: NotOpened, name: &LockName) -> CommandError {
    reason.command_error_with(
        "maybe: the lock may have been released",
        &format!("fencepost locks show {}", context.named_here(name)),
    )
}

fn released_text(name: &LockName, holder: &Holder, record: &Record) -> String {
    // Renewals are due after a third of the lease.
    let soon = holder
        .ttl
        .map_or_else(String::new, |ttl| format!(", within {}", seconds(ttl / 3)));
    let next = match record.waiting.first() {
        Some(next) => format!("; next is {}", who(&next.label)),
        None => String::new(),
    };
    let notice = format!("{}, notices at its next renewal{soon}", who(&holder.label));
    format!("{name}   released: {notice}, and may still be working{next}\n")
}

fn finish(
    mut context: CommandContext,
    name: &LockName,
    record: Option<&Record>,
    done: bool,
    text: &str,
) -> ExitCode {
    if context.json {
        let seen = context.seen();
        context.screen.print_json(&json!({
            "schema": "fencepost/release/1",
            "version": env!("CARGO_PKG_VERSION"),
            "store": context.store.place(),
            "name": name.as_str(),
            "released": done,
            "before": record.map(|record| document::lock(name.as_str(), record, seen)),
        }));
    } else {
        context.screen.print(text);
    }
    context.screen.end(if done { 0 } else { NOT_HELD })
}

/// Asks the user for confirmation.
fn is_meant(
    context: &CommandContext,
    name: &LockName,
    holder: &Holder,
) -> Result<bool, CommandError> {
    if !io::stdin().is_terminal() {
        return Err(
            CommandError::new(exit::USAGE, "cannot ask for confirmation")
                .at("standard input is not a terminal")
                .effect("none: the lock is held as before")
                .try_this(format_args!(
                    "fencepost locks release {} --yes",
                    context.named_here(name)
                )),
        );
    }
    let question = format!(
        "{name} is held by {}.\n{} may still be working: stop it there first. Release? [y/N] ",
        held_by(holder, context.now()),
        host(&holder.label)
    );
    let mut stderr = io::stderr().lock();
    let _ = write!(stderr, "{question}").and_then(|()| stderr.flush());
    let mut answer = String::new();
    // If the terminal is closed, the answer is empty, which means no.
    let _ = io::stdin().lock().read_line(&mut answer);
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
