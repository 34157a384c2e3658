//! Tests that the current checks reach the verdict that is sealed in histories of an earlier version.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use fencepost_trial::saved::{Rejudged, Saved};
use fencepost_trial::verdict::Outcome;

fn histories() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories");
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn judged(path: &Path) -> Rejudged {
    let file = BufReader::new(File::open(path).unwrap());
    Rejudged::of(Saved::read(file).unwrap())
}

#[test]
fn every_recorded_verdict_stands() {
    let mut outcomes = Vec::new();
    for path in histories() {
        let judged = judged(&path);
        let seal = judged.saved.seal.as_ref().unwrap();
        assert_eq!(judged.stands(), Some(true), "{}", path.display());
        assert_eq!(judged.verdict.because, seal.because, "{}", path.display());
        outcomes.push(judged.verdict.outcome);
    }
    for outcome in [Outcome::Held, Outcome::Broken, Outcome::Stuck] {
        assert!(outcomes.contains(&outcome), "no history is {outcome}");
    }
}

#[test]
fn every_recorded_run_can_be_repeated_by_a_command() {
    for path in histories() {
        let command = judged(&path).reproduce();
        assert!(command.ends_with(" --seed 7"), "{command}");
    }
}
