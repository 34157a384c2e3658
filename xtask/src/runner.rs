//! Runs a command, prints its output line by line, and lets the caller parse it.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{self, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::interrupt::{self, Interruptible};
use crate::terminal::{self, Output};
use crate::tree;

/// How long to wait for remaining output after a command has ended.
const AFTER_THE_END: Duration = Duration::from_secs(2);

/// Creates a cargo command at the root of the project, without the variables that `cargo xtask` added to the environment.
pub(crate) fn cargo<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(tree::root())
        .env("PATH", path_with_tools());
    if terminal::wants_colour() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    // In these variables `cargo xtask` describes *this* package. If they stay set, build scripts that watch them run again.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Returns the search path, with the project's own tools first.
pub(crate) fn path_with_tools() -> OsString {
    let system = std::env::var_os("PATH").unwrap_or_default();
    let own = std::iter::once(tree::tools().join("bin"));
    std::env::join_paths(own.chain(std::env::split_paths(&system))).unwrap_or(system)
}

/// Prints and runs `command`. Every line of its output is printed, and passed to `read_along` without colours.
///
/// # Errors
/// Returns an error if the command cannot be started or we are interrupted. A command that fails is not an error here.
pub(crate) fn run(command: &mut Command, mut read_along: impl FnMut(&str)) -> Result<ExitStatus> {
    terminal::say(format!("$ {}", shown(command)));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut running = Interruptible::spawn(command)?;
    let (sender, lines) = mpsc::channel();
    let [out, err] = [(); 2].map(|()| Output::of_this_thread());
    read_lines(running.child.stdout.take(), sender.clone(), move |line| {
        out.write(io::stdout(), line)
    });
    read_lines(running.child.stderr.take(), sender, move |line| {
        err.write(io::stderr(), line)
    });

    let mut ended: Option<Instant> = None;
    loop {
        match lines.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => read_along(&terminal::without_escapes(&line)),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => match ended {
                None => ended = running.child.try_wait()?.map(|_| Instant::now()),
                // A process left behind keeps the pipe open, so do not read until it ends.
                Some(at) if at.elapsed() > AFTER_THE_END => {
                    terminal::say("warning: something this command started is still running");
                    break;
                }
                Some(_) => {}
            },
        }
    }
    let status = running.child.wait().context("waiting for a command")?;
    if interrupt::happened() {
        bail!("interrupted");
    }
    Ok(status)
}

/// Runs `command` quietly and returns its output, with its standard error if `command` asks for that by a pipe.
///
/// # Errors
/// Returns an error if the command cannot be started or we are interrupted. A command that fails is not an error here.
pub(crate) fn output(command: &mut Command) -> Result<process::Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut running = Interruptible::spawn(command)?;
    let (out, err) = (running.child.stdout.take(), running.child.stderr.take());
    let errors = thread::spawn(move || read_all(err));
    let stdout = read_all(out).context("the output of a command")?;
    let stderr = errors.join().unwrap_or_else(|_| Ok(Vec::new()));
    let status = running.child.wait().context("waiting for a command")?;
    if interrupt::happened() {
        bail!("interrupted");
    }
    Ok(process::Output {
        status,
        stdout,
        stderr: stderr.context("the output of a command")?,
    })
}

fn read_all<R: Read>(stream: Option<R>) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    stream.map_or(Ok(0), |mut stream| stream.read_to_end(&mut all))?;
    Ok(all)
}

fn read_lines<R: Read + Send + 'static>(
    stream: Option<R>,
    sender: Sender<String>,
    pass_on: impl Fn(&[u8]) + Send + 'static,
) {
    let Some(stream) = stream else { return };
    thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        while reader
            .read_until(b'\n', &mut line)
            .is_ok_and(|count| count > 0)
        {
            pass_on(&line);
            let text = String::from_utf8_lossy(&line);
            if sender
                .send(text.trim_end_matches(['\r', '\n']).into())
                .is_err()
            {
                return;
            }
            line.clear();
        }
    });
}

/// Returns the command as a user would type it.
pub(crate) fn shown(command: &Command) -> String {
    let arguments = command
        .get_args()
        .map(|argument| quoted(&argument.to_string_lossy()));
    let set = command.get_envs().filter_map(|(name, value)| {
        let name = name.to_string_lossy();
        let of_interest = name.starts_with("FENCEPOST_") || name == "RUSTDOCFLAGS";
        let value = value.filter(|_| of_interest)?;
        Some(format!("{name}={}", quoted(&value.to_string_lossy())))
    });
    let program = std::path::Path::new(command.get_program()).file_name();
    let program = program.unwrap_or(command.get_program()).to_string_lossy();
    let words = set.chain([program.into_owned()]).chain(arguments);
    words.collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    if word.is_empty() || word.contains([' ', '\'', '"', '*', '$']) {
        format!("'{}'", word.replace('\'', r"'\''"))
    } else {
        word.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> (ExitStatus, Vec<String>) {
        let mut lines = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let status = run(&mut command, |line| lines.push(line.to_owned())).unwrap();
        lines.sort();
        (status, lines)
    }

    #[test]
    fn both_streams_are_read_to_the_last_line() {
        let (status, lines) = shell("echo out; echo err >&2; printf 'no newline'; exit 3");
        assert_eq!(lines, ["err", "no newline", "out"]);
        assert_eq!(status.code(), Some(3));
    }

    #[test]
    fn a_process_left_behind_does_not_hold_us_up() {
        let started = Instant::now();
        let (status, lines) = shell("sleep 60 & echo $!");
        assert!(status.success());
        let left_behind: i32 = lines[0].parse().unwrap();
        nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(left_behind),
            nix::sys::signal::SIGKILL,
        )
        .unwrap();
        assert!(started.elapsed() < Duration::from_secs(50));
    }

    #[test]
    fn a_command_is_shown_as_one_types_it() {
        let mut command = Command::new("cargo");
        command
            .args(["test", "two words"])
            .env("FENCEPOST_SOAK", "1")
            .env("PATH", "hidden");
        assert_eq!(shown(&command), "FENCEPOST_SOAK=1 cargo test 'two words'");
    }
}
