//! Watches how much space the disks have left. On a full disk, servers die and tests fail with messages that say nothing about it.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::tree;

/// How often it looks.
const INTERVAL: Duration = Duration::from_secs(2);
/// With less than this, the servers of one test can fill the disk: an etcd cluster alone reserves 400 MB.
const TIGHT: u64 = 1_000_000_000;

/// A thread that looks until it is stopped.
pub(super) struct DiskWatch {
    stop: Sender<()>,
    thread: JoinHandle<Vec<Disk>>,
}

/// The least free space that was seen where the tests write.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Disk {
    /// A folder on it.
    folder: PathBuf,
    /// What the tests keep there.
    used_for: &'static str,
    /// In bytes.
    least: u64,
}

impl DiskWatch {
    pub(super) fn start() -> Self {
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| tree::root().join("target"), PathBuf::from);
        let mut disks = vec![
            Disk::new(std::env::temp_dir(), "the data of servers"),
            Disk::new(target, "built programs"),
        ];
        let (stop, stopped) = channel();
        let thread = thread::spawn(move || {
            loop {
                disks.iter_mut().for_each(Disk::look);
                if stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
                    return disks;
                }
            }
        });
        Self { stop, thread }
    }

    /// Returns a warning for each disk that was almost full.
    pub(super) fn stop(self) -> Vec<String> {
        let _ = self.stop.send(());
        let disks = self.thread.join().unwrap_or_default();
        disks.iter().filter_map(Disk::warning).collect()
    }
}

impl Disk {
    fn new(folder: PathBuf, used_for: &'static str) -> Self {
        Self {
            folder,
            used_for,
            least: u64::MAX,
        }
    }

    fn look(&mut self) {
        self.least = self.least.min(free(&self.folder).unwrap_or(u64::MAX));
    }

    fn warning(&self) -> Option<String> {
        (self.least < TIGHT).then(|| {
            format!(
                "warning: the disk of {} ({}) had only {} MB left at times, so tests may have failed because it was full. Remove what you do \
                 not need, or choose another disk with TMPDIR and CARGO_TARGET_DIR.",
                self.folder.display(),
                self.used_for,
                self.least / 1_000_000
            )
        })
    }
}

/// Returns how many bytes we may still write on the folder's disk.
fn free(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail * disk.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_was_almost_full_is_named_although_it_has_space_again() {
        let mut disk = Disk::new(std::env::temp_dir(), "the data of servers");
        disk.least = 12_345_678;
        disk.look();
        let warning = disk.warning().unwrap();
        assert!(warning.contains("had only 12 MB left"), "{warning}");
        assert!(warning.contains("the data of servers"), "{warning}");
    }

    #[test]
    fn a_disk_is_measured_and_one_with_space_is_not_mentioned() {
        let mut disk = Disk::new(std::env::temp_dir(), "the data of servers");
        disk.look();
        assert!(disk.least > 0 && disk.least < u64::MAX, "{disk:?}");
        disk.least = TIGHT;
        assert_eq!(disk.warning(), None);
    }
}
