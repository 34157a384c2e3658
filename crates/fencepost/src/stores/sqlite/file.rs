//! The file behind the path: its identity, whether it was replaced, and where it must not lie.
//!
//! Nothing here opens the file itself. Closing *any* descriptor of a file drops all POSIX locks that this process has on it, and SQLite's
//! exclusion depends on those.

use std::fs::{File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::failure::{Failure, Result};
use crate::clock::{BootClock, Clock, Moment};

/// The identity of the file to which a path leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// Returns the file to which `path` leads now, or `None` if there is none.
    pub(super) fn of(path: &Path) -> Result<Option<Self>> {
        match std::fs::metadata(path) {
            Ok(file) if file.is_file() => Ok(Some(Self::from(&file))),
            Ok(_) => Err(Failure::Unusable(format!(
                "{path:?} is not a file: give the path of a file, which is created when it is missing"
            ))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::Unusable(format!(
                "{path:?} cannot be reached: {error}"
            ))),
        }
    }

    /// Returns whether `path` still leads to this file.
    pub(super) fn is_at(self, path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|file| Self::from(&file) == self)
    }
}

impl From<&Metadata> for Identity {
    fn from(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
        }
    }
}

/// A database as SQLite has it open: the file and its write-ahead log, which the path finds only by their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Opened {
    file: Identity,
    /// The log, or `None` if there was none, in a file that is only looked at.
    log: Option<Identity>,
}

impl Opened {
    /// Remembers the file. Call this after SQLite has read from the file, and therefore has opened its log.
    pub(super) fn new(file: Identity, path: &Path) -> Self {
        let log = log_at(path);
        Self { file, log }
    }

    /// Returns whether `path` still leads to this file and to the log that belongs to it.
    pub(super) fn is_at(self, path: &Path) -> bool {
        self.file.is_at(path) && (self.log.is_none() || self.log == log_at(path))
    }

    /// Returns whether the log of this file lies beside another file, into which SQLite would write it.
    pub(super) fn left_its_log_at(self, path: &Path) -> bool {
        !self.file.is_at(path) && self.log.is_some() && self.log == log_at(path)
    }
}

fn log_at(path: &Path) -> Option<Identity> {
    let log = std::fs::metadata(with_suffix(path, "-wal")).ok()?;
    Some(Identity::from(&log))
}

/// Returns the folder that contains `path`.
pub(super) fn folder(path: &Path) -> Result<&Path> {
    match path.parent() {
        Some(folder) if folder.is_dir() => Ok(folder),
        Some(folder) if folder.exists() => {
            Err(Failure::Unusable(format!("{folder:?} is not a folder")))
        }
        Some(folder) => Err(Failure::Unusable(format!(
            "the folder {folder:?} does not exist: create it first"
        ))),
        None => Err(Failure::Unusable(format!("{path:?} is not a file"))),
    }
}

/// The right to create files in a folder, which ends when this is dropped. Only programs that use this backend respect it.
#[derive(Debug)]
pub(super) struct Creation {
    _folder: File,
}

impl Creation {
    /// Waits until nobody else creates a file in `folder`, but at most until `deadline`.
    pub(super) fn begin(folder: &Path, deadline: Moment) -> Result<Self> {
        let handle = File::open(folder).map_err(|error| {
            Failure::Unusable(format!("the folder {folder:?} cannot be read: {error}"))
        })?;
        wait_for(folder, deadline, || handle.try_lock())?;
        Ok(Self { _folder: handle })
    }

    /// Deletes the log files that an earlier database at `path` left there. A new database would use them as its own: the old `-shm` would
    /// tell the programs of the new file what was written to the old one.
    pub(super) fn clear_companions(&self, path: &Path) -> Result<()> {
        for suffix in ["-wal", "-shm"] {
            let companion = with_suffix(path, suffix);
            // On a read-only disk, only a file that exists must be deleted.
            if companion.symlink_metadata().is_err() {
                continue;
            }
            match std::fs::remove_file(&companion) {
                Ok(()) => {}
                // Somebody else has just deleted it, perhaps with its folder.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(Failure::Unusable(format!(
                        "{companion:?}, left behind by a deleted database, cannot be deleted: {error}"
                    )));
                }
            }
        }
        Ok(())
    }
}

/// Prevents others from deleting the log files of a database while it is being opened. Ends when this is dropped.
#[derive(Debug)]
pub(super) struct Opening {
    _folder: Option<File>,
}

impl Opening {
    /// Deleting takes well under a millisecond. If the folder is locked for longer, another program such as `flock` did it.
    const LONGEST: Duration = Duration::from_millis(250);

    /// Waits until nobody creates a file in `folder` or deletes log files there. Waits only for a while, and not if this user may not read
    /// the folder.
    pub(super) fn begin(folder: &Path) -> Self {
        let deadline = BootClock.now() + Self::LONGEST;
        let handle = File::open(folder).ok();
        let locked = handle.filter(|handle| {
            let locked = wait_for(folder, deadline, || handle.try_lock_shared());
            locked.is_ok()
        });
        Self { _folder: locked }
    }
}

fn wait_for(
    folder: &Path,
    deadline: Moment,
    mut lock: impl FnMut() -> Result<(), TryLockError>,
) -> Result<()> {
    loop {
        match lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if BootClock.now() < deadline => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(error) => {
                return Err(Failure::Unavailable(format!(
                    "the folder {folder:?} is locked by another program: {error}"
                )));
            }
        }
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Returns an error for file systems that several machines could share, or on which SQLite's locks are unreliable.
#[cfg(target_os = "linux")]
pub(super) fn refuse_network(path: &Path) -> Result<()> {
    for place in [Some(path), path.parent()].into_iter().flatten() {
        if let Some(kind) = network_file_system(place) {
            return Err(Failure::Unusable(format!(
                "{place:?} lies on {kind}. There, locks between processes are not reliable and other machines could \
                 use the same file: put it on a local disk, or use a store with a server"
            )));
        }
    }
    Ok(())
}

/// Returns the kind of file system if locks must not lie on it, because machines share it or its locks between processes are unreliable.
/// Returns `None` if it is suitable, or if its kind is unknown.
#[cfg(target_os = "linux")]
pub(super) fn network_file_system(path: &Path) -> Option<&'static str> {
    let system = nix::sys::statfs::statfs(path).ok()?;
    by_number(system.filesystem_type().0 as u64)
}

/// Returns `None`, because the kind of file system is unknown on this system.
#[cfg(all(not(target_os = "linux"), feature = "unstable-hooks"))]
pub(super) fn network_file_system(_path: &Path) -> Option<&'static str> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(super) fn refuse_network(_path: &Path) -> Result<()> {
    Ok(())
}

/// Returns what the magic number of a file system (`statfs(2)`, `linux/magic.h`) says against it, or `None` if it is suitable.
#[cfg(target_os = "linux")]
fn by_number(magic: u64) -> Option<&'static str> {
    // Some numbers are negative if they are 32 bits wide.
    Some(match magic & 0xffff_ffff {
        0x0000_6969 => "NFS",
        0x0000_517b | 0xff53_4d42 | 0xfe53_4d42 => "SMB (CIFS)",
        0x0102_1997 => "9P",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x00c3_6400 => "Ceph",
        0x0bd0_0bd0 => "Lustre",
        0x7375_7245 => "Coda",
        0x7461_636f => "OCFS2",
        0x0116_1970 => "GFS2",
        0x2003_0528 => "OrangeFS",
        0x4750_4653 => "GPFS",
        0x1983_0326 => "BeeGFS",
        0x786f_4256 => "a shared folder of VirtualBox",
        0x6573_5546 => "FUSE (such as sshfs or virtiofs)",
        _ => return None,
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_their_numbers() {
        for (magic, name) in [
            (0x6969, "NFS"),
            (0x517b, "SMB"),
            (0xff53_4d42, "SMB"),
            (0xfe53_4d42, "SMB"),
            (0x0102_1997, "9P"),
            (0x5346_414f, "AFS"),
            (0x00c3_6400, "Ceph"),
            (0x0bd0_0bd0, "Lustre"),
            (0x7375_7245, "Coda"),
            (0x7461_636f, "OCFS2"),
            (0x0116_1970, "GFS2"),
            (0x6573_5546, "FUSE"),
            (-0x00ac_b2be_i64 as u64, "SMB"),
        ] {
            let kind = by_number(magic).unwrap_or_default();
            assert!(kind.contains(name), "{magic:#x}: {kind}");
        }
    }

    #[test]
    fn local_file_systems_are_welcome() {
        let local = [
            ("ext4", 0xef53),
            ("xfs", 0x5846_5342),
            ("btrfs", 0x9123_683e),
            ("tmpfs", 0x0102_1994),
            ("overlay", 0x794c_7630),
            ("zfs", 0x2fc1_2fc1),
            ("f2fs", 0xf2f5_2010),
        ];
        for (name, magic) in local {
            assert_eq!(by_number(magic), None, "{name}");
        }
    }

    #[test]
    fn a_replaced_file_is_another_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db");
        assert_eq!(Identity::of(&path).unwrap(), None);
        std::fs::write(&path, "").unwrap();
        let first = Identity::of(&path).unwrap().unwrap();
        // Kept open, as SQLite keeps it: else its inode could be given to the next file.
        let _open = File::open(&path).unwrap();
        assert!(first.is_at(&path));
        std::fs::remove_file(&path).unwrap();
        assert!(!first.is_at(&path));
        std::fs::write(&path, "").unwrap();
        assert!(!first.is_at(&path));
        assert!(Identity::of(folder.path()).is_err());
    }

    #[test]
    fn one_creates_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = Creation::begin(folder.path(), Moment::ZERO).unwrap();
        assert!(Creation::begin(folder.path(), Moment::ZERO).is_err());
        drop(first);
        Creation::begin(folder.path(), Moment::ZERO).unwrap();
    }
}
