//! Everything that descends from this process: who it is, and how to reach all of it with a signal.
//!
//! On Linux the warden adopts orphans ([`adopt_orphans`]), so a descendant stays one whatever it does: a new session, a new
//! group, a double fork. Elsewhere only the group of the command is known.

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgid, getpid};

/// The command and all it started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Family {
    /// The command itself, leader of its group, until it is reaped: then its number may be somebody else's.
    leader: Option<Pid>,
}

impl Family {
    pub(super) fn of(leader: Pid) -> Self {
        Self {
            leader: Some(leader),
        }
    }

    /// Whoever is left when the leader is not known.
    pub(super) fn without_leader() -> Self {
        Self { leader: None }
    }

    pub(super) fn is_leader(&self, process: Pid) -> bool {
        self.leader == Some(process)
    }

    /// The leader is no more.
    pub(super) fn leader_was_reaped(&mut self) {
        self.leader = None;
    }

    /// Reaches the group in one step, then every descendant outside of it. Who cannot be signalled (another user's) is left
    /// alone.
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

    /// Passes a signal on to the command's group alone.
    pub(super) fn signal_group(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            let _ = killpg(leader, signal);
        }
    }

    /// Nobody is left who runs.
    pub(super) fn is_gone(&self) -> bool {
        !has_children()
            && descendants().is_empty()
            && self
                .leader
                .is_none_or(|leader| killpg(leader, None).is_err())
    }
}

/// Makes this process the parent of every descendant whose own parent dies.
pub(super) fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    {
        // Cannot fail on a kernel of this millennium; if it did, orphans would escape as they do elsewhere.
        let _ = nix::sys::prctl::set_child_subreaper(true);
    }
}

/// Whether the kernel names a child of this process that is not dead: a quick answer where it says yes. Not every kernel
/// knows the file, and it may miss somebody who comes or goes meanwhile.
fn has_children() -> bool {
    let own = getpid();
    let children = std::fs::read_to_string(format!("/proc/self/task/{own}/children"));
    let children = children.unwrap_or_default();
    let mut numbers = children
        .split_whitespace()
        .filter_map(|number| number.parse().ok());
    numbers.any(|number| living_parent(number).is_some())
}

/// The processes below this one that are not dead yet, children first.
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

/// The parent of a process that is not dead. The program's name stands in parentheses and may itself contain some.
fn living_parent(process: i32) -> Option<Pid> {
    const BETWEEN_PARENT_AND_THREADS: usize = 15;
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let threads: u32 = fields.nth(BETWEEN_PARENT_AND_THREADS)?.parse().ok()?;
    // A process whose first thread has ended looks dead while its other threads work.
    let is_dead = matches!(state, "Z" | "X") && threads <= 1;
    (!is_dead).then_some(Pid::from_raw(parent))
}
