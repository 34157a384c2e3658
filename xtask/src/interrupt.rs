//! Handles Ctrl-C and SIGTERM: ends the running commands, and then this program.
//!
//! A command that is started as [`Interruptible`] has its own process group, so that one signal also reaches the tests that cargo started.
//! Others are left alone: they are over soon, like `git`, or must stay with the terminal, like `sudo`, which may ask for a password there.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// The exit code that shells expect of a program that was ended by Ctrl-C.
pub(crate) const EXIT_CODE: u8 = 130;

/// How long the command may take to end. Longer than nextest gives its tests (10 s); if nextest were killed earlier, it would leave them
/// behind.
const GRACE: Duration = Duration::from_secs(15);

/// The process groups of all running commands.
static GROUPS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());
static HAPPENED: AtomicBool = AtomicBool::new(false);
static MUST_CLEAN_UP: AtomicBool = AtomicBool::new(false);

/// Returns whether a signal asked this program to stop.
pub(crate) fn happened() -> bool {
    HAPPENED.load(Ordering::SeqCst)
}

/// Watches for SIGINT, SIGTERM and SIGHUP from now on.
pub(crate) fn watch() -> Result<()> {
    ctrlc::set_handler(on_signal).context("the handler for Ctrl-C")
}

fn on_signal() {
    let first = !HAPPENED.swap(true, Ordering::SeqCst);
    let nothing_runs = groups().is_empty();
    if nothing_runs && !MUST_CLEAN_UP.load(Ordering::SeqCst) {
        std::process::exit(EXIT_CODE.into());
    }
    signal_groups(Signal::SIGTERM);
    if first {
        thread::spawn(|| {
            thread::sleep(GRACE);
            signal_groups(Signal::SIGKILL);
            std::process::exit(EXIT_CODE.into());
        });
    }
}

fn groups() -> MutexGuard<'static, Vec<Pid>> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn signal_groups(signal: Signal) {
    groups().iter().for_each(|group| send(*group, signal));
}

fn send(group: Pid, signal: Signal) {
    // Fails only if the group is gone already.
    let _ = killpg(group, signal);
}

/// While this value lives, an interruption does not end the program at once, so that every `Drop` runs. Long work must check [`happened`].
pub(crate) struct CleanUp(());

impl CleanUp {
    pub(crate) fn on_interrupt() -> Self {
        MUST_CLEAN_UP.store(true, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for CleanUp {
    fn drop(&mut self) {
        MUST_CLEAN_UP.store(false, Ordering::SeqCst);
    }
}

/// A child process in a process group of its own, which an interruption of this program ends. Dropping this after an interruption kills
/// what is left of the group. If this program is killed itself, nothing ends the child.
pub(crate) struct Interruptible {
    pub(crate) child: Child,
    group: Pid,
}

impl Interruptible {
    /// Starts `command` in its own process group.
    pub(crate) fn spawn(command: &mut Command) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let group = Pid::from_raw(i32::try_from(child.id())?);
        groups().push(group);
        if happened() {
            // The signal arrived before the group was known.
            send(group, Signal::SIGTERM);
        }
        Ok(Self { child, group })
    }
}

impl Drop for Interruptible {
    fn drop(&mut self) {
        if happened() {
            send(self.group, Signal::SIGKILL);
        }
        groups().retain(|group| *group != self.group);
    }
}
