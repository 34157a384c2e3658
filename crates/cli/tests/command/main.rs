//! Tests of the real program as its users see it: its output, its exit codes, and what it leaves behind.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod check;
mod clocks;
mod doctor;
mod documentation;
mod drawings;
mod envelope;
mod errors;
mod external_locks;
mod external_servers;
mod gauntlet;
mod holds;
mod interrupt;
mod json;
mod ladder;
mod lock_servers;
mod lost_store;
mod manifests;
mod misbehaving_servers;
mod network;
mod oversell;
#[cfg(feature = "postgres")]
mod postgres;
mod predict;
mod retry;
mod run_all;
mod schema;
mod stores;
mod suggestions;

use std::process::{Command, Output, Stdio};

/// Returns a command for the program with an environment without settings for colours or stores.
fn fencepost(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    fencepost_rig::with_default_signals(&mut command)
        .args(arguments.split_whitespace())
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null());
    for name in [
        "NO_COLOR",
        "CLICOLOR_FORCE",
        "FENCEPOST_STORE",
        "FENCEPOST_TRIAL_STORE",
        "TERM",
    ] {
        command.env_remove(name);
    }
    command
}

struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

fn run(arguments: &str) -> Ran {
    finish(fencepost(arguments).output().unwrap())
}

fn finish(output: Output) -> Ran {
    Ran {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Replaces every number by `N` and runs of spaces by one, which leaves shape and wording.
fn shape(text: &str) -> String {
    let mut shape = String::new();
    for line in text.lines() {
        let words: Vec<String> = line
            .split(' ')
            .filter(|word| !word.is_empty())
            .map(masked)
            .collect();
        shape.push_str(&words.join(" "));
        shape.push('\n');
    }
    shape
}

fn masked(word: &str) -> String {
    let mut text = String::new();
    let mut in_number = false;
    let letters: Vec<char> = word.chars().collect();
    for (index, letter) in letters.iter().enumerate() {
        let inside = in_number
            && matches!(letter, '.' | ',')
            && letters.get(index + 1).is_some_and(char::is_ascii_digit);
        let is_number = letter.is_ascii_digit() || inside;
        match (is_number, in_number) {
            (true, false) => text.push('N'),
            (true, true) => {}
            (false, _) => text.push(*letter),
        }
        in_number = is_number;
    }
    text.replace("−N", "N")
}
