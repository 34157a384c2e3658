//! Tests of the exit codes and messages of `exec`, for every kind of failure.

use std::os::unix::fs::PermissionsExt;

use crate::stage::{Play, Stage, is_running, shape, until};

fn says(stage: &Stage, arguments: &[&str]) -> (i32, String) {
    let ran = stage.run(arguments);
    assert_eq!(ran.stdout, "");
    (ran.code(), shape(&ran.stderr, &stage.path("")))
}

#[test]
fn the_commands_own_code_and_words_pass_unchanged() {
    let stage = Stage::new();
    let script = "echo \"$FENCEPOST_NAME $FENCEPOST_FENCE\"; echo careful >&2; cat; exit 3";
    let ran = stage.shell("--name deploy", script).end();
    assert_eq!((ran.code(), ran.stderr.as_str()), (3, "careful\n"));
    let (name, fence) = ran.stdout.trim().split_once(' ').unwrap();
    assert_eq!(name, "deploy");
    let first: fencepost::Fence = fence.parse().unwrap();
    let again = stage.shell("--name deploy", "echo $FENCEPOST_FENCE").end();
    let second: fencepost::Fence = again.stdout.trim().parse().unwrap();
    assert!(second > first, "each run has a larger fence");
}

#[test]
fn a_command_ended_by_a_signal_is_told_as_shells_do() {
    let stage = Stage::new();
    let ran = stage.shell("--name deploy", "kill -KILL $$").end();
    assert_eq!((ran.code(), ran.stderr.as_str()), (137, ""));
}

#[test]
fn a_command_that_ends_at_once_gives_the_lock_back() {
    let stage = Stage::new();
    for _ in 0..20 {
        let ran = stage.run(&["exec", "--name", "quick", "--", "true"]);
        assert_eq!((ran.code(), ran.stderr.as_str()), (0, ""));
    }
    let listed = stage.run(&["locks", "list"]);
    assert!(
        listed.stdout.starts_with("no locks in "),
        "{}",
        listed.stdout
    );
}

#[test]
fn what_a_command_leaves_running_goes_on() {
    let stage = Stage::new();
    let ran = stage
        .shell("--name deploy", "sleep 1000 >/dev/null 2>&1 & echo $!")
        .end();
    let daemon: i32 = ran.stdout.trim().parse().unwrap();
    assert_eq!(ran.code(), 0);
    assert!(is_running(daemon), "a daemon that was started on purpose");
    crate::stage::signal(daemon, nix::sys::signal::Signal::SIGKILL);
}

#[test]
fn what_is_not_there_or_cannot_run_is_told_as_shells_do() {
    let stage = Stage::new();
    let script = |name: &str, text: &str, mode: u32| {
        std::fs::write(stage.path(name), text).unwrap();
        std::fs::set_permissions(stage.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    script("plain.txt", "echo hello\n", 0o644);
    script("lame.sh", "#!/no/such/interpreter\n", 0o755);
    script("bare", "echo hello; exit 5\n", 0o755);
    let run = |program: &str| says(&stage, &["exec", "--name", "a", "--", program]);
    let expected = [
        ("./nothing", 127, "there is no such file"),
        ("./plain.txt/x", 127, "there is no such file"),
        (
            "no-such-program",
            127,
            "no folder in PATH contains a program of this name",
        ),
        (
            "./plain.txt",
            126,
            "permission denied. If it is a program: chmod +x ./plain.txt",
        ),
        (
            "./lame.sh",
            126,
            "the interpreter named in its first line does not exist",
        ),
    ];
    for (program, code, why) in expected {
        let line = format!("fencepost: {program} was not started: {why}\n");
        assert_eq!(run(program), (code, line));
    }
    assert_eq!(run("/").0, 126);
    let ran = stage.run(&["exec", "--name", "a", "--", "./bare"]);
    assert_eq!(
        (ran.code(), ran.stdout.as_str()),
        (5, "hello\n"),
        "no first line: a shell's"
    );
    let listed = stage.run(&["locks", "list"]);
    assert!(listed.stdout.starts_with("no locks"), "{}", listed.stdout);
}

#[test]
fn a_lock_that_is_held_is_busy_and_the_command_not_started() {
    let stage = Stage::new();
    let holder = stage.shell("--name deploy --ttl 60s", "echo > held; sleep 1000");
    stage.until_lines("held", 1);
    let busy = says(
        &stage,
        &["exec", "--name", "deploy", "--", "touch", "started"],
    );
    let expected = "fencepost: deploy is held by HOST, process N, for N s (lease N s left)\n\
         fencepost: touch was not started. To queue: --wait Nm. To look: fencepost locks show deploy\n";
    assert_eq!(busy, (75, expected.to_owned()));
    assert!(!stage.path("started").exists());
    drop(holder);
    stage.until_empty();
}

#[test]
fn who_waits_in_vain_leaves_the_line() {
    let stage = Stage::new();
    let _holder = stage.shell("--name deploy --ttl 60s", "echo > held; sleep 1000");
    stage.until_lines("held", 1);
    let waited = says(
        &stage,
        &[
            "exec", "--name", "deploy", "--wait", "1200ms", "--", "touch", "started",
        ],
    );
    let expected = "fencepost: waiting for deploy, held by HOST, process N, for N s; next in line\n\
         fencepost: touch was not started: deploy was not free within N s\n";
    assert_eq!(waited, (124, expected.to_owned()));
    assert_eq!(stage.waiting("deploy"), 0);
    let quiet = says(
        &stage,
        &[
            "exec", "-q", "--name", "deploy", "--wait", "1200ms", "--", "true",
        ],
    );
    assert_eq!(quiet.1.lines().count(), 1);
    assert!(!stage.path("started").exists());
}

#[test]
fn who_waits_long_enough_is_served_in_order() {
    let stage = Stage::new();
    let holder = stage.shell(
        "--name deploy --ttl 60s",
        "echo > held; while [ ! -e go ]; do sleep 0.02; done",
    );
    stage.until_lines("held", 1);
    let mut waiting = Vec::new();
    for number in 0..4 {
        waiting.push(stage.shell(
            "--name deploy --wait 60s",
            &format!("echo {number} >> order"),
        ));
        until("it stands in line", || {
            stage.waiting("deploy") == number + 1
        });
    }
    // After a second, each says how many are ahead of it.
    let said: Vec<String> = waiting.iter_mut().map(Play::next_line).collect();
    std::fs::write(stage.path("go"), "").unwrap();
    assert_eq!(holder.end().code(), 0);
    for play in waiting {
        let ran = play.end();
        assert_eq!((ran.code(), &*ran.stderr), (0, ""));
    }
    assert_eq!(stage.read("order"), "0\n1\n2\n3\n");
    assert!(said[0].ends_with("; next in line\n"), "{}", said[0]);
    assert!(said[3].ends_with("; 3 are ahead\n"), "{}", said[3]);
}

#[test]
fn names_with_spaces_slashes_and_quotes_are_names() {
    let stage = Stage::new();
    for name in ["a b", "../../etc/passwd", "it's", "--odd", "ключ 锁"] {
        let flag = format!("--name={name}");
        let ran = stage.run(&["exec", &flag, "--", "printenv", "FENCEPOST_NAME"]);
        assert_eq!((ran.code(), ran.stdout), (0, format!("{name}\n")));
    }
    let _holder = stage.start(&[
        "exec",
        "--name",
        "it's a",
        "--",
        "sh",
        "-c",
        "echo > held; sleep 1000",
    ]);
    stage.until_lines("held", 1);
    let busy = stage.run(&["exec", "--name", "it's a", "--", "true"]);
    let advice = r"To look: fencepost locks show 'it'\''s a'";
    assert!(busy.stderr.contains(advice), "{}", busy.stderr);
}

#[test]
fn a_store_that_cannot_be_used_is_told_and_nothing_is_started() {
    let stage = Stage::new();
    std::fs::write(
        stage.path("text.db"),
        "not a database, but long enough to be looked at as one".repeat(20),
    )
    .unwrap();
    let cases = [
        ("sqlite:/no/such/folder/locks.db", "/no/such/folder"),
        ("sqlite:text.db", "text.db"),
        (
            "redis://shop:hunter2@127.0.0.1:1",
            "redis://shop:***@127.0.0.1:1",
        ),
    ];
    for (store, place) in cases {
        let ran = stage.run(&[
            "exec", "--name", "a", "--store", store, "--", "touch", "started",
        ]);
        assert_eq!(
            (ran.code(), ran.stdout.as_str()),
            (69, ""),
            "{}",
            ran.stderr
        );
        let lines: Vec<&str> = ran.stderr.lines().collect();
        assert!(
            lines[0].starts_with("fencepost: cannot use the store ") && lines[0].contains(place),
            "{lines:?}"
        );
        assert_eq!(lines[1], "fencepost: touch was not started");
        assert!(!ran.stderr.contains("hunter2"));
    }
    assert!(!stage.path("started").exists());
}

#[test]
fn a_command_line_that_makes_no_sense_starts_nothing() {
    let stage = Stage::new();
    let cases: [(&[&str], &str); 9] = [
        (&["--", "true"], "a lock's name is missing"),
        (&["--name", "a"], "a command to run is missing"),
        (&["--name", "a", "--"], "a command to run is missing"),
        (
            &["--name", "", "--", "true"],
            "the name of a lock must not be empty",
        ),
        (
            &["--name", "a", "--wait", "30", "--", "true"],
            "'30' is not a duration",
        ),
        (
            &["--name", "a", "--ttl", "100ms", "--", "true"],
            "a TTL of 100ms is too short",
        ),
        (
            &["--name", "a", "--ttl", "2d", "--", "true"],
            "a TTL of 2days is too long",
        ),
        (
            &["--name", "a", "--grace", "5s", "--", "true"],
            "a grace of 5s is too long for a TTL of 10.0 s",
        ),
        (
            &["--name", "a", "--store", "redis", "--", "true"],
            "--store redis would start a private server",
        ),
    ];
    for (arguments, what) in cases {
        let all: Vec<&str> = std::iter::once(&"exec").chain(arguments).copied().collect();
        let ran = stage.run(&all);
        assert_eq!(
            (ran.code(), ran.stdout.as_str()),
            (64, ""),
            "{}",
            ran.stderr
        );
        assert!(
            ran.stderr.starts_with(&format!("error: {what}")),
            "{}",
            ran.stderr
        );
        assert!(ran.stderr.contains("\n  try       "), "{}", ran.stderr);
    }
    assert!(!stage.path("locks.db").exists());
}

#[test]
fn flags_after_the_two_dashes_belong_to_the_command() {
    let stage = Stage::new();
    let ran = stage.run(&[
        "exec", "--name", "a", "--", "echo", "-h", "--help", "--", "--name",
    ]);
    assert_eq!(ran.stdout, "-h --help -- --name\n");
}
