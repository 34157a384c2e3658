//! What is wrong is said plainly, with what to do, before anything runs.

use crate::{fencepost, finish, run};

fn refused(arguments: &str) -> String {
    let ran = run(arguments);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (64, ""),
        "{arguments}: {}",
        ran.stderr
    );
    ran.stderr
}

#[test]
fn a_misspelt_word_meets_its_neighbour() {
    assert_eq!(
        refused("oversell --lock=sfae"),
        "error: there is no strategy 'sfae'\n  where     --lock=sfae\n  \
         try       --lock=safe      or --lock help for all 22, a line each\n"
    );
    assert_eq!(
        refused("oversell --concurency=10"),
        "error: there is no flag '--concurency'\n  where     --concurency=10\n  try       --concurrency=10\n"
    );
    assert_eq!(
        refused("oversel"),
        "error: there is no command 'oversel'\n  where     fencepost oversel\n  try       fencepost oversell\n"
    );
}

#[test]
fn a_number_out_of_range_gets_the_range() {
    assert_eq!(
        refused("oversell --concurrency=100000"),
        "error: 100,000 processes are too many\n  where     --concurrency=100000\n  \
         try       1 to 1,000: each is a real process on this machine\n"
    );
    for (arguments, what) in [
        ("oversell --concurrency 0", "0 processes are too few"),
        ("oversell --stock=-1", "a stock of −1 is too small"),
        ("oversell --stock -1", "a stock of −1 is too small"),
        (
            "oversell --stock 1000001",
            "a stock of 1,000,001 is too large",
        ),
        ("oversell --delay ages", "'ages' is not a whole number"),
        (
            "oversell --wait 86400000",
            "a wait of 86,400,000 ms is too long",
        ),
        ("run-all --seed -5", "a seed of −5 is too small"),
    ] {
        let said = refused(arguments);
        assert!(
            said.starts_with(&format!("error: {what}\n")),
            "{arguments}: {said}"
        );
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    for (arguments, what) in [
        ("oversell --stock", "--stock needs a value"),
        ("oversell --json=yes", "--json takes no value"),
        (
            "oversell --all --lock=safe",
            "--all and --lock exclude each other",
        ),
        (
            "oversell --all --history h.jsonl",
            "--all and --history exclude each other",
        ),
        ("oversell --stock 1 --stock 2", "--stock stands there twice"),
        ("oversell now", "'now' is a word too many"),
        (
            "oversell --output same --history same",
            "--output and --history name the same file",
        ),
        (
            "oversell --color blue",
            "there is no such use of colour: 'blue'",
        ),
    ] {
        let said = refused(arguments);
        assert!(
            said.starts_with(&format!("error: {what}\n")),
            "{arguments}: {said}"
        );
    }
}

#[test]
fn a_store_that_is_not_there_is_named_without_its_password() {
    let said = refused("oversell --store mysql://shop:hunter2@cache");
    assert!(
        said.contains("there is no store 'mysql://shop:***@cache' in this version"),
        "{said}"
    );
    assert!(
        said.contains("--store sqlite") && !said.contains("hunter2"),
        "{said}"
    );
    let ran = finish(
        fencepost("run-all")
            .env("FENCEPOST_STORE", "mysql://:hunter2@cache")
            .output()
            .unwrap(),
    );
    assert_eq!(ran.code, 64);
    assert!(
        ran.stderr.contains("FENCEPOST_STORE") && !ran.stderr.contains("hunter2"),
        "{}",
        ran.stderr
    );
    for misplaced in [
        "oversell redis://shop:hunter2@cache",
        "redis://shop:hunter2@cache",
    ] {
        assert!(!refused(misplaced).contains("hunter2"), "{misplaced}");
    }
}

#[test]
fn a_server_that_does_not_answer_is_named_without_its_password() {
    let ran = run("oversell --store redis://shop:hunter2@127.0.0.1:1");
    assert_eq!((ran.code, ran.stdout.as_str()), (69, ""));
    let said = "error: cannot reach the store\n  where     redis://shop:***@127.0.0.1:1: connection refused, tried for ";
    assert!(ran.stderr.starts_with(said), "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains("\n  effect    none: no process was started\n")
    );
    let nowhere = fencepost("oversell --store redis")
        .env("PATH", "/nowhere")
        .output();
    let ran = finish(nowhere.unwrap());
    assert_eq!(ran.code, 69);
    assert_eq!(
        ran.stderr,
        "error: --store redis starts a private redis-server, and none is installed\n  \
         where     no redis-server or valkey-server in PATH\n  \
         try       apt-get install redis-server · brew install redis · --store redis://HOST for your own\n"
    );
}

#[test]
fn files_are_tried_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    for flag in ["--output", "--history"] {
        let mut command = fencepost("oversell");
        let ran = finish(
            command
                .current_dir(folder.path())
                .args([flag, "results/x"])
                .output()
                .unwrap(),
        );
        assert_eq!(ran.code, 73);
        assert_eq!(
            ran.stderr,
            format!(
                "error: cannot write the results\n  where     {flag} results/x: no such directory (results)\n  \
                 effect    none: checked before the run\n  try       mkdir -p results\n"
            )
        );
        assert!(ran.stdout.is_empty());
    }
    let file = folder.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    let ran = finish(fencepost("run-all --output").arg(&file).output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (73, ""));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn a_full_disk_is_told() {
    let history = run("oversell --concurrency 2 --history /dev/full");
    assert_eq!(history.code, 74);
    assert!(
        history
            .stderr
            .contains("--history /dev/full: no space left on device"),
        "{}",
        history.stderr
    );
    assert!(
        history.stderr.contains("  effect    none"),
        "{}",
        history.stderr
    );
    let output = run("oversell --concurrency 2 --output /dev/full");
    assert_eq!(output.code, 74, "{}", output.stderr);
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let screen = fencepost("oversell --concurrency 2")
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(screen.status.code(), Some(74));
}

#[test]
fn help_names_only_what_there_is() {
    let map = run("");
    assert_eq!(map.code, 0);
    for command in ["retry", "serve", "doctor", "exec", "locks list"] {
        for text in [
            &map.stdout,
            &run("--help").stdout,
            &run("oversell --help").stdout,
        ] {
            assert!(
                !text.contains(&format!("fencepost {command}")),
                "{command}: {text}"
            );
        }
    }
    assert_eq!(run("--help").stdout, run("help").stdout);
    assert!(
        run("oversell --lock help")
            .stdout
            .contains("\n  safe             owner's token")
    );
    assert_eq!(
        run("--version").stdout,
        format!("fencepost {}\n", env!("CARGO_PKG_VERSION"))
    );
    let help = run("oversell --help").stdout;
    assert!(
        help.contains("--report FILE.html") && help.contains("--trace FILE"),
        "{help}"
    );
}

#[test]
fn a_word_that_is_no_trial_is_shown_where_it_stands() {
    let ran = run("trial stale-releas");
    assert_eq!(ran.code, 64);
    assert_eq!(
        ran.stderr,
        "error: there is no trial 'stale-releas'\n\
         \x20 where     fencepost trial stale-releas\n\
         \x20 try       fencepost trial stale-release\n"
    );
}

#[test]
fn errors_follow_the_wishes_for_colour_and_glyphs() {
    let ran = run("oversell --store mysql --ascii");
    assert!(ran.stderr.is_ascii(), "{}", ran.stderr);
    let ran = run("oversell --store mysql --color always");
    assert!(
        ran.stderr.starts_with("\x1b[1;31merror:\x1b[0m "),
        "{}",
        ran.stderr
    );
}

#[test]
fn one_file_has_one_result_whatever_it_is_called() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = fencepost("oversell --output a.json --report ./a.json");
    let ran = finish(command.current_dir(folder.path()).output().unwrap());
    assert_eq!(ran.code, 64, "{}", ran.stdout);
    assert!(
        ran.stderr
            .starts_with("error: --output and --report name the same file\n")
    );
}

#[test]
fn whoever_is_not_redis_is_told_apart_from_nobody() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in server.incoming() {
            let _ = std::io::Write::write_all(
                &mut client.unwrap(),
                b"HTTP/1.1 400 Bad Request\r\n\r\n",
            );
        }
    });
    let ran = run(&format!("crash --store redis://127.0.0.1:{port}"));
    assert_eq!(ran.code, 69);
    let place = format!("  where     redis://127.0.0.1:{port}: answers, but not as Redis does\n");
    assert!(
        ran.stderr
            .starts_with("error: this is not a Redis server\n"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains(&place), "{}", ran.stderr);
}

#[test]
fn judging_again_asks_for_no_store() {
    let mut command = fencepost("check nowhere.jsonl");
    let ran = finish(command.env("FENCEPOST_STORE", "mongo").output().unwrap());
    assert_eq!(ran.code, 65, "{}", ran.stderr);
}
