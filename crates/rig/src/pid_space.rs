//! A PID namespace of the lab's own, in which a program can get the process id of one that has ended.
//!
//! Root makes the namespace directly; anybody else needs a user namespace around it, and keeps their user id there. Its init is `cat`: it
//! ends when its input is closed, so also when we are gone for whatever reason, and the kernel then kills everything in the namespace.
//! It ignores SIGCHLD, so the kernel reaps whatever is left to it.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, fork, getegid, geteuid, setsid};

use crate::supervisor::{Place, keep_only, supervise, write_id};

/// The process id that the probe asks for.
const PROBED: i32 = 4_000;

/// A PID namespace. When it is dropped, everything in it ends.
///
/// The kernel ends it also when the *thread* that made it ends.
#[derive(Debug)]
pub struct PidSpace {
    /// It waits outside for the end of the init.
    outside: Child,
    pids: File,
    users: Option<File>,
}

impl PidSpace {
    /// Makes a namespace.
    ///
    /// # Errors
    /// Returns the system's error, mostly because we may not make one.
    pub fn open() -> io::Result<Self> {
        if std::fs::read_link("/proc/self")?.to_str() != Some(&std::process::id().to_string()) {
            // We could not learn by which number we can signal a program.
            return Err(io::Error::other("/proc is of another PID namespace"));
        }
        Self::start(Vec::new()).or_else(|error| Self::start(maps()).map_err(|_| error))
    }

    /// Returns why no program can be given a process id on this machine; `None` if one can. Tries it once.
    pub fn lacks() -> Option<&'static str> {
        static LACKS: OnceLock<Option<String>> = OnceLock::new();
        let lacks = LACKS.get_or_init(|| {
            let error = probe().err()?;
            Some(format!(
                "needs the right to make a PID namespace and to choose a process id there ({error})"
            ))
        });
        lacks.as_deref()
    }

    /// Returns the place in this namespace with this process id. It is valid as long as the namespace is there.
    pub(crate) fn place(&self, number: i32) -> Place {
        Place {
            pids: self.pids.as_raw_fd(),
            users: self.users.as_ref().map(File::as_raw_fd),
            number,
        }
    }

    /// Starts the init, with a user namespace around it if there are maps for one.
    fn start(maps: Vec<Map>) -> io::Result<Self> {
        let has_users = !maps.is_empty();
        let (id_reader, id_writer) = io::pipe()?;
        let mut command = Command::new("cat");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // SAFETY: between fork and exec only async-signal-safe calls are made, in the init and in the process outside.
        unsafe { command.pre_exec(move || become_init(&maps, id_writer.as_raw_fd())) };
        let mut outside = command.spawn()?;
        // The command has a copy of the end that the process outside writes to.
        drop(command);
        let files = namespaces(id_reader, has_users);
        let (pids, users) = files.inspect_err(|_| end(&mut outside))?;
        Ok(Self {
            outside,
            pids,
            users,
        })
    }
}

impl Drop for PidSpace {
    fn drop(&mut self) {
        end(&mut self.outside);
    }
}

/// Ends the init by closing its input, and waits for that.
fn end(outside: &mut Child) {
    drop(outside.stdin.take());
    let _ = outside.wait();
}

/// Returns the namespaces of the init, whose id is read from the pipe.
fn namespaces(mut id_reader: PipeReader, has_users: bool) -> io::Result<(File, Option<File>)> {
    let mut init = [0; 4];
    id_reader.read_exact(&mut init)?;
    let init = i32::from_ne_bytes(init);
    let open = |name| File::open(format!("/proc/{init}/ns/{name}"));
    let users = has_users.then(|| open("user")).transpose()?;
    Ok((open("pid")?, users))
}

/// A file of a new user namespace, and what is written to it.
type Map = (CString, Vec<u8>);

/// Returns what makes us ourselves in a user namespace.
fn maps() -> Vec<Map> {
    let own = |id: u32| format!("{id} {id} 1").into_bytes();
    let files = [
        (c"/proc/self/setgroups", b"deny".to_vec()),
        (c"/proc/self/uid_map", own(geteuid().as_raw())),
        (c"/proc/self/gid_map", own(getegid().as_raw())),
    ];
    files.map(|(path, text)| (path.into(), text)).into()
}

/// Runs in the child before `cat` starts. Returns only in the init.
fn become_init(maps: &[Map], id_writer: RawFd) -> io::Result<()> {
    setsid()?;
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    if !maps.is_empty() {
        unshare(libc::CLONE_NEWUSER)?;
        maps.iter().try_for_each(write)?;
    }
    unshare(libc::CLONE_NEWPID)?;
    // SAFETY: this process has a single thread, and both sides make only async-signal-safe calls.
    match unsafe { fork() }? {
        ForkResult::Child => {
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
            // SAFETY: no handler is installed.
            unsafe { signal(Signal::SIGCHLD, SigHandler::SigIgn) }?;
            Ok(())
        }
        ForkResult::Parent { child } => {
            write_id(id_writer, child.as_raw());
            keep_only(None);
            while waitpid(child, None) == Err(Errno::EINTR) {}
            // SAFETY: ends the process at once, without running anything of ours.
            unsafe { libc::_exit(0) }
        }
    }
}

fn unshare(what: libc::c_int) -> io::Result<()> {
    // SAFETY: only a number is passed, and this process has a single thread.
    Ok(Errno::result(unsafe { libc::unshare(what) }).map(drop)?)
}

fn write((path, text): &Map) -> io::Result<()> {
    // SAFETY: the path ends with a zero byte; the pointer and the length belong to `text`; the file is closed by its number.
    unsafe {
        let file = Errno::result(libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC))?;
        let written = Errno::result(libc::write(file, text.as_ptr().cast(), text.len()));
        libc::close(file);
        Ok(written.map(drop)?)
    }
}

/// Starts a program under a chosen number.
fn probe() -> io::Result<()> {
    let space = PidSpace::open()?;
    let mut command = Command::new("true");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let supervision = supervise(&mut command, Some(space.place(PROBED)))?;
    let mut supervisor = command.spawn()?;
    drop(command);
    let begun = supervision.begun();
    supervisor.wait()?;
    begun.map(drop)
}
