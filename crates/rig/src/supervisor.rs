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

/// The supervisor of a program that is about to start.
#[derive(Debug)]
pub(crate) struct Supervision {
    line: PipeWriter,
    /// The supervisor writes the id of the program to it.
    hears: PipeReader,
}

/// Makes the command start below a supervisor.
pub(crate) fn supervise(command: &mut Command) -> io::Result<Supervision> {
    let (its_line, line) = io::pipe()?;
    let (hears, says) = io::pipe()?;
    // SAFETY: between fork and exec only async-signal-safe calls are made, in the program and in the supervisor.
    unsafe { command.pre_exec(move || part(its_line.as_raw_fd(), says.as_raw_fd())) };
    Ok(Supervision { line, hears })
}

impl Supervision {
    /// Returns the id of the program that was started, and the line to its supervisor. Nothing is ever written to the line: the
    /// supervisor kills everything when the line is closed.
    pub(crate) fn begun(mut self) -> io::Result<(Pid, PipeWriter)> {
        let mut id = [0; 4];
        self.hears.read_exact(&mut id)?;
        Ok((Pid::from_raw(i32::from_ne_bytes(id)), self.line))
    }
}

/// Runs in the child before the program starts. Returns only in the process that becomes the program.
fn part(line: RawFd, says: RawFd) -> io::Result<()> {
    setsid()?;
    nix::sys::prctl::set_child_subreaper(true)?;
    // The program's end is waited for, and nothing else may end the supervisor.
    let mut before = SigSet::empty();
    sigprocmask(
        SigmaskHow::SIG_SETMASK,
        Some(&SigSet::all()),
        Some(&mut before),
    )?;
    let supervisor = getpid();
    // SAFETY: this process has a single thread, and both sides make only async-signal-safe calls.
    match unsafe { fork() }? {
        ForkResult::Child => {
            sigprocmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?;
            setsid()?;
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
            // If the supervisor died before the line above, the signal will never come.
            if getppid() != supervisor {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            Ok(())
        }
        ForkResult::Parent { child } => stand(child, line, says),
    }
}

/// Waits for the end of the program or of the line, kills everything, and ends as the program did.
fn stand(program: Pid, line: RawFd, says: RawFd) -> ! {
    keep_only(line, says);
    let (line, says) = (0, 1);
    let id = program.as_raw().to_ne_bytes();
    // SAFETY: the pointer and the length belong to `id`. Four bytes fit into an empty pipe.
    unsafe { libc::write(says, id.as_ptr().cast(), id.len()) };
    wait_for_end(program, line);
    end_as(end_all(program))
}

/// Keeps only two files, as numbers 0 and 1. The others would keep the pipes of all our children open.
fn keep_only(line: RawFd, says: RawFd) {
    // SAFETY: only numbers of files are passed. `F_DUPFD` moves both out of the way of each other.
    unsafe {
        let line = libc::fcntl(line, libc::F_DUPFD, 3);
        let says = libc::fcntl(says, libc::F_DUPFD, 3);
        libc::dup2(line, 0);
        libc::dup2(says, 1);
        libc::close(2);
        if libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) != 0 {
            for file in 3..libc::sysconf(libc::_SC_OPEN_MAX).min(65_536) {
                libc::close(file as RawFd);
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
