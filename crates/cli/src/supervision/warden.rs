//! The warden: a process between the supervisor (`exec`, `elect` or `once`) and the command, which makes sure that the command does not
//! outlive the lock.
//!
//! The supervisor tells the warden until when the lock is held. The warden starts the command, and stops it with all its descendants when
//! that time runs out, when the supervisor says so, or when the supervisor is gone. So the command is stopped in time even if the
//! supervisor itself is paused (SIGSTOP), and dies if the supervisor is killed. If the *warden* is killed, the kernel kills the command, and
//! the supervisor kills the descendants. One warden serves all holds of a supervisor, one after the other.
//!
//! The warden is forked while the program has a single thread. It has its own process group, where Ctrl-C does not reach it, and ignores
//! signals that ask it to end.

use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use fencepost::Fence;
use fencepost::clock::{BootClock, Clock, Moment};
use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid, getppid, setpgid};
use tokio::signal::unix::{SignalKind, signal};

use super::channel::{Instruction, Report, WardenChannel};
use super::family::{self, Family};
use super::{Supervised, Workload, terminal};

/// How often the warden checks whether all processes are gone.
const LOOK: Duration = Duration::from_millis(5);

/// The warden as the supervisor sees it.
#[derive(Debug)]
pub(super) struct Warden {
    pub(super) process: Pid,
    pub(super) stream: UnixStream,
}

/// Forks the warden.
///
/// # Errors
/// Returns the system's error if forking fails.
pub(super) fn fork_off(task: &Supervised) -> io::Result<Warden> {
    let (ours, its) = UnixStream::pair()?;
    family::adopt_orphans();
    let before = SigSet::thread_get_mask()?;
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&requests()), None)?;
    // SAFETY: this process still has a single thread, so the child inherits no mutex that another thread holds.
    let forked = unsafe { fork() };
    if let Ok(ForkResult::Child) = forked {
        drop(ours);
        std::process::exit(match stand(its, task, before) {
            Ok(()) => 0,
            Err(_) => i32::from(crate::exit::INTERNAL),
        });
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?;
    match forked? {
        ForkResult::Parent { child } => Ok(Warden {
            process: child,
            stream: ours,
        }),
        ForkResult::Child => Err(Errno::ECHILD.into()),
    }
}

/// Returns the signals that ask a process to end or pause. The supervisor passes them on; the warden itself ignores them.
fn requests() -> SigSet {
    super::signals::PASSED_ON
        .into_iter()
        .chain([Signal::SIGTSTP, Signal::SIGTTOU])
        .collect()
}

fn stand(stream: UnixStream, task: &Supervised, mask: SigSet) -> io::Result<()> {
    setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
    family::adopt_orphans();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut post = Post {
            channel: WardenChannel::new(stream)?,
            task,
            mask,
            valid_until: Moment::ZERO,
            stage: Stage::Idle,
            ended: None,
        };
        post.guard().await
    })
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// Not started yet.
    Idle,
    Running(Family),
    /// A signal that asks to end was sent; SIGKILL follows at this moment.
    Stopping(Family, Moment),
    Killing(Family),
    /// The command has ended, or could not be started. Descendants that a job left running are not stopped.
    Over,
}

struct Post<'a> {
    channel: WardenChannel,
    task: &'a Supervised,
    /// The signal mask that this program was started with; the command inherits it.
    mask: SigSet,
    valid_until: Moment,
    stage: Stage,
    /// How the command ended, if the rest of it is stopped although the lock is held.
    ended: Option<Ended>,
}

/// The end of a command whose lock is held.
#[derive(Debug, Clone, Copy)]
enum Ended {
    /// It was told to stop.
    Asked,
    /// It has ended with this raw wait status.
    With(i32),
}

impl Post<'_> {
    async fn guard(&mut self) -> io::Result<()> {
        let mut deaths = signal(SignalKind::child())?;
        loop {
            let next = self.next_step();
            tokio::select! {
                instruction = self.channel.receive() => match instruction {
                    Some(instruction) => self.follow(instruction).await,
                    None => return self.end_alone().await,
                },
                _ = deaths.recv() => {}
                () = BootClock.sleep_until(next) => {}
            }
            self.reap().await;
            self.keep_time().await;
        }
    }

    /// Returns the next moment at which there is something to do, even if nothing happens before.
    fn next_step(&self) -> Moment {
        match self.stage {
            Stage::Idle | Stage::Over => Moment::FAR,
            Stage::Running(_) => self.stop_at(),
            Stage::Stopping(..) | Stage::Killing(_) => BootClock.now() + LOOK,
        }
    }

    fn kill_at(&self) -> Moment {
        self.valid_until.saturating_sub(self.task.margin())
    }

    fn stop_at(&self) -> Moment {
        self.kill_at().saturating_sub(self.task.grace)
    }

    async fn follow(&mut self, instruction: Instruction) {
        match (instruction, self.stage) {
            (Instruction::Prepare, Stage::Idle | Stage::Over) => {
                (self.stage, self.ended) = (Stage::Idle, None);
                self.valid_until = Moment::ZERO;
            }
            (Instruction::Start(fence), Stage::Idle) => self.start(fence).await,
            (Instruction::ValidUntil(until), _) => self.valid_until = self.valid_until.max(until),
            (Instruction::Pass(number), Stage::Running(family)) => {
                if let Ok(signal) = Signal::try_from(number) {
                    family.signal_group(signal);
                }
            }
            (Instruction::Stop(number), Stage::Running(family)) => {
                if let Ok(signal) = Signal::try_from(number) {
                    self.ended = Some(Ended::Asked);
                    self.stop(family, signal);
                }
            }
            (Instruction::Kill, Stage::Running(family) | Stage::Stopping(family, _)) => {
                self.ended = None;
                self.kill(family).await;
            }
            _ => {}
        }
    }

    /// Asks the command and all it started to end, while the lock is still held.
    fn stop(&mut self, family: Family, signal: Signal) {
        let kill_at = BootClock.now() + self.task.grace;
        self.stage = Stage::Stopping(family, kill_at.min(self.kill_at()));
        family.signal(signal);
        // A paused process receives the signal only when it is continued.
        family.signal(Signal::SIGCONT);
    }

    async fn start(&mut self, fence: i64) {
        let report = match self.spawn(fence) {
            Ok(leader) => {
                self.stage = Stage::Running(Family::of(leader));
                Report::Started(leader.as_raw())
            }
            Err(error) => {
                self.stage = Stage::Over;
                Report::NotStarted(error.raw_os_error().unwrap_or(0))
            }
        };
        self.channel.say(report).await;
    }

    fn spawn(&self, fence: i64) -> io::Result<Pid> {
        let Some((program, arguments)) = self.task.command.split_first() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut command = Command::new(program);
        command.args(arguments);
        // That of a run around this one is not ours.
        command.env_remove("FENCEPOST_SLOT");
        command.env("FENCEPOST_NAME", self.task.name.as_str());
        command.envs(
            self.task
                .environment
                .iter()
                .map(|(name, value)| (name, value)),
        );
        if let Ok(fence) = Fence::from_i64(fence) {
            command.env("FENCEPOST_FENCE", fence.to_string());
        }
        let (warden, mask, takes_terminal) = (getpid(), self.mask, self.task.takes_terminal);
        // SAFETY: between fork and exec only async-signal-safe calls are made: setpgid, tcsetpgrp, sigprocmask, prctl,
        // getppid.
        unsafe { command.pre_exec(move || become_leader(warden, &mask, takes_terminal)) };
        let child = command.spawn()?;
        // The child is reaped together with all other descendants.
        Ok(Pid::from_raw(child.id().cast_signed()))
    }

    /// Reaps children that ended, and reports if the command ended or was paused.
    async fn reap(&mut self) {
        loop {
            let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED;
            let status = match waitpid(None, Some(flags)) {
                Ok(WaitStatus::StillAlive) => return,
                Ok(status) => status,
                Err(Errno::EINTR) => continue,
                Err(_) => return,
            };
            let Some(process) = status.pid() else { return };
            match &mut self.stage {
                Stage::Running(family) if family.is_leader(process) => match status {
                    WaitStatus::Stopped(_, Signal::SIGSTOP) => {}
                    WaitStatus::Stopped(_, signal) => {
                        self.channel.say(Report::Paused(signal as i32)).await;
                    }
                    _ => self.command_ended(raw(status)).await,
                },
                Stage::Stopping(family, _) | Stage::Killing(family)
                    if family.is_leader(process) && !matches!(status, WaitStatus::Stopped(..)) =>
                {
                    family.leader_was_reaped();
                    self.ended = self.ended.map(|_| Ended::With(raw(status)));
                }
                _ => {}
            }
        }
    }

    /// Handles the end of a command that nobody has stopped. A service takes everything that it started with it.
    async fn command_ended(&mut self, status: i32) {
        let rest = Family::without_leader();
        if self.task.workload == Workload::Job || rest.is_gone() {
            self.stage = Stage::Over;
            self.channel.say(Report::Ended(status)).await;
        } else {
            self.ended = Some(Ended::With(status));
            self.stop(rest, Signal::SIGTERM);
        }
    }

    async fn keep_time(&mut self) {
        let now = BootClock.now();
        match self.stage {
            Stage::Running(family) if now >= self.kill_at() => self.kill(family).await,
            Stage::Running(family) if now >= self.stop_at() => {
                self.stop(family, Signal::SIGTERM);
                self.channel.say(Report::Stopping(now)).await;
            }
            Stage::Stopping(family, kill_at) if now >= kill_at.min(self.kill_at()) => {
                self.kill(family).await;
            }
            Stage::Stopping(family, _) | Stage::Killing(family) if family.is_gone() => {
                self.stage = Stage::Over;
                let report = match self.ended {
                    Some(Ended::With(status)) => Report::Ended(status),
                    _ => Report::Gone(BootClock.now()),
                };
                self.channel.say(report).await;
            }
            // Repeat the signal: a process may have forked while the list was read.
            Stage::Killing(family) => family.signal(Signal::SIGKILL),
            _ => {}
        }
    }

    async fn kill(&mut self, family: Family) {
        self.stage = Stage::Killing(family);
        let now = BootClock.now();
        family.signal(Signal::SIGKILL);
        if self.ended.is_none() {
            self.channel.say(Report::Killing(now)).await;
        }
    }

    /// Kills the command and all its descendants after the supervisor is gone, unless the command has ended.
    async fn end_alone(&mut self) -> io::Result<()> {
        let (Stage::Running(family) | Stage::Stopping(family, _) | Stage::Killing(family)) =
            self.stage
        else {
            return Ok(());
        };
        self.stage = Stage::Killing(family);
        while matches!(self.stage, Stage::Killing(_)) {
            self.keep_time().await;
            BootClock.sleep_until(BootClock.now() + LOOK).await;
            self.reap().await;
        }
        Ok(())
    }
}

/// Prepares the child process before it executes the command: gives it its own process group, the terminal if there is one, and the
/// original signal mask, and makes the kernel kill it if the warden dies.
fn become_leader(warden: Pid, mask: &SigSet, takes_terminal: bool) -> io::Result<()> {
    setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
    if takes_terminal {
        // SIGTTOU is still blocked here.
        terminal::give_to(getpid());
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(mask), None)?;
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    if getppid() != warden {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(())
}

/// Encodes how a process ended as a raw wait status.
fn raw(status: WaitStatus) -> i32 {
    match status {
        WaitStatus::Exited(_, code) => code << 8,
        WaitStatus::Signaled(_, signal, _) => signal as i32,
        _ => 0,
    }
}
