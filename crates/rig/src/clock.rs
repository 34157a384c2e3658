//! Clocks that the lab sets for one program alone, while it runs.
//!
//! A [`ClockShim`] is a small library that the dynamic linker puts before the C library (`LD_PRELOAD`). It answers `clock_gettime`,
//! `gettimeofday` and `time` with the kernel's time and what a file says to add, and counts its answers. Each program has a file of its
//! own, a [`ProgramClock`]. The source is part of this crate, and the C compiler of the machine translates it on first use
//! (docs/decisions/0016).
//!
//! A program that does not ask the C library for the time (Go, or one that is linked statically) is not affected, and its count stays at
//! zero. Nor is a program affected in how long it sleeps: the kernel's own clocks stay right.

use std::ffi::OsString;
use std::fmt::{self, Display};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::folder::{TempDir, folder};
use crate::server::installed;

const SOURCE: &str = include_str!("clock/shim.c");
/// The variable that names the file of a program.
const FILE: &str = "FENCEPOST_CLOCK";
const PRELOAD: &str = "LD_PRELOAD";
/// The C compilers that can be used; the first one found is.
const COMPILERS: [&str; 3] = ["cc", "gcc", "clang"];

/// Where the fields of the file are; the same layout as `struct page` in the source of the library.
const CALLS: u64 = 0;
const VERSION: u64 = 8;
const WALL: u64 = 16;
const FAST: u64 = 24;
const SINCE: u64 = 32;
const STEADY: u64 = 40;
const BYTES: u64 = 48;

/// The library that answers for the clocks of programs. It is removed when this value is dropped; programs that run keep it.
#[derive(Debug)]
pub struct ClockShim {
    library: PathBuf,
    folder: TempDir,
    clocks: AtomicU64,
}

/// Why there is no such library.
#[derive(Debug)]
#[non_exhaustive]
pub enum ShimError {
    /// The lab can do this only on Linux with 64 bits.
    OtherSystem,
    /// No C compiler is installed.
    NoCompiler,
    /// The dynamic linker cannot load a library from this folder: it splits `LD_PRELOAD` at spaces and colons.
    Unloadable(PathBuf),
    /// The C compiler failed, with these words.
    NotCompiled(String),
    /// The system refused a folder or a process.
    System(io::Error),
}

impl Display for ShimError {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherSystem => text.write_str("clocks can be set only on Linux with 64 bits"),
            Self::NoCompiler => text.write_str(ClockShim::NO_COMPILER),
            Self::Unloadable(folder) => write!(
                text,
                "no library can be preloaded from {}, because of a space or colon in its path; set TMPDIR to another folder",
                folder.display()
            ),
            Self::NotCompiled(said) => write!(text, "the C compiler failed: {said}"),
            Self::System(error) => error.fmt(text),
        }
    }
}

impl std::error::Error for ShimError {}

impl From<io::Error> for ShimError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl ClockShim {
    /// What is missing without a C compiler.
    pub const NO_COMPILER: &str = "needs a C compiler (cc), to set the clock of one program alone";

    /// Returns whether the library can be made here.
    pub fn is_available() -> bool {
        is_supported() && compiler().is_some()
    }

    /// Compiles the library into a temporary folder.
    ///
    /// # Errors
    /// Returns a [`ShimError`] that says what is missing.
    pub fn compile() -> Result<Self, ShimError> {
        if !is_supported() {
            return Err(ShimError::OtherSystem);
        }
        let compiler = compiler().ok_or(ShimError::NoCompiler)?;
        let folder = folder()?;
        if folder
            .path()
            .as_os_str()
            .as_encoded_bytes()
            .iter()
            .any(|byte| b" :".contains(byte))
        {
            return Err(ShimError::Unloadable(folder.path().to_owned()));
        }
        let source = folder.path().join("shim.c");
        let library = folder.path().join("shim.so");
        fs::write(&source, SOURCE)?;
        let done = Command::new(compiler)
            .args(["-shared", "-fPIC", "-O2", "-o"])
            .args([&library, &source])
            .stdin(Stdio::null())
            .output()?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            let last = said.lines().last().unwrap_or_default();
            return Err(ShimError::NotCompiled(last.to_owned()));
        }
        Ok(Self {
            library,
            folder,
            clocks: AtomicU64::new(0),
        })
    }

    /// Makes clocks for a program that is about to start. They are right at first.
    ///
    /// # Errors
    /// Returns the system's error if the file cannot be created.
    pub fn clock(&self) -> io::Result<ProgramClock> {
        let number = self.clocks.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.path().join(format!("clock-{number}"));
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        // All of it is written, so that a full disk shows here and not in the middle of a change.
        file.write_all_at(&[0; BYTES as usize], 0)?;
        let library = self.library.clone();
        Ok(ProgramClock {
            file,
            path,
            library,
        })
    }
}

/// The clocks of one program, and of what it starts.
#[derive(Debug)]
pub struct ProgramClock {
    file: File,
    path: PathBuf,
    library: PathBuf,
}

/// What time of day a program is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WallClock {
    /// The right one.
    Right,
    /// One that is ahead by this much.
    Ahead(Duration),
    /// One that is behind by this much.
    Behind(Duration),
    /// One that is right now, and runs this many times as fast.
    Fast(u32),
}

impl ProgramClock {
    /// Returns the variables that the program must be started with.
    pub fn variables(&self) -> [(&'static str, OsString); 2] {
        let mut libraries = self.library.clone().into_os_string();
        if let Some(others) = std::env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
            libraries.push(":");
            libraries.push(others);
        }
        [(PRELOAD, libraries), (FILE, self.path.clone().into())]
    }

    /// Sets the time of day that the program is told from now on. Its other clocks stay as they are.
    ///
    /// # Errors
    /// Returns the system's error if the file cannot be written.
    pub fn set(&self, wall: WallClock) -> io::Result<()> {
        let (shift_ns, fast) = match wall {
            WallClock::Right => (0, 0),
            WallClock::Ahead(by) => (nanoseconds(by), 0),
            WallClock::Behind(by) => (-nanoseconds(by), 0),
            WallClock::Fast(times) => (0, (i64::from(times) - 1) * 1_000),
        };
        let since = boot_ns()?;
        let version = self.read(VERSION)?;
        // Odd: a program that reads meanwhile waits for the rest.
        self.write(VERSION, version + 1)?;
        self.write(WALL, shift_ns)?;
        self.write(FAST, fast)?;
        self.write(SINCE, since)?;
        self.write(VERSION, version + 2)
    }

    /// Holds the clock back that stands still while a machine is suspended (`CLOCK_MONOTONIC`), by this much. The time of day and the
    /// time since boot (`CLOCK_BOOTTIME`) are told as they are, so that the program sees what a suspended machine shows.
    ///
    /// # Errors
    /// Returns the system's error if the file cannot be written.
    pub fn hold_steady(&self, by: Duration) -> io::Result<()> {
        let before = self.read(STEADY)?;
        self.write(STEADY, before - nanoseconds(by))
    }

    /// Returns how many questions for the time the library has answered.
    pub fn calls(&self) -> u64 {
        self.read(CALLS).map_or(0, i64::cast_unsigned)
    }

    fn read(&self, at: u64) -> io::Result<i64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(i64::from_ne_bytes(bytes))
    }

    fn write(&self, at: u64, value: i64) -> io::Result<()> {
        self.file.write_all_at(&value.to_ne_bytes(), at)
    }
}

fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX / 4)
}

#[cfg(target_os = "linux")]
fn boot_ns() -> io::Result<i64> {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME)?;
    Ok(nanoseconds(Duration::from(now)))
}

#[cfg(not(target_os = "linux"))]
fn boot_ns() -> io::Result<i64> {
    Err(io::ErrorKind::Unsupported.into())
}

fn is_supported() -> bool {
    cfg!(all(target_os = "linux", target_pointer_width = "64"))
}

fn compiler() -> Option<PathBuf> {
    installed(&COMPILERS)
}

#[cfg(test)]
mod tests;
