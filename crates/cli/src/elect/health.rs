//! `--health`: a command that says whether this candidate may lead.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

use crate::command_error::CommandError;
use crate::exit;
use crate::supervision::say;

const LEAST: Duration = Duration::from_millis(100);

/// A command that exits with 0 if this candidate is healthy.
#[derive(Debug, Clone)]
pub(super) struct Health {
    command: Arc<str>,
    /// How often it is run, and how long it may take.
    pub(super) every: Duration,
}

impl Health {
    /// Checks the arguments.
    pub(super) fn check(command: String, every: Duration) -> Result<Self, CommandError> {
        if every < LEAST {
            let shown = humantime::format_duration(every);
            let what = format!("a health check every {shown} is too often");
            return Err(CommandError::new(exit::USAGE, what)
                .at(format_args!("--health-every {shown}"))
                .try_this("100ms or more: the check may take that long"));
        }
        Ok(Self {
            command: command.into(),
            every,
        })
    }

    /// Runs the command once, and prints why the candidate is not healthy. If the future is dropped, the command is killed.
    pub(super) async fn passes(self) -> bool {
        let why = match Group::start(&self.command) {
            Ok(mut group) => match group.0.wait().await {
                Ok(status) if status.success() => return true,
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            },
            Err(error) => error.to_string(),
        };
        say(format!("not healthy: {}: {why}", self.shown()));
        false
    }

    fn shown(&self) -> String {
        self.command.replace(char::is_control, "?")
    }
}

/// A shell and what it has started in its process group. Dropping it kills them.
struct Group(Child);

impl Group {
    fn start(command: &str) -> std::io::Result<Self> {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", command])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0);
        // SAFETY: between fork and exec, prctl is called, which is async-signal-safe.
        #[cfg(target_os = "linux")]
        unsafe {
            // Nobody else ends a check that hangs if this process is killed.
            shell.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?));
        }
        shell.spawn().map(Self)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // `None` after it was reaped: the number may then belong to another process.
        if let Some(leader) = self.0.id() {
            let _ = killpg(Pid::from_raw(leader.cast_signed()), Signal::SIGKILL);
        }
    }
}
