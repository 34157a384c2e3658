//! Tests of external locks in folders with a manifest, and of the pages that show them.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::{Ran, fencepost, finish};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs the program at the root of the repository, as the documentation does.
fn tried(arguments: &str) -> Ran {
    finish(fencepost(arguments).current_dir(root()).output().unwrap())
}

/// Returns whether a language is installed. Says so if it is not, or fails if nothing may be skipped.
fn has(program: &str, package: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        let reason = format!("skipped: no {program} (apt-get install {package})");
        assert!(std::env::var_os("FENCEPOST_NO_SKIP").is_none(), "{reason}");
        println!("{reason}");
    }
    found
}

/// A command on a page with the verdict that its comment promises, such as `fencepost crash --lock=… # HELD: …`.
fn promises(page: &str, lock: &str) -> Vec<(String, i32)> {
    let text = std::fs::read_to_string(root().join("docs").join(page)).unwrap();
    let flag = format!("--lock=subjects/{lock} ");
    let lines = text.lines().filter(|line| line.contains(&flag));
    let promise = |line: &str| {
        let (command, comment) = line.strip_prefix("fencepost ")?.split_once(" # ")?;
        let verdict = comment.split(':').next()?;
        let code = ["HELD", "BROKEN", "INCONCLUSIVE", "STUCK"]
            .iter()
            .position(|known| *known == verdict)?;
        Some((command.trim().to_owned(), code as i32))
    };
    lines.filter_map(promise).collect()
}

/// Runs the commands that a page shows for a lock.
fn keeps_the_promises_of(page: &str, lock: &str, at_least: usize) {
    let promises = promises(page, lock);
    assert!(promises.len() >= at_least, "{page}: {promises:?}");
    for (command, code) in promises {
        let ran = tried(&command);
        assert_eq!(ran.code, code, "{command}\n{}{}", ran.stdout, ran.stderr);
    }
}

#[test]
fn the_locks_in_python_fare_as_the_pages_say() {
    if has("python3", "python3") {
        keeps_the_promises_of("lab.md", "lease", 3);
        keeps_the_promises_of("your-lock-on-trial.md", "lease", 4);
        keeps_the_promises_of("your-lock-on-trial.md", "flock", 5);
    }
}

#[test]
fn the_lock_in_node_fares_as_the_page_says() {
    if has("node", "nodejs") {
        keeps_the_promises_of("your-lock-on-trial.md", "lease-node", 5);
    }
}

#[test]
fn the_lock_in_shell_fares_as_the_page_says() {
    keeps_the_promises_of("your-lock-on-trial.md", "lease-shell", 5);
}

/// Writes a manifest and its program, a shell script.
fn write_lock(folder: &Path, program: &str, more: &str) {
    let manifest = format!(
        "name = \"my lock\"\nversion = \"2.1\"\nlanguage = \"shell\"\nstart = [\"sh\", \"lock.sh\"]\nstores = [\"sqlite\"]\n\
         [kind]\nhold = \"lease\"\nfenced = true\n{more}"
    );
    std::fs::write(folder.join("subject.toml"), manifest).unwrap();
    std::fs::write(folder.join("lock.sh"), program).unwrap();
}

/// A program that gets ready and does nothing else.
const READY: &str = r#"read init; echo '{"type":"init_ok"}'; read more"#;

fn with_lock(arguments: &str, folder: &Path) -> Ran {
    let flag = format!("--lock={}", folder.display());
    finish(fencepost(arguments).arg(flag).output().unwrap())
}

const FENCING: &str =
    "[claims.fencing]\nwhere = { quote = \"It counts.\", place = \"README.md\" }\n";

#[test]
fn a_program_that_claims_something_else_than_its_manifest_is_not_tried() {
    let folder = tempfile::tempdir().unwrap();
    let claims = r#""claims":{"keep_alive":true,"recovery_ms":70}"#;
    let program = format!("read init; echo '{{\"type\":\"init_ok\",{claims}}}'; read more");
    write_lock(folder.path(), &program, FENCING);
    let ran = with_lock("crash", folder.path());
    assert_eq!((ran.code, ran.stdout.as_str()), (76, ""), "{}", ran.stderr);
    let expected = format!(
        "error: my lock 2.1 makes other claims than its manifest\n\
         \x20 where     --lock={}\n\
         \x20 claim     fencing: true in the manifest (\"It counts.\", README.md), false in init_ok\n\
         \x20           keep_alive: false in the manifest, true in init_ok\n\
         \x20           recovery_ms: false in the manifest, 70 in init_ok\n\
         \x20 effect    none: the trial had not begun\n",
        folder.path().display()
    );
    assert!(ran.stderr.starts_with(&expected), "{}", ran.stderr);
}

/// Says nothing about its claims before the trial, and something else in it.
const FICKLE: &str = r#"read init
    case $init in
        *'"id":"rehearsal"'*) echo '{"type":"init_ok"}' ;;
        *) echo '{"type":"init_ok","claims":{"untimed":true}}' ;;
    esac
    read more"#;

#[test]
fn the_claims_of_the_manifest_count_whatever_the_program_says_in_the_trial() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("run.jsonl");
    let arguments = format!("crash --ttl 200 --history {}", history.display());
    for (program, claims, fencing) in [
        (READY, FENCING, true),
        (READY, "", false),
        (FICKLE, FENCING, true),
    ] {
        write_lock(folder.path(), program, claims);
        with_lock(&arguments, folder.path());
        let text = std::fs::read_to_string(&history).unwrap();
        let header: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        let said = &header["holds"]["claims"];
        assert_eq!(said["fencing"], fencing, "{header:#}");
        assert_eq!(said["untimed"], false, "{header:#}");
        assert_eq!(header["strategy"], "my lock 2.1");
    }
}

#[test]
fn a_store_that_the_lock_does_not_support_is_refused_with_those_that_it_does() {
    let folder = tempfile::tempdir().unwrap();
    write_lock(folder.path(), READY, "");
    for command in [
        "crash --store redis://127.0.0.1:1",
        "trial failover --store redis",
    ] {
        let ran = with_lock(command, folder.path());
        // Without the check, the store would not be reached (69), or the trial would take place.
        assert_eq!(ran.code, 64, "{command}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("my lock 2.1 does not support Redis"),
            "{}",
            ran.stderr
        );
        assert!(
            ran.stderr
                .contains("supports  sqlite, as its subject.toml says"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn how_to_install_a_program_is_advice_and_is_not_done() {
    let folder = tempfile::tempdir().unwrap();
    let sign = folder.path().join("installed");
    write_lock(folder.path(), READY, "");
    let path = folder.path().join("subject.toml");
    let manifest = std::fs::read_to_string(&path).unwrap();
    let manifest = manifest.replace(
        "start = [\"sh\", \"lock.sh\"]",
        &format!(
            "start = [\"no-such-program\"]\ninstall = \"touch {}\"",
            sign.display()
        ),
    );
    std::fs::write(&path, manifest).unwrap();
    let ran = with_lock("crash", folder.path());
    assert_eq!(ran.code, 64, "{}", ran.stderr);
    assert!(
        ran.stderr
            .starts_with("error: cannot start 'no-such-program'\n"),
        "{}",
        ran.stderr
    );
    let advice = format!("try       touch {} ", sign.display());
    assert!(ran.stderr.contains(&advice), "{}", ran.stderr);
    assert!(!sign.exists());
}

#[test]
fn a_program_that_dies_at_its_start_may_lack_what_the_manifest_installs() {
    let folder = tempfile::tempdir().unwrap();
    write_lock(folder.path(), "echo no module >&2; exit 4", "");
    let ran = with_lock("crash", folder.path());
    assert_eq!(ran.code, 76, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("\n  said      no module\n"),
        "{}",
        ran.stderr
    );
    let advice =
        "\n  try       install shell, in which it is written; its subject.toml does not say how\n";
    assert!(ran.stderr.ends_with(advice), "{}", ran.stderr);
}

/// Returns the text without line breaks and marks of comments.
fn prose(text: &str) -> String {
    let words = text.split_whitespace();
    let words: Vec<&str> = words.filter(|word| !["//", "#"].contains(word)).collect();
    words.join(" ")
}

/// The page of etcd that a manifest quotes and that is not here to be compared.
const PAGES_OF_OTHER_PROJECTS: [&str; 1] = ["etcdctl/README.md"];

#[test]
fn what_our_manifests_quote_is_written_there() {
    let mut quoted = 0;
    for folder in std::fs::read_dir(root().join("subjects")).unwrap() {
        let folder = folder.unwrap().path();
        let manifest = std::fs::read_to_string(folder.join("subject.toml")).unwrap();
        let manifest: toml::Table = toml::from_str(&manifest).unwrap();
        let claims = manifest.get("claims").and_then(|claims| claims.as_table());
        for (name, claim) in claims.into_iter().flatten() {
            let text = |field: &str| claim["where"][field].as_str().unwrap();
            let (file, _) = text("place").split_once(',').unwrap();
            if PAGES_OF_OTHER_PROJECTS.contains(&file) {
                continue;
            }
            let source = prose(&std::fs::read_to_string(folder.join(file)).unwrap());
            assert!(source.contains(text("quote")), "{name}: {source}");
            quoted += 1;
        }
    }
    assert!(quoted >= 8, "only {quoted} quotes were found");
}

#[test]
fn a_fault_in_a_manifest_is_a_usage_error_with_file_line_and_field() {
    let folder = tempfile::tempdir().unwrap();
    write_lock(folder.path(), READY, "[claims.fencing]\n");
    let ran = with_lock("crash", folder.path());
    let file = folder.path().join("subject.toml");
    let expected = format!(
        "error: {}:9: claims.fencing: missing field `where`\n\
         \x20 where     --lock={}\n\
         \x20 try       where = {{ quote = ",
        file.display(),
        folder.path().display()
    );
    assert_eq!(ran.code, 64, "{}", ran.stderr);
    assert!(ran.stderr.starts_with(&expected), "{}", ran.stderr);
    std::fs::remove_file(&file).unwrap();
    let ran = with_lock("crash", folder.path());
    assert_eq!(ran.code, 64, "{}", ran.stderr);
    let expected = format!("error: cannot read {}: no such file", file.display());
    assert!(ran.stderr.starts_with(&expected), "{}", ran.stderr);
}

#[test]
fn the_name_and_version_stand_for_the_lock_and_its_folder_for_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let again = "fencepost deadlock --sorted --lock=subjects/lease-shell --ttl 5000 --seed 7";
    let arguments = again.trim_start_matches("fencepost ");
    let ran = tried(&format!("{arguments} --json --report {}", page.display()));
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(report["strategy"], "lease.sh 1.0.0", "{report:#}");
    assert_eq!(report["verdict"]["outcome"], "HELD", "{report:#}");
    assert_eq!(report["verdict"]["reproduce"], again);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("lease.sh 1.0.0"));
    let ran = tried(arguments);
    assert!(
        ran.stdout.contains("\n  lock lease.sh 1.0.0   TTL "),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_folder_does_not_hide_a_strategy_and_needs_no_slash() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["safe", "mine"] {
        let lock = folder.path().join(name);
        std::fs::create_dir(&lock).unwrap();
        write_lock(&lock, READY, "name_of_nothing = 1\n");
    }
    let in_folder = |lock: &str| {
        let mut command = fencepost("deadlock --sorted --ttl 5000 --lock");
        finish(command.arg(lock).current_dir(&folder).output().unwrap())
    };
    let ours = in_folder("safe");
    assert_eq!(ours.code, 0, "{}", ours.stderr);
    let mine = in_folder("mine");
    assert!(
        mine.stderr
            .contains("mine/subject.toml:9: kind.name_of_nothing: unknown field"),
        "{}",
        mine.stderr
    );
}
