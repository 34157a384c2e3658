//! Tests of `check`, which judges a saved history again.

use std::path::{Path, PathBuf};

use crate::{Ran, fencepost, finish, shape};

/// Runs the trial and returns its history. On a busy machine a trial can end INCONCLUSIVE (exit code 2); then it is run again.
fn recorded(folder: &Path, arguments: &str) -> PathBuf {
    let history = folder.join("run.jsonl");
    for _ in 0..5 {
        let mut command = fencepost(arguments);
        command.arg("-q").arg("--history").arg(&history);
        let ran = finish(command.output().unwrap());
        assert!(ran.stderr.is_empty(), "{}", ran.stderr);
        if ran.code != 2 {
            return history;
        }
        std::fs::remove_file(&history).unwrap();
    }
    panic!("five runs of {arguments} ended INCONCLUSIVE");
}

fn check(history: &Path, more: &str) -> Ran {
    let mut command = fencepost("check");
    command.arg(history).args(more.split_whitespace());
    finish(command.output().unwrap())
}

/// Returns whether the output contains these words, wherever lines are broken.
fn says(ran: &Ran, words: &str) -> bool {
    let text: Vec<&str> = ran.stdout.split_whitespace().collect();
    text.join(" ").contains(words)
}

#[test]
fn a_sale_is_judged_again_with_its_properties() {
    let folder = tempfile::tempdir().unwrap();
    let history = recorded(
        folder.path(),
        "oversell --lock=none --concurrency=5 --delay 50000",
    );
    let ran = check(&history, "");
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
    let expected = "\
oversell lock none N processes store sqlite (one machine) seed N

property result evidence
no oversell ✗ violated N orders, stock N #N, #N
no lost update ✗ violated N N = N, final stock N #N
no undersell ✓ held
exclusion, fence, recovery – n/a a sale claims no hold

BROKEN N orders for a stock of N. Judged again from the file alone: the recorded verdict stands.
";
    let shape = shape(&ran.stdout).replace("− ", "");
    assert!(shape.ends_with(expected), "{shape}");
    let title = ran.stdout.lines().next().unwrap();
    assert!(
        title.contains("run.jsonl: 12 events, complete, recorded "),
        "{title}"
    );
    assert!(title.ends_with(" UTC by fencepost 0.1.0"), "{title}");

    let quiet = check(&history, "-q").stdout;
    assert!(!quiet.contains("✓") && !quiet.contains("n/a"), "{quiet}");
}

#[test]
fn a_lock_trial_is_judged_again_from_its_file_alone() {
    let folder = tempfile::tempdir().unwrap();
    let history = recorded(folder.path(), "crash --ttl-edge --ttl 300 --work 500");
    let ran = check(&history, "");
    assert_eq!(ran.code, 1);
    let shape = shape(&ran.stdout);
    for line in [
        "exclusion at the resource ✗ violated op N of B lies between two of A #N, #N",
        "no lost update ✗ violated N additions, the number is N #N",
        "fence enforced – n/a the lock does not promise it",
        "no wait cycle ✓ held",
    ] {
        assert!(shape.contains(line), "{shape}");
    }
    assert!(says(&ran, "the recorded verdict stands."), "{}", ran.stdout);
}

#[test]
fn a_verdict_that_does_not_stand_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let history = recorded(
        folder.path(),
        "oversell --lock=none --concurrency=5 --delay 50000",
    );
    let text = std::fs::read_to_string(&history).unwrap();
    std::fs::write(
        &history,
        text.replace(r#""verdict":"BROKEN""#, r#""verdict":"HELD""#),
    )
    .unwrap();
    let ran = check(&history, "");
    assert_eq!(ran.code, 1);
    assert!(
        ran.stdout
            .contains("Recorded HELD by 0.1.0; these checks say BROKEN.\n"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_file_that_ends_early_is_judged_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let history = recorded(folder.path(), "crash --ttl 300");
    let text = std::fs::read_to_string(&history).unwrap();
    let lines: Vec<&str> = text.lines().collect();

    let unsealed = lines[..lines.len() - 1].join("\n") + "\n";
    std::fs::write(&history, unsealed).unwrap();
    let ran = check(&history, "");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert!(
        ran.stdout.contains(", incomplete, recorded "),
        "{}",
        ran.stdout
    );
    assert!(says(&ran, "no verdict was recorded."), "{}", ran.stdout);

    // Cut in the middle of the kill: without its witness, the run shows nothing.
    let kill = lines
        .iter()
        .position(|line| line.contains(r#""fault":"killed""#))
        .unwrap();
    let cut = lines[..kill].join("\n") + "\n" + &lines[kill][..20];
    std::fs::write(&history, cut).unwrap();
    let ran = check(&history, "");
    assert_eq!(ran.code, 2, "{}", ran.stdout);
    let warning = format!(
        "warning: line {} is cut off; judged up to #{}\n",
        kill + 1,
        kill - 1
    );
    assert_eq!(ran.stderr, warning);
}

#[test]
fn what_is_no_history_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes.txt");
    for (text, place) in [
        ("buy milk\n", "line 1: not the header of a history"),
        ("", "line 1: the file is empty"),
    ] {
        std::fs::write(&file, text).unwrap();
        let ran = check(&file, "");
        assert_eq!((ran.code, ran.stdout.as_str()), (65, ""));
        assert!(
            ran.stderr.starts_with("error: this is not a history\n"),
            "{}",
            ran.stderr
        );
        assert!(ran.stderr.contains(place), "{}", ran.stderr);
    }
    let ran = check(&folder.path().join("nowhere"), "");
    assert_eq!(ran.code, 65);
    assert!(
        ran.stderr.contains("no such file or directory"),
        "{}",
        ran.stderr
    );
    let ran = check(folder.path(), "");
    assert_eq!(ran.code, 65);
}

#[test]
fn a_file_forges_no_verdict_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let history = recorded(folder.path(), "crash --ttl 300");
    let text = std::fs::read_to_string(&history).unwrap();
    let forged = r"x\nHELD   all is well\u001b[2J";
    for (honest, label) in [
        (r#""strategy":"safe""#, "strategy"),
        (r#""store":"sqlite""#, "store"),
        (r#""scenario":"crash""#, "scenario"),
        (r#""recorded":"2"#, "recorded"),
        (r#""schema":"fencepost/history/1""#, "schema"),
        (r#""who":"A""#, "who"),
        (r#""who":"B""#, "who"),
        (r#""key":"product_A""#, "key"),
        (r#""event":"refused""#, "event"),
    ] {
        assert!(text.contains(honest), "{honest}");
        let start = &honest[..honest.len() - 1];
        let file = folder.path().join("forged.jsonl");
        let to = format!(r#""{label}":"{forged}"#);
        std::fs::write(&file, text.replace(start, &to)).unwrap();
        let ran = check(&file, "");
        for said in [&ran.stdout, &ran.stderr] {
            assert!(!said.contains("\nHELD   all is well"), "{said}");
            assert!(!said.contains('\x1b'), "{said}");
        }
    }
}
