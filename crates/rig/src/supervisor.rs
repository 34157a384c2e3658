//! A supervisor between us and a program that we do not trust, so that nothing of the program is left, whatever it starts.
//!
//! The supervisor is a process that we fork for each such program. It is the parent of the program and adopts every descendant whose
//! own parent ends (`PR_SET_CHILD_SUBREAPER`), so a new session or a double fork is no way out. When the program ends, when we close the
//! line to the supervisor, or when we are gone for whatever reason (SIGKILL included), it kills all its children again and again until
//! none is left. Then it ends in the same way as the program did.
//!
//! Not covered: a program that kills or stops its supervisor. The kernel then still kills the program itself, but not what that has
//! started. Nor a descendant that runs as another user, or one that forks faster than it can be killed: the supervisor gives up after
//! some seconds.
//!
//! A program can also be started in a [namespace](crate::PidSpace), under a number of our choice. Then the supervisor is inside as well, with
//! a process outside that waits for its end.
//!
//! The supervisor is forked from a process with several threads and never executes a program, so it makes only system calls: it does not
//! allocate and does not lock.

use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{
    SigHandler, SigSet, SigmaskHow, Signal, kill, killpg, raise, signal, sigprocmask,
};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid, getppid, setsid};

/// For how long the supervisor tries to kill what is left.
const TO_KILL: Duration = Duration::from_secs(5);
/// How often it looks again meanwhile.
const LOOK: Duration = Duration::from_millis(1);

/// Where a program starts: a PID namespace, the user namespace around it, if there is one, and the number that it gets there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) pids: RawFd,
    pub(crate) users: Option<RawFd>,
    pub(crate) number: i32,
}

/// The supervisor of a program that is about to start.
#[derive(Debug)]
pub(crate) struct Supervision {
    line: PipeWriter,
    /// The program writes its id to it before it starts, as it is seen from here.
    id_reader: PipeReader,
}

/// Makes the command start below a supervisor, in this place.
pub(crate) fn supervise(command: &mut Command, place: Option<Place>) -> io::Result<Supervision> {
    let (its_line, line) = io::pipe()?;
    let (id_reader, id_writer) = io::pipe()?;
    // SAFETY: between fork and exec only async-signal-safe calls are made, in the program and in the supervisor.
    unsafe {
        command.pre_exec(move || {
            become_supervisor_or_program(its_line.as_raw_fd(), id_writer.as_raw_fd(), place)
        })
    };
    Ok(Supervision { line, id_reader })
}

impl Supervision {
    /// Returns the id of the program that was started, and the line to its supervisor. Nothing is ever written to the line: the
    /// supervisor kills everything when the line is closed.
    pub(crate) fn begun(mut self) -> io::Result<(Pid, PipeWriter)> {
        let mut id = [0; 4];
        self.id_reader.read_exact(&mut id)?;
        match i32::from_ne_bytes(id) {
            // A signal to such a number would reach others.
            ..=1 => Err(io::Error::other("the program's process id is unknown")),
            id => Ok((Pid::from_raw(id), self.line)),
        }
    }
}

/// Runs in the child before the program starts. Returns only in the process that becomes the program.
fn become_supervisor_or_program(
    line: RawFd,
    id_writer: RawFd,
    place: Option<Place>,
) -> io::Result<()> {
    setsid()?;
    // The program's end is waited for, and nothing else may end the supervisor.
    let mut before = SigSet::empty();
    sigprocmask(
        SigmaskHow::SIG_SETMASK,
        Some(&SigSet::all()),
        Some(&mut before),
    )?;
    let outside = place.map(Place::enter).transpose()?;
    nix::sys::prctl::set_child_subreaper(true)?;
    let supervisor = getpid();
    match fork_as(place.map(|place| place.number))? {
        ForkResult::Child => {
            sigprocmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?;
            setsid()?;
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
            // If the supervisor died before the line above, the signal will never come.
            if getppid() != supervisor {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            write_id(id_writer, outside.map_or(getpid().as_raw(), number_in));
            Ok(())
        }
        ForkResult::Parent { child } => supervise_until_end(child, line),
    }
}

impl Place {
    /// Moves into the namespace. Returns only in a new process, which is inside and sees `/proc` as it is there, with the folder `/proc`
    /// as it is outside. This process stays outside, waits for the end of that one, and ends in the same way.
    fn enter(self) -> io::Result<RawFd> {
        // SAFETY: only numbers are passed, and a path that ends with a zero byte. This process has a single thread.
        let outside = unsafe {
            let folder = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
            let outside = Errno::result(libc::open(c"/proc".as_ptr(), folder))?;
            if let Some(users) = self.users {
                Errno::result(libc::setns(users, libc::CLONE_NEWUSER))?;
            }
            Errno::result(libc::setns(self.pids, libc::CLONE_NEWPID))?;
            outside
        };
        // SAFETY: as in `become_supervisor_or_program`.
        match unsafe { fork() }? {
            ForkResult::Child => {
                // If the process outside died before this line, the line of the supervisor is closed soon, which ends everything here.
                nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
                mount_proc()?;
                Ok(outside)
            }
            ForkResult::Parent { child } => {
                keep_only(None);
                let status = loop {
                    match waitpid(child, None) {
                        Err(Errno::EINTR) => {}
                        status => break status,
                    }
                };
                end_as(status.unwrap_or(WaitStatus::StillAlive))
            }
        }
    }
}

/// Mounts `/proc` anew, for this process and those that it starts.
fn mount_proc() -> io::Result<()> {
    let (proc, root) = (c"proc".as_ptr(), c"/".as_ptr());
    let (none, flags) = (std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
    // SAFETY: the paths end with a zero byte, and nothing else is pointed to.
    unsafe {
        Errno::result(libc::unshare(libc::CLONE_NEWNS))?;
        Errno::result(libc::mount(none, root, none, flags, none.cast()))?;
        Errno::result(libc::mount(proc, c"/proc".as_ptr(), proc, 0, none.cast()))?;
    }
    Ok(())
}

/// The arguments of `clone3`, up to the one that chooses a number.
#[repr(C)]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
}

/// Forks. The child gets this number, or any. What is left of whoever had the number before may need a moment to end.
fn fork_as(number: Option<i32>) -> Result<ForkResult, Errno> {
    let Some(number) = number else {
        // SAFETY: this process has a single thread, and both sides make only async-signal-safe calls.
        return unsafe { fork() };
    };
    let deadline = Instant::now() + TO_KILL;
    loop {
        match fork_with(number) {
            Err(Errno::EEXIST) if Instant::now() < deadline => std::thread::sleep(LOOK),
            forked => return forked,
        }
    }
}

fn fork_with(number: libc::pid_t) -> Result<ForkResult, Errno> {
    let arguments = CloneArguments {
        exit_signal: Signal::SIGCHLD as u64,
        set_tid: std::ptr::from_ref(&number) as u64,
        set_tid_size: 1,
        ..CloneArguments::default()
    };
    let size = size_of::<CloneArguments>();
    // SAFETY: the pointers belong to `arguments` and `number`. Without flags this is a fork, and as in `fork_as` nobody else runs.
    let forked = unsafe { libc::syscall(libc::SYS_clone3, std::ptr::from_ref(&arguments), size) };
    Errno::result(forked).map(|child| match child {
        0 => ForkResult::Child,
        child => ForkResult::Parent {
            child: Pid::from_raw(child as libc::pid_t),
        },
    })
}

/// Returns the number of this process where this folder `/proc` is.
fn number_in(proc: RawFd) -> i32 {
    let mut digits = [0_u8; 16];
    let (path, room) = (c"self".as_ptr(), digits.len());
    // SAFETY: the path ends with a zero byte; the pointer and the length belong to `digits`.
    let length = unsafe { libc::readlinkat(proc, path, digits.as_mut_ptr().cast(), room) };
    let length = usize::try_from(length).unwrap_or(0);
    let digits = digits[..length].iter();
    digits.fold(0, |number, digit| number * 10 + i32::from(digit - b'0'))
}

/// Writes the id of a process to a pipe.
pub(crate) fn write_id(id_writer: RawFd, id: i32) {
    let id = id.to_ne_bytes();
    // SAFETY: the pointer and the length belong to `id`. Four bytes fit into an empty pipe.
    unsafe { libc::write(id_writer, id.as_ptr().cast(), id.len()) };
}

/// Waits for the end of the program or of the line, kills everything, and ends as the program did.
fn supervise_until_end(program: Pid, line: RawFd) -> ! {
    keep_only(Some(line));
    wait_for_end(program, 0);
    end_as(end_all(program))
}

/// Keeps only this file, as number 0, or none. The others would keep the pipes of all our children open.
pub(crate) fn keep_only(file: Option<RawFd>) {
    let first = RawFd::from(file.is_some());
    // SAFETY: only numbers of files are passed.
    unsafe {
        if let Some(file) = file {
            libc::dup2(file, 0);
        }
        if libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) != 0 {
            for file in first..libc::sysconf(libc::_SC_OPEN_MAX).min(65_536) as RawFd {
                libc::close(file);
            }
        }
    }
}

/// Returns when the program has ended or the line is closed.
fn wait_for_end(program: Pid, line: RawFd) {
    // SAFETY: only numbers are passed; the new file is polled below. Kernels before 5.3 return an error.
    let ends = unsafe { libc::syscall(libc::SYS_pidfd_open, program.as_raw(), 0) } as RawFd;
    let wanted = |fd, events| libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // Nothing is written to the line, so only its end is an event. A negative number is not polled.
    let mut both = [wanted(line, libc::POLLIN), wanted(ends, libc::POLLIN)];
    loop {
        // Without a file for the program, look regularly.
        let timeout_ms = if ends < 0 { 10 } else { -1 };
        // SAFETY: the pointer and the length belong to `both`.
        let events = unsafe { libc::poll(both.as_mut_ptr(), 2, timeout_ms) };
        if events > 0 || has_ended(program) {
            return;
        }
    }
}

fn has_ended(program: Pid) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    !matches!(waitid(Id::Pid(program), flags), Ok(WaitStatus::StillAlive))
}

/// Kills all descendants, and returns how the program ended. The program is reaped last, so that its id stays its own.
fn end_all(program: Pid) -> WaitStatus {
    let deadline = Instant::now() + TO_KILL;
    let _ = killpg(program, Signal::SIGKILL);
    // The program can be reaped only once, and others may be found after that.
    let mut status = None;
    loop {
        let others = kill_children(program);
        if (!others && has_ended(program)) || Instant::now() >= deadline {
            let reap = || waitpid(program, Some(WaitPidFlag::WNOHANG)).ok();
            status = status.or_else(reap);
            let is_last = waitpid(None, Some(WaitPidFlag::WNOHANG)) == Err(Errno::ECHILD);
            if is_last || Instant::now() >= deadline {
                return status.unwrap_or(WaitStatus::StillAlive);
            }
        }
        std::thread::sleep(LOOK);
    }
}

/// Kills all children, and reaps those that are dead, except the program. Returns whether there were any except the program.
///
/// The grandchildren become children when their parents die.
fn kill_children(program: Pid) -> bool {
    let mut others = false;
    for_each_child(|child| {
        let _ = kill(child, Signal::SIGKILL);
        if child != program {
            others = true;
            let _ = waitpid(child, Some(WaitPidFlag::WNOHANG));
        }
    });
    others
}

/// Reads the list of children without allocating. The list may miss some while others come and go, so it is read again and again.
fn for_each_child(mut act: impl FnMut(Pid)) {
    // SAFETY: the path ends with a zero byte.
    let list = unsafe { libc::open(c"/proc/thread-self/children".as_ptr(), libc::O_RDONLY) };
    let mut buffer = [0_u8; 4096];
    let mut number: i32 = 0;
    loop {
        // SAFETY: the pointer and the length belong to `buffer`. With an invalid file the call returns an error.
        let bytes = unsafe { libc::read(list, buffer.as_mut_ptr().cast(), buffer.len()) };
        let Some(bytes) = usize::try_from(bytes).ok().filter(|bytes| *bytes > 0) else {
            break;
        };
        for &byte in &buffer[..bytes] {
            match byte {
                b'0'..=b'9' => {
                    number = number.wrapping_mul(10).wrapping_add(i32::from(byte - b'0'))
                }
                _ if number > 0 => act(Pid::from_raw(std::mem::take(&mut number))),
                _ => {}
            }
        }
    }
    // SAFETY: only a number is passed.
    unsafe { libc::close(list) };
}

/// Ends this process with the same exit code, or by the same signal.
fn end_as(status: WaitStatus) -> ! {
    let code = match status {
        WaitStatus::Exited(_, code) => code,
        WaitStatus::Signaled(_, number, _) => {
            // Without a core file of its own.
            let _ = nix::sys::prctl::set_dumpable(false);
            // SAFETY: no handler is installed.
            let _ = unsafe { signal(number, SigHandler::SigDfl) };
            let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None);
            let _ = raise(number);
            1
        }
        _ => 1,
    };
    // SAFETY: ends the process at once, without running anything of ours.
    unsafe { libc::_exit(code) }
}
