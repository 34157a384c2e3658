//! Tests of `check`, which judges a saved history again and draws it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

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
exclusion, fences grow, recovery – n/a a sale claims no hold

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

/// Returns a history of an earlier version.
fn earlier(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trial/tests/histories");
    folder.join(name).with_extension("jsonl")
}

/// Returns the data of a page, as its script reads it.
fn data(page: &Path) -> Value {
    let page = fs::read_to_string(page).unwrap();
    let start = r#"<script type="application/json" id="data">"#;
    let (_, rest) = page.split_once(start).unwrap();
    let (data, _) = rest.split_once("</script>").unwrap();
    serde_json::from_str(data).unwrap()
}

#[test]
fn a_saved_history_of_any_kind_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let (page, trace) = (
        folder.path().join("page.html"),
        folder.path().join("trace.json"),
    );
    for (name, runs, title) in [
        ("ttl-edge-broken", 1, "ttl-edge: work beyond the lease"),
        ("crash-stuck", 1, "crash: the holder is killed"),
        (
            "failover",
            1,
            "failover: a replica takes over without the lock",
        ),
        ("short-stock", 1, "short-stock: nothing left to sell"),
        ("sale-broken", 1, "oversell: "),
        ("retry", 4, "retry: "),
    ] {
        let mut command = fencepost("check --json");
        command.arg(earlier(name));
        command
            .arg("--report")
            .arg(&page)
            .arg("--trace")
            .arg(&trace);
        let ran = finish(command.output().unwrap());
        let again = check(&earlier(name), "--json");
        assert_eq!((ran.code, &*ran.stderr), (again.code, ""), "{name}");
        assert_eq!(ran.stdout, again.stdout, "{name}");

        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        let data = data(&page);
        assert!(data["title"].as_str().unwrap().starts_with(title), "{data}");
        assert_eq!(data["command"], report["verdict"]["reproduce"], "{name}");
        let drawn = data["runs"].as_array().unwrap();
        assert_eq!(drawn.len(), runs, "{name}");
        if runs == 1 {
            // A page has a minus sign where JSON has a hyphen.
            let because = drawn[0]["because"].as_str().unwrap().replace('−', "-");
            assert_eq!(report["verdict"]["because"], because, "{name}");
            assert_eq!(drawn[0]["outcome"], report["verdict"]["outcome"], "{name}");
        } else {
            assert_eq!(data["retry"]["rows"].as_array().unwrap().len(), runs);
        }

        let trace: Value = serde_json::from_slice(&fs::read(&trace).unwrap()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap().iter();
        let names = events.filter(|event| event["name"] == "process_name");
        assert_eq!(names.count(), runs, "{name}");
    }
}

#[test]
fn a_run_and_its_history_are_drawn_alike() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for arguments in [
        "crash --ttl-edge --ttl 300 --work 500",
        "oversell --lock=safe --concurrency=5 --delay=20000 --wait 60000",
        "retry --concurrency=3 --stock=3 --budget 8000",
    ] {
        let mut command = fencepost(arguments);
        command.args(["-q", "--seed", "7", "--history"]);
        command.arg(at("run.jsonl")).arg("--report").arg(at("live"));
        finish(command.output().unwrap());
        let mut command = fencepost("check -q");
        command
            .arg(at("run.jsonl"))
            .arg("--report")
            .arg(at("saved"));
        finish(command.output().unwrap());
        let (live, saved) = (
            fs::read(at("live")).unwrap(),
            fs::read(at("saved")).unwrap(),
        );
        assert!(live == saved, "{arguments}");
    }
}

#[test]
fn drawings_are_refused_before_the_history_is_judged() {
    let history = earlier("crash-held");
    let ran = check(&history, "--report nowhere/page.html");
    assert_eq!((ran.code, ran.stdout.as_str()), (73, ""));
    let place = "--report nowhere/page.html: no such directory (nowhere)";
    assert!(ran.stderr.contains(place), "{}", ran.stderr);

    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("run.jsonl");
    fs::copy(&history, &copy).unwrap();
    let ran = finish(
        fencepost("check run.jsonl --trace run.jsonl")
            .current_dir(folder.path())
            .output()
            .unwrap(),
    );
    assert_eq!(ran.code, 64);
    let same = "check and --trace name the same file";
    assert!(ran.stderr.contains(same), "{}", ran.stderr);
    assert_eq!(fs::read(&copy).unwrap(), fs::read(&history).unwrap());

    // What is no history leaves no page behind, and a page that was there as it was.
    let (page, notes) = (folder.path().join("page.html"), folder.path().join("notes"));
    fs::write(&notes, "buy milk\n").unwrap();
    for before in [None, Some("a page")] {
        if let Some(text) = before {
            fs::write(&page, text).unwrap();
        }
        let mut command = fencepost("check");
        command.arg(&notes).arg("--report").arg(&page);
        assert_eq!(finish(command.output().unwrap()).code, 65);
        assert_eq!(fs::read_to_string(&page).ok().as_deref(), before);
    }
}
