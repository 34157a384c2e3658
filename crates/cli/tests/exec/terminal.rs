//! Tests of `exec` on a terminal: keys reach the command, and closing the terminal ends it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::Signal;
use nix::unistd::{setsid, tcgetpgrp};

use crate::stage::{Stage, signal, state, until};

nix::ioctl_write_int_bad!(make_controlling, nix::libc::TIOCSCTTY);
nix::ioctl_write_ptr_bad!(set_size, nix::libc::TIOCSWINSZ, Winsize);

/// A terminal with a program in it.
struct Terminal {
    keys: Option<File>,
    shown: Arc<Mutex<String>>,
    is_open: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
    program: std::process::Child,
}

impl Terminal {
    /// Starts `exec` with a shell script.
    fn new(stage: &Stage, flags: &str, script: &str) -> Self {
        let mut arguments = vec!["exec", "--name", "deploy"];
        arguments.extend(flags.split_whitespace());
        arguments.extend(["--", "sh", "-c", script]);
        Self::with(stage, &arguments)
    }

    fn with(stage: &Stage, arguments: &[&str]) -> Self {
        let mut command = stage.fencepost(arguments);
        let (master, slave) = open_terminal();
        let screen = |slave: &File| Stdio::from(slave.try_clone().unwrap());
        command
            .stdin(screen(&slave))
            .stdout(screen(&slave))
            .stderr(screen(&slave));
        // SAFETY: setsid and ioctl are async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                setsid()?;
                make_controlling(std::io::stdin().as_raw_fd(), 0)?;
                Ok(())
            });
        }
        let program = command.spawn().unwrap();
        drop(command);
        drop(slave);
        let keys = master;
        let shown = Arc::new(Mutex::new(String::new()));
        let is_open = Arc::new(AtomicBool::new(true));
        let reader = read_on(keys.try_clone().unwrap(), shown.clone(), is_open.clone());
        Self {
            keys: Some(keys),
            shown,
            is_open,
            reader: Some(reader),
            program,
        }
    }

    /// Closes the window.
    fn close(&mut self) {
        self.is_open.store(false, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        self.keys = None;
    }

    fn pid(&self) -> i32 {
        self.program.id().cast_signed()
    }

    fn press(&mut self, keys: &str) {
        self.keys
            .as_mut()
            .unwrap()
            .write_all(keys.as_bytes())
            .unwrap();
    }

    fn until_shown(&self, text: &str) {
        until(text, || self.shown.lock().unwrap().contains(text));
    }

    /// Returns the signal that ended the program. Ends it if it is still there after a long time.
    fn signal(&mut self) -> Option<i32> {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.program.try_wait().unwrap().is_none() {
            if Instant::now() >= deadline {
                self.program.kill().unwrap();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.program.wait().unwrap().signal()
    }

    fn code(&mut self) -> i32 {
        self.program.wait().unwrap().code().unwrap()
    }
}

/// Opens both ends of a terminal. No process that another test starts inherits them; otherwise the terminal would stay open.
fn open_terminal() -> (File, File) {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let master = posix_openpt(flags).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let size = Winsize {
        ws_row: 24,
        ws_col: 70,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the descriptor is open, and the size lives as long as the call.
    unsafe { set_size(master.as_raw_fd(), &size) }.unwrap();
    let slave = File::options()
        .read(true)
        .write(true)
        .custom_flags(OFlag::O_NOCTTY.bits())
        .open(ptsname_r(&master).unwrap())
        .unwrap();
    (File::from(OwnedFd::from(master)), slave)
}

/// Records what is shown, for as long as the window is open.
fn read_on(
    mut screen: File,
    shown: Arc<Mutex<String>>,
    is_open: Arc<AtomicBool>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        while is_open.load(Ordering::Relaxed) {
            let mut fds = [PollFd::new(screen.as_fd(), PollFlags::POLLIN)];
            if poll(&mut fds, PollTimeout::from(10u8)).unwrap() == 0 {
                continue;
            }
            let mut bytes = [0; 1024];
            match screen.read(&mut bytes) {
                Ok(count @ 1..) => shown
                    .lock()
                    .unwrap()
                    .push_str(&String::from_utf8_lossy(&bytes[..count])),
                _ => return,
            }
        }
    })
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

#[test]
fn a_command_reads_from_the_terminal() {
    let stage = Stage::new();
    let mut terminal = Terminal::new(
        &stage,
        "",
        "printf 'sure? '; read x; echo \"got $x\"; exit 4",
    );
    terminal.until_shown("sure? ");
    terminal.press("yes\n");
    terminal.until_shown("got yes");
    assert_eq!(terminal.code(), 4);
}

#[test]
fn ctrl_c_reaches_the_command_once() {
    let stage = Stage::new();
    let script = "trap 'echo caught; n=$((n+1))' INT; n=0; echo ready; while [ ! -e go ]; do :; done; exit $n";
    let mut terminal = Terminal::new(&stage, "", script);
    terminal.until_shown("ready");
    terminal.press("\x03");
    terminal.until_shown("caught");
    std::fs::write(stage.path("go"), "").unwrap();
    assert_eq!(terminal.code(), 1);

    let mut terminal = Terminal::new(&stage, "", "echo ready; exec sleep 1000");
    terminal.until_shown("ready");
    terminal.press("\x03");
    assert_eq!(terminal.code(), 130);
    stage.until_empty();
}

#[test]
fn ctrl_z_pauses_the_job_and_it_goes_on_with_the_terminal() {
    let stage = Stage::new();
    let script = "echo $$ > pid; echo ready; read x; echo \"got $x\"; exit 6";
    let mut terminal = Terminal::new(&stage, "--ttl 60s", script);
    terminal.until_shown("ready");
    let command: i32 = stage.read("pid").trim().parse().unwrap();
    terminal.press("\x1a");
    until("both stand still", || {
        state(terminal.pid()) == Some('T') && state(command) == Some('T')
    });
    let has_terminal =
        |terminal: &Terminal| tcgetpgrp(terminal.keys.as_ref().unwrap()).unwrap().as_raw();
    assert_eq!(
        has_terminal(&terminal),
        terminal.pid(),
        "a shell would have it back"
    );
    signal(terminal.pid(), Signal::SIGCONT);
    until("the command has the terminal", || {
        has_terminal(&terminal) == command
    });
    terminal.press("on\n");
    terminal.until_shown("got on");
    assert_eq!(terminal.code(), 6);
}

#[test]
fn a_pause_beyond_the_lease_ends_the_command() {
    let stage = Stage::new();
    let mut terminal = Terminal::new(
        &stage,
        "--ttl 3s",
        "echo $$ > pid; echo ready; exec sleep 1000",
    );
    terminal.until_shown("ready");
    let command: i32 = stage.read("pid").trim().parse().unwrap();
    terminal.press("\x1a");
    until("exec stands still", || state(terminal.pid()) == Some('T'));
    until("the command is gone", || {
        state(command).is_none_or(|state| state == 'Z')
    });
    let next = stage.run(&["exec", "--name", "deploy", "--wait", "30s", "--", "true"]);
    assert_eq!(next.code(), 0, "{}", next.stderr);
    signal(terminal.pid(), Signal::SIGCONT);
    assert_eq!(terminal.code(), 125);
    terminal.until_shown("fencepost itself was paused for ");
}

#[test]
fn a_terminal_that_is_closed_ends_the_command() {
    let stage = Stage::new();
    let script = "echo $$ > pid; echo ready; exec sleep 1000";
    let mut terminal = Terminal::new(&stage, "", script);
    terminal.until_shown("ready");
    terminal.close();
    assert_eq!(terminal.code(), 129);
    stage.until_empty();
    let listed = stage.run(&["locks", "list"]);
    assert!(listed.stdout.starts_with("no locks"), "{}", listed.stdout);
}

#[test]
fn a_command_that_outlives_its_terminal_keeps_the_lock() {
    let stage = Stage::new();
    let script = "trap '' HUP; echo ready; while [ ! -e go ]; do sleep 0.02; done; echo done > end";
    let mut terminal = Terminal::new(&stage, "--ttl 2s", script);
    terminal.until_shown("ready");
    terminal.close();
    // Longer than the TTL.
    std::thread::sleep(Duration::from_millis(2_500));
    let busy = stage.run(&["exec", "--name", "deploy", "--", "true"]);
    assert_eq!(busy.code(), 75, "{}", busy.stderr);
    std::fs::write(stage.path("go"), "").unwrap();
    assert_eq!(terminal.code(), 0);
    assert_eq!(stage.read("end"), "done\n");
}

#[test]
fn a_release_is_asked_for_and_meant() {
    let stage = Stage::new();
    let _holder = stage.shell("--name deploy --ttl 60s", "echo > held; sleep 1000");
    stage.until_lines("held", 1);
    let mut terminal = Terminal::with(&stage, &["locks", "release", "deploy"]);
    terminal.until_shown("may still be working: stop it there first. Release? [y/N] ");
    terminal.press("\n");
    assert_eq!(terminal.code(), 1);
    terminal.until_shown("deploy   not released");
    assert_eq!(
        stage.run(&["locks", "show", "deploy"]).code(),
        0,
        "held as before"
    );

    let mut terminal = Terminal::with(&stage, &["locks", "release", "deploy"]);
    terminal.until_shown("Release? [y/N] ");
    terminal.press("y\n");
    assert_eq!(terminal.code(), 0);
    terminal.until_shown("deploy   released: ");
    assert_eq!(stage.run(&["locks", "show", "deploy"]).code(), 1);
}

#[test]
fn ctrl_c_at_the_question_ends_the_program_and_releases_nothing() {
    let stage = Stage::new();
    let _holder = stage.shell("--name deploy --ttl 60s", "echo > held; sleep 1000");
    stage.until_lines("held", 1);
    let mut terminal = Terminal::with(&stage, &["locks", "release", "deploy"]);
    terminal.until_shown("Release? [y/N] ");
    terminal.press("\x03");
    assert_eq!(terminal.signal(), Some(Signal::SIGINT as i32));
    assert_eq!(stage.run(&["locks", "show", "deploy"]).code(), 0);
}

#[test]
fn a_narrow_screen_shows_what_matters() {
    let stage = Stage::new();
    let _holder = stage.shell("--name deploy --ttl 60s", "echo > held; sleep 1000");
    stage.until_lines("held", 1);
    let mut terminal = Terminal::with(&stage, &["locks", "list"]);
    assert_eq!(terminal.code(), 0);
    terminal.until_shown("1 lock");
    let shown = terminal.shown.lock().unwrap().clone();
    let columns = ["name", "holder", "TTL left", "waiting"];
    assert!(
        columns.iter().all(|column| shown.contains(column)),
        "{shown}"
    );
    let minor = ["held for", "fence", "kind"];
    assert!(
        !minor.iter().any(|column| shown.contains(column)),
        "{shown}"
    );
}
