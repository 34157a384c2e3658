//! The process ids of the processes of a run: any, or chosen by the lab, and then the same in all lives of a process.

use std::io;
use std::process::Command;

use fencepost_rig::{Child, FeedSender, PidSpace};

use crate::protocol::Failure;

/// The process id of the first process. The others follow it. It is larger than what the kernel gives out in a new namespace.
const FIRST: i32 = 7_000;

/// The process ids of a run. All of its processes are in one namespace, so that each can look whether another one is there.
pub(crate) struct Pids(Option<PidSpace>);

impl Pids {
    /// Leaves the choice to the kernel.
    pub(crate) const ANY: Self = Self(None);

    /// Makes a namespace, in which each process has an id of its own, in all its lives.
    pub(crate) fn chosen() -> Result<Self, Failure> {
        let space = PidSpace::open();
        let why = |error| Failure::definite(format!("no PID namespace: {error}"));
        Ok(Self(Some(space.map_err(why)?)))
    }

    /// Starts the process with this index. What it says goes to `sender` under the number `id`.
    pub(super) fn spawn(
        &self,
        index: usize,
        command: Command,
        id: usize,
        sender: &FeedSender,
    ) -> io::Result<Child> {
        match &self.0 {
            None => Child::spawn_supervised(command, id, sender),
            Some(space) => Child::spawn_in(space, FIRST + index as i32, command, id, sender),
        }
    }
}
