//! Finds and signals all descendants of this process.
//!
//! On Linux the warden adopts orphans ([`adopt_orphans`]), so no descendant can escape through a new session, a new group or a double
//! fork. On other systems only the command's process group is known.

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgid, getpid};

/// The command and all it started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Family {
    /// The command, which leads its process group. `None` after it is reaped, because its id may then belong to another process.
    leader: Option<Pid>,
}

impl Family {
    pub(super) fn of(leader: Pid) -> Self {
        Self {
            leader: Some(leader),
        }
    }

    /// Creates a family without a known leader.
    pub(super) fn without_leader() -> Self {
        Self { leader: None }
    }

    pub(super) fn is_leader(&self, process: Pid) -> bool {
        self.leader == Some(process)
    }

    /// Forgets the leader, which has been reaped.
    pub(super) fn leader_was_reaped(&mut self) {
        self.leader = None;
    }

    /// Signals the group in one step, then every descendant outside of it. Skips processes of other users, which cannot be signalled.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            let _ = killpg(leader, signal);
        }
        for process in descendants() {
            if self.leader.is_none() || getpgid(Some(process)) != self.leader.ok_or(Errno::ESRCH) {
                let _ = kill(process, signal);
            }
        }
    }

    /// Signals only the command's group.
    pub(super) fn signal_group(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            let _ = killpg(leader, signal);
        }
    }

    /// Returns whether no process of the family is running.
    pub(super) fn is_gone(&self) -> bool {
        !has_children()
            && descendants().is_empty()
            && self
                .leader
                .is_none_or(|leader| killpg(leader, None).is_err())
    }
}

/// Makes this process the parent of every descendant whose parent dies.
pub(super) fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    {
        // Fails only on kernels before 3.4; orphans then escape, as on other systems.
        let _ = nix::sys::prctl::set_child_subreaper(true);
    }
}

/// Checks quickly whether this process has a child that is not dead. `false` proves nothing: not every kernel has the file, and it may miss
/// processes that start or end at the same time.
fn has_children() -> bool {
    let own = getpid();
    let children = std::fs::read_to_string(format!("/proc/self/task/{own}/children"));
    let children = children.unwrap_or_default();
    let mut numbers = children
        .split_whitespace()
        .filter_map(|number| number.parse().ok());
    numbers.any(|number| living_parent(number).is_some())
}

/// Returns the descendants of this process that are not dead yet, children first.
fn descendants() -> Vec<Pid> {
    let running: Vec<(Pid, Pid)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|number: i32| Some((Pid::from_raw(number), living_parent(number)?)))
        .collect();
    let mut found = vec![getpid()];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        let children = running
            .iter()
            .filter(|(_, its_parent)| *its_parent == parent);
        found.extend(children.map(|(child, _)| *child));
        next += 1;
    }
    found.split_off(1)
}

/// Returns the parent of a process that is not dead. In the file, the program's name is in parentheses and may itself contain parentheses.
fn living_parent(process: i32) -> Option<Pid> {
    const BETWEEN_PARENT_AND_THREADS: usize = 15;
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let threads: u32 = fields.nth(BETWEEN_PARENT_AND_THREADS)?.parse().ok()?;
    // A process whose first thread has ended looks like a zombie while its other threads still run.
    let is_dead = matches!(state, "Z" | "X") && threads <= 1;
    (!is_dead).then_some(Pid::from_raw(parent))
}
