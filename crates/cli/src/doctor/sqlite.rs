//! The examination of an SQLite file: where it lies, who can write it, how much room there is.
//!
//! Only the file's first bytes are read, so whoever uses it notices nothing.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use fencepost::stores::sqlite::network_file_system;
use fencepost_trial::text::numbers::decimal;
use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access};

use super::Examination;
use super::finding::{Finding, Harm};
use crate::exit;
use crate::fault::{Fault, system_words};

/// Less room than this is soon gone.
const LITTLE_ROOM: u64 = 64 * 1024 * 1024;
/// What every SQLite file begins with.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Where the header says how the file is written: 2 is the write-ahead log.
const JOURNAL: usize = 18;

/// `is_own`: its folder is made at the first use, too.
pub(super) fn examine(path: &Path, is_own: bool) -> Result<Examination, Fault> {
    let place = format!("sqlite:{}", path.display());
    let unreachable = |words: String| {
        Fault::new(exit::STORE, "cannot reach the store")
            .at(format_args!("{place}: {words}"))
            .effect("none: nothing was examined")
    };
    let folder = match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) if is_own => existing(folder),
        Some(folder) => folder,
        None => return Err(unreachable("not a file".into())),
    };
    if !folder.is_dir() {
        return Err(unreachable(format!(
            "no such directory ({})",
            folder.display()
        )));
    }
    let header = header(path).map_err(|error| unreachable(system_words(&error)))?;
    let patient = match &header {
        None => "no file yet: it is made at the first use",
        Some((_, bytes)) if bytes.is_empty() => "an empty file, made ready at the first use",
        Some((_, bytes)) if bytes.starts_with(MAGIC) => "an SQLite file",
        Some(_) => {
            return Err(unreachable("is a file, but not one of SQLite".into())
                .try_this("another path for the locks"));
        }
    };
    let mut findings = vec![file_system(folder)];
    findings.extend(header.as_ref().and_then(|(_, bytes)| journal(bytes)));
    findings.push(rights(path, folder, header.as_ref().map(|(file, _)| file)));
    findings.push(room(folder));
    Ok(Examination {
        place: place.clone(),
        patient: patient.to_owned(),
        findings,
    })
}

/// The folder, or the nearest one above it that is there.
fn existing(folder: &Path) -> &Path {
    let there = folder.ancestors().find(|folder| folder.is_dir());
    there.unwrap_or(folder)
}

/// The file and its first bytes; `None` when there is none.
fn header(path: &Path) -> io::Result<Option<(Metadata, Vec<u8>)>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    let mut bytes = Vec::new();
    file.take(100).read_to_end(&mut bytes)?;
    Ok(Some((metadata, bytes)))
}

fn file_system(folder: &Path) -> Finding {
    if let Some(kind) = network_file_system(folder) {
        return Finding::danger("file system", Harm::NoLocks, format!("it lies on {kind}"))
            .means("Locks between processes are not reliable there: Fencepost refuses such a file.")
            .advice("a local disk; for several machines, a store with a server")
            .figure("kind", kind);
    }
    match is_in_memory(folder) {
        true => Finding::caution(
            "file system",
            Harm::Hampered,
            "it lies in memory (tmpfs): gone when the machine restarts",
        )
        .means(
            "The fences then go on from the time of day. If that was set back, resources refuse new holders for as long.",
        )
        .advice("a directory on a disk"),
        false => Finding::fine("file system", "local file system"),
    }
}

#[cfg(target_os = "linux")]
fn is_in_memory(folder: &Path) -> bool {
    use nix::sys::statfs::{TMPFS_MAGIC, statfs};
    statfs(folder).is_ok_and(|system| system.filesystem_type() == TMPFS_MAGIC)
}

#[cfg(not(target_os = "linux"))]
fn is_in_memory(_: &Path) -> bool {
    false
}

fn journal(header: &[u8]) -> Option<Finding> {
    let mode = header.get(JOURNAL)?;
    Some(match mode {
        2 => Finding::fine("journal", "write-ahead log"),
        _ => Finding::caution(
            "journal",
            Harm::Hampered,
            "without a write-ahead log: somebody else made or changed this file",
        )
        .means("Readers and writers stand in each other's way until the first use turns it on.")
        .advice("a file for locks alone"),
    })
}

fn rights(path: &Path, folder: &Path, file: Option<&Metadata>) -> Finding {
    let may_write = |place: &Path| access(place, AccessFlags::W_OK).is_ok();
    let locked = [Some(folder), file.map(|_| path)];
    let locked = locked.into_iter().flatten().find(|place| !may_write(place));
    if let Some(place) = locked {
        let what = format!("this user may not write {}", place.display());
        return Finding::danger("rights", Harm::NoLocks, what)
            .means("SQLite writes the file and two others beside it: no lock can be taken.")
            .advice("write access to the file and its directory, or another path");
    }
    if file.is_some_and(|file| file.permissions().mode() & 0o002 != 0) {
        return Finding::caution(
            "rights",
            Harm::Vanishes,
            "everybody on this machine may write the file",
        )
        .means("Whoever can write it can release any lock.")
        .advice("a group for those who share the locks: chmod o-w on the file");
    }
    Finding::fine("rights", "rights to write")
}

fn room(folder: &Path) -> Finding {
    let Ok(system) = statvfs(folder) else {
        return Finding::unknown("disk", "the system does not say how much room there is");
    };
    #[allow(clippy::useless_conversion, reason = "narrower on other systems")]
    let free = u64::from(system.blocks_available()) * u64::from(system.fragment_size());
    let said = format!("{} GiB free", decimal(free as f64 / 1_073_741_824.0));
    let finding = match free {
        ..LITTLE_ROOM => {
            let what = format!("{} MiB free", decimal(free as f64 / 1_048_576.0));
            Finding::caution("disk", Harm::Hampered, what)
                .means("When it is full, no lock can be taken or renewed.")
                .advice("make room on this disk")
        }
        _ => Finding::fine("disk", said),
    };
    finding.figure("free_bytes", free)
}
