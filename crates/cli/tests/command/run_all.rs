//! Tests of `run-all`: the matrix, files that can be judged again, and a clean end when it is interrupted.

use std::path::Path;
use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::interrupt::{processes, send, until};
use crate::schema::{assert_valid, schema};
use crate::{Ran, fencepost, finish, run, shape};

fn report(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn files(folder: &Path, ending: &str) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .collect()
}

#[test]
fn one_matrix_and_every_history_of_it_is_judged_alike_again() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("deep/results");
    let ran = finish(
        fencepost("run-all --seed 7041 --output")
            .arg(&results)
            .output()
            .unwrap(),
    );
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let Ran { stdout, stderr, .. } = ran;
    let title = "run-all   16 strategies, 7 scenarios and the retry schedules   sqlite (one machine)   seed 7041\n";
    assert!(stdout.starts_with(title), "{stdout}");
    for row in [
        "  none             ✗ BROKEN   –          –          –          –          –          –\n",
        "  naive            ✓ HELD     ✗ BROKEN   ✓ HELD     ■ STUCK    ✗ BROKEN   ✗ BROKEN   ✓ HELD\n",
        "  fenced           ✓ HELD     ✓ HELD *   ✓ HELD     ✓ HELD     ✓ HELD *   ✓ HELD     ✓ HELD\n",
        "\n62 of 62 as expected   40 HELD, 17 BROKEN, 5 STUCK   in ",
    ] {
        assert!(stdout.contains(row), "{row}{stdout}");
    }
    let words = stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let kept = "59 × JSON and history (those of retry in one), report.html";
    assert!(words.contains(kept), "{stdout}");
    let comparison = report(&results.join("retry_safe.json"));
    for way in comparison["runs"].as_array().unwrap() {
        let sold = way["successes"].as_u64().unwrap();
        let said = words.contains(&format!(" sold {sold} of 10 in "));
        assert!(sold == 10 || said, "a time without all its sales: {stdout}");
    }
    assert!(stdout.lines().all(|line| line.chars().count() <= 100));
    // On a busy machine a trial may show nothing at first, and is repeated.
    let verdicts = stderr.lines().filter(|line| !line.contains("INCONCLUSIVE"));
    assert_eq!(verdicts.count(), 62, "{stderr}");
    assert!(
        shape(&stderr).contains("[N/N] crash naive STUCK as expected N s\n"),
        "{stderr}"
    );
    let page = std::fs::metadata(results.join("report.html")).unwrap();
    assert!(page.len() < 2_000_000, "{}", page.len());
    let histories = files(&results, "jsonl");
    assert_eq!((histories.len(), files(&results, "json").len()), (59, 59));
    let described = schema("report.json");
    for history in histories {
        let recorded = report(&history.with_extension("json"));
        let again = finish(fencepost("check").arg(&history).output().unwrap());
        let name = history.display();
        assert_valid(&described, &name.to_string(), &recorded);
        assert_eq!(again.code, recorded["verdict"]["exit_code"], "{name}");
        let words = again
            .stdout
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        let stands = "the recorded verdict stands.";
        assert!(words.contains(stands), "{name}: {}", again.stdout);
    }
}

#[test]
fn as_json_every_verdict_is_an_entry() {
    let ran = run("run-all --json");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_valid(&schema("report.json"), "run-all", &document);
    let runs = document["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 62);
    assert_eq!(
        (&document["as_expected"], &document["total"]),
        (&62.into(), &62.into())
    );
    for run in runs {
        assert_eq!(run["verdict"]["outcome"], run["verdict"]["expected"]);
    }
}

#[test]
fn ctrl_c_keeps_what_was_finished_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (temporary, results) = (folder.path().join("tmp"), folder.path().join("results"));
    std::fs::create_dir(&temporary).unwrap();
    let mut command = fencepost("run-all --output");
    command.arg(&results).env("TMPDIR", &temporary);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("lock trials are under way", || {
        results.join("crash_naive.jsonl").exists()
    });
    send(&child, Signal::SIGINT);
    let ran = finish(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    let shown = shape(&ran.stderr);
    assert!(
        shown.contains("\ninterrupted: N of N trials were finished.\nstopped N processes; "),
        "{shown}"
    );
    assert_eq!(processes(&temporary), [] as [i32; 0]);
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
    assert!(!results.join("crash_naive.jsonl").exists());
    assert!(!results.join("report.html").exists());
    let histories = files(&results, "jsonl");
    assert!(histories.len() >= 16, "the races were over");
    for history in histories {
        let recorded = report(&history.with_extension("json"));
        assert!(recorded["verdict"]["outcome"].is_string());
    }
}
