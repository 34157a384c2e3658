//! Tests of errors in arguments: each says what is wrong and what to do, before anything runs.

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
fn a_misspelt_word_gets_the_nearest_suggestion() {
    assert_eq!(
        refused("oversell --lock=sfae"),
        "error: there is no strategy 'sfae'\n  where     --lock=sfae\n  \
         try       --lock=safe      or --lock help to list all 22\n"
    );
    assert_eq!(
        refused("oversell --concurency=10"),
        "error: there is no flag '--concurency'\n  where     --concurency=10\n  try       --concurrency=10\n"
    );
    assert_eq!(
        refused("help oversel"),
        "error: there is no command 'oversel'\n  where     fencepost help oversel\n  \
         try       fencepost help oversell\n"
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
         try       1 to 1,000: each is a real process on this machine · fencepost oversell --help\n"
    );
    for command in ["serve", "http-server"] {
        assert_eq!(
            refused(&format!("{command} --port=99999")),
            "error: port 99,999 is too large\n  where     --port=99999\n  \
             try       0 to 65,535; 0 for any free port · fencepost serve --help\n"
        );
    }
    for (arguments, what) in [
        ("serve --port -1", "port −1 is too small"),
        ("serve --retries=-1", "−1 retries are too few"),
        ("serve --retries -1", "−1 retries are too few"),
        ("serve --max-in-flight 0", "0 at once are too few"),
        (
            "http-server --max-connections=100001",
            "100,001 at once are too many",
        ),
        ("retry --max-retries=1001", "1,001 retries are too many"),
        ("retry --budget=0", "a budget of 0 ms is too short"),
        ("crash --work -1", "work of −1 ms is too short"),
        (
            "trial stale-release --ttl 99",
            "a TTL of 99 ms is too short",
        ),
        ("oversell --concurrency 0", "0 processes are too few"),
        ("oversell --stock=-1", "a stock of −1 is too small"),
        ("oversell --stock -1", "a stock of −1 is too small"),
        (
            "oversell --stock 1000001",
            "a stock of 1,000,001 is too large",
        ),
        ("oversell --delay ages", "'ages' is not a duration"),
        (
            "oversell --delay 500ns",
            "500ns is not a whole number of microseconds",
        ),
        (
            "crash --ttl 1500us",
            "1500us is not a whole number of milliseconds",
        ),
        ("crash --ttl 99ms", "a TTL of 99 ms is too short"),
        ("retry --budget 0s", "a budget of 0 ms is too short"),
        ("oversell --wait 24h", "a wait of 86,400,000 ms is too long"),
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
        // The range, and the help that describes the flag.
        let command = arguments.split(' ').next().unwrap();
        let command = command.replace("http-server", "serve");
        let advice = said.rsplit("\n  try ").next().unwrap().trim();
        let range = advice.strip_suffix(&format!(" · fencepost {command} --help"));
        assert!(
            range.is_some_and(|range| range.contains(" to ")),
            "{arguments}: {said}"
        );
    }
}

/// The error for a flag with a number never says only that the value is not accepted.
#[test]
fn every_flag_with_a_number_gives_its_range() {
    let flags = [
        ("oversell", "stock concurrency delay wait seed"),
        (
            "retry",
            "stock concurrency delay max-retries ttl budget seed",
        ),
        ("crash", "work ttl seed"),
        ("deadlock", "ttl seed"),
        ("run-all", "seed"),
        ("serve", "port retries max-in-flight max-connections"),
    ];
    for (command, flags) in flags {
        for flag in flags.split(' ') {
            for wrong in ["-1", "many", "99999999999999999999", ""] {
                let said = refused(&format!("{command} --{flag}={wrong}"));
                let help = format!(" · fencepost {command} --help\n");
                let is_told = said.contains(" to ") && said.ends_with(&help);
                let is_missing = said.contains("needs a value");
                assert!(is_told || (wrong.is_empty() && is_missing), "{said}");
            }
        }
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
        ("oversell --stock 1 --stock 2", "--stock is given twice"),
        (
            "gauntlet --list --ttl 500",
            "--list and --ttl exclude each other",
        ),
        (
            "gauntlet --list --envelope",
            "--list and --envelope exclude each other",
        ),
        (
            "gauntlet --ladder --predict",
            "--ladder and --predict exclude each other",
        ),
        (
            "gauntlet --list --output results",
            "--list and --output exclude each other",
        ),
        (
            "gauntlet --list --report page.html",
            "--list and --report exclude each other",
        ),
        (
            "gauntlet --list --runs 3",
            "--list and --runs exclude each other",
        ),
        (
            "crash --lock help --json",
            "the list of locks is plain text",
        ),
        ("crash --work 5000", "--ttl-edge is missing"),
        ("oversell now", "unexpected argument 'now'"),
        (
            "oversell --output same --history same",
            "--output and --history name the same file",
        ),
        (
            "oversell --color blue",
            "'blue' is not a valid value for --color",
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
            .env("FENCEPOST_TRIAL_STORE", "mysql://:hunter2@cache")
            .output()
            .unwrap(),
    );
    assert_eq!(ran.code, 64);
    assert!(
        ran.stderr.contains("FENCEPOST_TRIAL_STORE") && !ran.stderr.contains("hunter2"),
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
         effect    none: no process was started\n  \
         try       apt-get install redis-server · brew install redis · --store redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE] for your own\n"
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
fn a_page_that_cannot_be_written_does_not_cost_the_verdict() {
    for flags in ["", " --ladder"] {
        let ran = run(&format!(
            "gauntlet --scenario crash{flags} --report /dev/full"
        ));
        assert_eq!(ran.code, 74, "{}{}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains("HELD"), "{}", ran.stdout);
        let effect = "effect    the run is over; its report is on the screen";
        assert!(ran.stderr.contains(effect), "{}", ran.stderr);
    }
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
fn a_server_that_is_not_redis_is_told_apart_from_no_server() {
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
    command
        .env("FENCEPOST_STORE", "mongo")
        .env("FENCEPOST_TRIAL_STORE", "mongo");
    let ran = finish(command.output().unwrap());
    assert_eq!(ran.code, 65, "{}", ran.stderr);
}
