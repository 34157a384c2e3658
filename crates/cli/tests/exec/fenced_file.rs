//! A file that accepts lines only from the highest fence it has seen, and a command that writes to it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use fencepost::Fence;
use nix::fcntl::{Flock, FlockArg};

use crate::stage::{Play, Stage};

const VARIABLE: &str = "FENCEPOST_TEST_WRITER";

/// Appends a line `FENCE TEXT`, or refuses it. The check and the write are one step.
fn write(path: &Path, fence: Fence, text: &str) -> bool {
    let file = OpenOptions::new()
        .create(true)
        .read(true)
        .append(true)
        .open(path)
        .unwrap();
    let mut file: Flock<File> = Flock::lock(file, FlockArg::LockExclusive)
        .map_err(|(_, error)| error)
        .unwrap();
    let mut all = String::new();
    file.read_to_string(&mut all).unwrap();
    let highest = all.lines().last().map(fence_of);
    if highest.is_some_and(|highest| highest > fence) {
        return false;
    }
    file.write_all(format!("{fence} {text}\n").as_bytes())
        .unwrap();
    true
}

pub(crate) fn fence_of(line: &str) -> Fence {
    line.split(' ').next().unwrap().parse().unwrap()
}

/// Not a real test: this program plays the command when it is started as one.
#[test]
fn plays_the_writer() {
    let Ok(file) = std::env::var(VARIABLE) else {
        return;
    };
    let fence: Fence = std::env::var("FENCEPOST_FENCE").unwrap().parse().unwrap();
    let file = Path::new(&file);
    let refused = file.with_extension("refused");
    for number in 0.. {
        if !write(file, fence, &number.to_string()) {
            let mut log = OpenOptions::new()
                .create(true)
                .append(true)
                .open(&refused)
                .unwrap();
            log.write_all(format!("{fence} {number}\n").as_bytes())
                .unwrap();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts `exec` with a command that writes a line every 10 ms to the fenced file `file`.
pub(crate) fn writer(stage: &Stage, flags: &str) -> Play {
    writer_under(stage, &format!("exec --name shared {flags}"))
}

/// Starts the same command under another command of ours, with these words.
pub(crate) fn writer_under(stage: &Stage, words: &str) -> Play {
    let program = std::env::current_exe().unwrap();
    let arguments: Vec<&str> = words.split_whitespace().collect();
    let mut command = stage.fencepost(&arguments);
    command
        .arg("--")
        .arg(program)
        .args([
            "fenced_file::plays_the_writer",
            "--exact",
            "--nocapture",
            "--quiet",
        ])
        .env(VARIABLE, stage.path("file"));
    stage.start_command(command)
}

/// Returns the fences in the file in the order of their first lines, each once. All lines of a fence must be contiguous.
pub(crate) fn fences(stage: &Stage) -> Vec<Fence> {
    let all = stage.read("file");
    // A process may be writing the last line.
    let whole = all.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let mut fences: Vec<Fence> = whole.lines().map(fence_of).collect();
    assert!(
        fences.is_sorted(),
        "a line of an earlier holder after one of a later: {fences:?}"
    );
    fences.dedup();
    fences
}
