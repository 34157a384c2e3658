//! Examines an SQLite file: its file system, its permissions and the free space.
//!
//! Reads only the first bytes of the file, so it does not disturb programs that use it.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fencepost::stores::sqlite::network_file_system;
use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access};

use super::Examination;
use super::rules::apply;
use crate::command_error::{CommandError, system_words};
use crate::exit;

mod rules;

pub(super) use rules::CHECKS;

/// The first bytes of every SQLite file.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// The offset of the file format version in the header; 2 means a write-ahead log.
const JOURNAL: usize = 18;

/// Examines the file. `is_own` means that the first use creates the folder, too.
pub(super) fn examine(path: &Path, is_own: bool) -> Result<Examination, CommandError> {
    let place = format!("sqlite:{}", path.display());
    let unreachable = |words: String| {
        CommandError::new(exit::STORE, "cannot reach the store")
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
    let server = match &header {
        None => "no file yet: the first use creates it",
        Some((_, bytes)) if bytes.is_empty() => "an empty file: the first use initializes it",
        Some((_, bytes)) if bytes.starts_with(MAGIC) => "an SQLite file",
        Some(_) => {
            return Err(unreachable("the file is not an SQLite database".into())
                .try_this("use another path for the locks"));
        }
    };
    let readings = Readings::of(path, folder, header.as_ref());
    Ok(Examination {
        findings: apply(CHECKS, &readings),
        server: server.to_owned(),
        address: place,
    })
}

/// What the rules for SQLite judge.
#[derive(Debug)]
pub(super) struct Readings {
    /// The kind of file system, if it is a network file system.
    network: Option<&'static str>,
    is_in_memory: bool,
    /// The file format version from the header.
    journal: Option<u8>,
    /// What this user may not write: the folder or the file.
    locked: Option<PathBuf>,
    everybody_may_write: bool,
    free_bytes: Option<u64>,
}

impl Readings {
    fn of(path: &Path, folder: &Path, header: Option<&(Metadata, Vec<u8>)>) -> Self {
        let may_write = |place: &Path| access(place, AccessFlags::W_OK).is_ok();
        let locked = [Some(folder), header.map(|_| path)];
        let locked = locked.into_iter().flatten().find(|place| !may_write(place));
        Self {
            network: network_file_system(folder),
            is_in_memory: is_in_memory(folder),
            journal: header.and_then(|(_, bytes)| bytes.get(JOURNAL).copied()),
            locked: locked.map(Path::to_owned),
            everybody_may_write: header
                .is_some_and(|(file, _)| file.permissions().mode() & 0o002 != 0),
            free_bytes: free_bytes(folder),
        }
    }
}

/// Returns the folder, or its nearest ancestor that exists.
fn existing(folder: &Path) -> &Path {
    let there = folder.ancestors().find(|folder| folder.is_dir());
    there.unwrap_or(folder)
}

/// Returns the metadata and the first bytes of the file; `None` if there is no file.
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

#[cfg(target_os = "linux")]
fn is_in_memory(folder: &Path) -> bool {
    use nix::sys::statfs::{TMPFS_MAGIC, statfs};
    statfs(folder).is_ok_and(|system| system.filesystem_type() == TMPFS_MAGIC)
}

#[cfg(not(target_os = "linux"))]
fn is_in_memory(_: &Path) -> bool {
    false
}

fn free_bytes(folder: &Path) -> Option<u64> {
    let system = statvfs(folder).ok()?;
    #[allow(clippy::useless_conversion, reason = "narrower on other systems")]
    let free = u64::from(system.blocks_available()) * u64::from(system.fragment_size());
    Some(free)
}
