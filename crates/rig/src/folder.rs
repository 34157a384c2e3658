//! Temporary folders that are removed even if their process is killed.
//!
//! A process that is killed with SIGKILL cannot remove its folders, so the next process that creates one does. The process that creates a
//! folder locks it (`flock`) for as long as it runs, so a folder that another process can lock has no owner any more. This also works
//! across containers that share a temporary directory, where process ids mean nothing. Callers get a folder inside the locked one, because
//! some programs lock the folder that they work in, such as the SQLite store.
//!
//! A name proves nothing: there may be a backup in `fencepost-2026-backup`. Each folder therefore contains a mark, a file with a known
//! text, which is written under the lock before anything else. A folder without the mark is never removed.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;

use nix::libc;
use nix::unistd::geteuid;

/// The prefix of folder names, which have the form `fencepost-PID-RANDOM`.
const PREFIX: &str = "fencepost-";
/// The length of the random part.
const RANDOM: usize = 6;
/// The inner folder, which callers get.
const INNER: &str = "run";
/// The file that marks a folder as ours, and its text.
const MARK: &str = "made-by-fencepost";
const MARK_TEXT: &str =
    "Fencepost made this folder for temporary files and removes it with all it holds.\n";

/// A folder that is removed with its contents on drop.
#[derive(Debug)]
pub struct TempDir {
    inner: PathBuf,
    _outer: tempfile::TempDir,
    /// The lock, which shows that the owner is alive. Declared after the folder, so that it is released after the removal.
    _owned: File,
}

impl TempDir {
    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.inner
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // What cannot be removed now is tried again together with the mark, or by the next process.
        let _ = std::fs::remove_dir_all(&self.inner);
    }
}

/// Creates an empty folder in the system's temporary directory. It is removed with its contents on drop.
///
/// It is also removed if the program panics and, in a program that uses [`Interrupt`](crate::Interrupt), on Ctrl-C. If the program is
/// killed with SIGKILL, the next process of the same user that calls this function removes the folder.
///
/// # Errors
/// Returns the system's error if the folder cannot be created.
pub fn folder() -> io::Result<TempDir> {
    static ORPHANS: Once = Once::new();
    let place = std::env::temp_dir();
    ORPHANS.call_once(|| remove_orphans(&place));
    folder_in(&place)
}

fn folder_in(place: &Path) -> io::Result<TempDir> {
    let prefix = format!("{PREFIX}{}-", std::process::id());
    loop {
        let outer = tempfile::Builder::new()
            .prefix(&prefix)
            .rand_bytes(RANDOM)
            // A server may run as another user, and must be able to reach its folder inside.
            .permissions(Permissions::from_mode(0o711))
            .tempdir_in(place)?;
        let owned = match open(outer.path()) {
            Ok(owned) => owned,
            // A program of an earlier version, which checks only the name, removed the folder before it was locked.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        // Waits only for a process that found the folder before it was locked, and that leaves or removes it. If the file system does not
        // support such locks, no other process gets one either.
        while let Err(error) = owned.lock() {
            if error.kind() != io::ErrorKind::Interrupted {
                break;
            }
        }
        if is_at(&owned, outer.path()) {
            std::fs::write(outer.path().join(MARK), MARK_TEXT)?;
            let inner = outer.path().join(INNER);
            DirBuilder::new().mode(0o700).create(&inner)?;
            return Ok(TempDir {
                inner,
                _outer: outer,
                _owned: owned,
            });
        }
    }
}

/// Opens a folder, but not a symbolic link to one.
fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Returns whether the path still leads to this folder.
fn is_at(folder: &File, path: &Path) -> bool {
    let identity = |of: io::Result<std::fs::Metadata>| of.map(|of| (of.dev(), of.ino())).ok();
    let at = identity(std::fs::symlink_metadata(path));
    at.is_some() && at == identity(folder.metadata())
}

/// Removes the folders in `place` whose processes have ended. Folders that cannot be removed stay.
fn remove_orphans(place: &Path) {
    let Ok(entries) = std::fs::read_dir(place) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(is_such_a_name) {
            // The next run tries again.
            let _ = remove_if_orphan(&entry.path());
        }
    }
}

/// Returns whether the name has the form that [`folder`] gives.
fn is_such_a_name(name: &str) -> bool {
    let parts = name
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.split_once('-'));
    parts.is_some_and(|(process, random)| {
        !process.is_empty()
            && process.bytes().all(|byte| byte.is_ascii_digit())
            && random.len() == RANDOM
            && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

fn remove_if_orphan(path: &Path) -> io::Result<()> {
    let folder = open(path)?;
    if folder.metadata()?.uid() != geteuid().as_raw() {
        return Ok(());
    }
    match folder.try_lock() {
        // Locked until the end of this function: no other process removes it, and its creator is gone or has not marked it yet.
        Ok(()) if is_at(&folder, path) && is_marked(path) => remove(path),
        Ok(()) | Err(TryLockError::WouldBlock) => Ok(()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Removes a folder, the mark last, so that the rest of an interrupted removal is removed later.
fn remove(folder: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(folder.join(INNER)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => std::fs::remove_dir_all(folder),
    }
}

/// Returns whether the folder contains our mark: a regular file, not a link to one.
fn is_marked(folder: &Path) -> bool {
    let mark = folder.join(MARK);
    let is_file = std::fs::symlink_metadata(&mark).is_ok_and(|mark| mark.is_file());
    is_file && std::fs::read(&mark).is_ok_and(|text| text == MARK_TEXT.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(place: &Path) -> Vec<String> {
        let names = std::fs::read_dir(place).unwrap();
        let mut names: Vec<String> = names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn only_folders_without_a_living_owner_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path();
        let living = folder_in(place).unwrap();
        std::fs::write(living.path().join("data"), "kept").unwrap();
        // As after a kill: the folder exists, and no process has it locked.
        let orphan = place.join("fencepost-1-aB3dE6");
        std::fs::create_dir_all(orphan.join("deep")).unwrap();
        std::fs::write(orphan.join("deep/data"), "").unwrap();
        std::fs::write(orphan.join(MARK), MARK_TEXT).unwrap();
        // Not ours: other names, a name of an earlier version, a file, and a link to something that must stay.
        let others = [
            "fencepost-backup",
            "fencepost-aB3dE6",
            "fencepost-1-backups",
        ];
        for other in others {
            std::fs::create_dir(place.join(other)).unwrap();
        }
        std::fs::write(place.join("fencepost-1-aaaaaa"), "").unwrap();
        std::fs::create_dir(place.join("treasure")).unwrap();
        let link = place.join("fencepost-1-bbbbbb");
        std::os::unix::fs::symlink(place.join("treasure"), link).unwrap();
        remove_orphans(place);
        let data = living.path().join("data");
        let living = living.path().parent().unwrap().file_name().unwrap();
        let living = living.to_str().unwrap();
        let mut expected = vec![
            "fencepost-1-aaaaaa",
            "fencepost-1-bbbbbb",
            "treasure",
            living,
        ];
        expected.extend(others);
        expected.sort_unstable();
        assert_eq!(names(place), expected);
        assert!(data.exists());
    }

    #[test]
    fn a_folder_of_somebody_else_is_never_removed_whatever_its_name() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path();
        let backup = place.join("fencepost-2026-backup");
        std::fs::create_dir(&backup).unwrap();
        std::fs::write(backup.join("shop.db"), "300 products").unwrap();
        // A mark with another text, and a link to one of our marks.
        let noted = place.join("fencepost-2026-noted1");
        std::fs::create_dir(&noted).unwrap();
        std::fs::write(noted.join(MARK), "a note").unwrap();
        let linked = place.join("fencepost-2026-linked");
        std::fs::create_dir(&linked).unwrap();
        let ours = folder_in(place).unwrap();
        let mark = ours.path().parent().unwrap().join(MARK);
        std::os::unix::fs::symlink(mark, linked.join(MARK)).unwrap();
        remove_orphans(place);
        assert_eq!(
            std::fs::read_to_string(backup.join("shop.db")).unwrap(),
            "300 products"
        );
        assert!(noted.join(MARK).exists() && linked.exists());
    }

    #[test]
    fn a_folder_whose_maker_was_killed_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let made = folder_in(place.path()).unwrap();
        std::fs::write(made.path().join("data"), "").unwrap();
        // As after a kill: the folder stays, and its lock is released.
        let left = made.path().parent().unwrap().to_owned();
        made._owned.unlock().unwrap();
        std::mem::forget(made);
        remove_orphans(place.path());
        assert!(!left.exists());
    }

    #[test]
    fn who_works_in_a_folder_may_lock_it() {
        let place = tempfile::tempdir().unwrap();
        let made = folder_in(place.path()).unwrap();
        open(made.path()).unwrap().try_lock().unwrap();
    }

    #[test]
    fn a_folder_is_never_taken_from_its_maker_while_it_is_made() {
        let place = tempfile::tempdir().unwrap();
        let (place, stop) = (place.path(), std::sync::atomic::AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    remove_orphans(place);
                }
            });
            for _ in 0..300 {
                let made = folder_in(place).unwrap();
                std::fs::write(made.path().join("data"), "").unwrap();
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        remove_orphans(place);
        assert_eq!(names(place), [] as [&str; 0]);
    }
}
