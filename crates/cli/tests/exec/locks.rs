//! Tests of `fencepost locks`: its listing, forced releases, and confirmation.

use crate::stage::{Play, Stage, shape, until};

fn holder(stage: &Stage, name: &str) -> Play {
    let held = format!("held-{}", name.len());
    let script = format!("echo > {held}; sleep 1000");
    let play = stage.start(&[
        "exec", "--name", name, "--ttl", "60s", "--", "sh", "-c", &script,
    ]);
    stage.until_lines(&held, 1);
    play
}

fn waiter(stage: &Stage, name: &str, place: usize) -> Play {
    let play = stage.start(&["exec", "-q", "--name", name, "--wait", "60s", "--", "true"]);
    until("it stands in line", || stage.waiting(name) == place);
    play
}

pub(crate) fn words(stage: &Stage, text: &str) -> String {
    let text = shape(text, &stage.path(""));
    let lines = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_list_has_a_line_for_each_lock() {
    let stage = Stage::new();
    let empty = stage.run(&["locks", "list"]);
    assert_eq!(
        (empty.code(), words(&stage, &empty.stdout)),
        (0, "no locks in locks.db".into())
    );
    assert!(!stage.path("locks.db").exists(), "looking makes no file");
    let _holders = [holder(&stage, "deploy"), holder(&stage, "lock:product:42")];
    let _waiters = [waiter(&stage, "deploy", 1), waiter(&stage, "deploy", 2)];
    let listed = stage.run(&["locks", "list"]);
    assert_eq!((listed.code(), listed.stderr.as_str()), (0, ""));
    let expected = "name holder held for TTL left waiting fence kind\n\
         deploy HOST:N N s N s N N line\n\
         lock:product:N HOST:N N s N s N N line\n\
         N locks";
    assert_eq!(words(&stage, &listed.stdout), expected);
    let columns: Vec<usize> = listed
        .stdout
        .lines()
        .take(3)
        .filter_map(|line| line.find("line").or(line.find("kind")))
        .collect();
    assert_eq!(columns.len(), 3);
    assert!(
        columns.iter().all(|column| *column == columns[0]),
        "{}",
        listed.stdout
    );
    let some = stage.run(&["locks", "list", "-q", "lock:*"]);
    assert_eq!(
        words(&stage, &some.stdout),
        "lock:product:N HOST:N N s N s N N line"
    );
    let none = stage.run(&["locks", "list", "x*"]);
    assert_eq!(
        words(&stage, &none.stdout),
        "no locks like 'x*' in locks.db"
    );
}

#[test]
fn one_lock_is_shown_with_its_lease_and_its_line() {
    let stage = Stage::new();
    let _holder = holder(&stage, "de ploy");
    let _waiters = [waiter(&stage, "de ploy", 1), waiter(&stage, "de ploy", 2)];
    let shown = stage.run(&["locks", "show", "de ploy"]);
    let expected = "de ploy held by HOST, process N, for N s, since N:N:N UTC\n\
         lease N s left of N s, not renewed yet; fence N\n\
         waiting N HOST:N N s\n\
         N HOST:N N s\n\
         release fencepost locks release 'de ploy'\n\
         HOST:N gets it next; HOST:N notices later and may still be working: stop it there first";
    assert_eq!(
        (shown.code(), words(&stage, &shown.stdout)),
        (0, expected.to_owned())
    );
    let free = stage.run(&["locks", "show", "other"]);
    assert_eq!(
        (free.code(), free.stdout.as_str()),
        (1, "other   free: nobody holds it, nobody waits\n")
    );
}

#[test]
fn json_says_the_same_in_one_document() {
    let stage = Stage::new();
    let play = holder(&stage, "deploy");
    let _waiter = waiter(&stage, "deploy", 1);
    let json = |arguments: &[&str]| -> serde_json::Value {
        let ran = stage.run(arguments);
        assert_eq!(ran.stdout.lines().count(), 1);
        serde_json::from_str(&ran.stdout).unwrap()
    };
    let shown = json(&["locks", "show", "deploy", "--json"]);
    let holder = &shown["lock"]["holder"];
    assert_eq!(holder["process"], play.pid());
    assert_eq!(holder["ttl_ms"], 60_000.0);
    assert!(holder["ttl_left_ms"].as_f64().unwrap() > 30_000.0);
    assert!(
        holder["fence"]
            .as_str()
            .unwrap()
            .parse::<fencepost::Fence>()
            .is_ok()
    );
    assert!(shown["lock"]["waiting"][0]["waited_ms"].as_f64().is_some());
    let listed = json(&["locks", "list", "--json"]);
    assert_eq!(listed["locks"][0]["name"], "deploy");
    assert_eq!(listed["locks"][0]["kind"], "line");
    assert_eq!(
        json(&["locks", "show", "other", "--json"])["lock"],
        serde_json::Value::Null
    );
    let released = json(&["locks", "release", "deploy", "--yes", "--json"]);
    assert_eq!(released["released"], true);
    assert_eq!(released["before"]["holder"]["process"], play.pid());
}

#[test]
fn a_release_needs_somebody_who_agrees() {
    let stage = Stage::new();
    let _holder = holder(&stage, "deploy");
    let refused = stage.run(&["locks", "release", "deploy"]);
    let expected = "error: cannot ask for confirmation\n  \
         where     standard input is not a terminal\n  \
         effect    none: the lock is held as before\n  \
         try       fencepost locks release deploy --yes\n";
    assert_eq!((refused.code(), refused.stderr.as_str()), (64, expected));
    assert_eq!(stage.run(&["locks", "show", "deploy"]).code(), 0);
    let done = stage.run(&["locks", "release", "deploy", "--yes"]);
    let expected = "deploy released: HOST, process N, notices at its next renewal, within N s, and may still be working";
    assert_eq!(
        (done.code(), words(&stage, &done.stdout)),
        (0, expected.to_owned())
    );
    let again = stage.run(&["locks", "release", "deploy", "--yes"]);
    assert_eq!(
        (again.code(), again.stdout.as_str()),
        (1, "deploy   nobody holds it\n")
    );
}

#[test]
fn a_released_lock_goes_to_the_next_in_line() {
    let stage = Stage::new();
    let _holder = holder(&stage, "deploy");
    let next = waiter(&stage, "deploy", 1);
    let done = stage.run(&["locks", "release", "deploy", "--yes"]);
    assert!(done.stdout.contains("; next is "), "{}", done.stdout);
    assert_eq!(next.end().code(), 0);
}

#[test]
fn what_is_to_be_pasted_leads_to_the_same_store() {
    let stage = Stage::new();
    let _holder = stage.shell(
        "--name deploy --store sqlite:other.db",
        "echo > held; sleep 1000",
    );
    stage.until_lines("held", 1);
    let busy = ["exec", "--name", "deploy", "--store", "sqlite:other.db"];
    let said = stage.run(&[&busy[..], &["--", "true"]].concat()).stderr;
    let command = "fencepost locks show deploy --store sqlite:other.db\n";
    assert!(said.ends_with(command), "{said}");
    let said = stage.run(&["locks", "show", "deploy", "--store", "sqlite:other.db"]);
    let command = "fencepost locks release deploy --store sqlite:other.db\n";
    assert!(said.stdout.contains(command), "{}", said.stdout);
}

#[test]
fn what_cannot_be_done_is_said_as_everywhere() {
    let stage = Stage::new();
    let cases: [(&[&str], i32, &str); 5] = [
        (&["locks"], 64, "error: a command is missing\n"),
        (
            &["locks", "lits"],
            64,
            "error: there is no command 'lits'\n",
        ),
        (
            &["locks", "show", "a\nb"],
            64,
            "error: a lock's name must not contain control characters",
        ),
        (
            &["locks", "list", "--store", "redis"],
            64,
            "error: --store redis would start a private server",
        ),
        (
            &["locks", "list", "--store", "redis://h"],
            69,
            "error: cannot use the store\n",
        ),
    ];
    for (arguments, code, what) in cases {
        let ran = stage.run(arguments);
        assert_eq!(
            (ran.code(), ran.stdout.as_str()),
            (code, ""),
            "{}",
            ran.stderr
        );
        assert!(ran.stderr.starts_with(what), "{}", ran.stderr);
    }
}

/// Earlier programs use a file of version 1, and refuse it once it is of version 2.
#[test]
fn looking_leaves_a_file_of_an_earlier_version_as_it_is() {
    let stage = Stage::new();
    let holder = holder(&stage, "deploy");
    let file = rusqlite::Connection::open(stage.path("locks.db")).unwrap();
    let earlier = "UPDATE fencepost_meta SET value = 1 WHERE key = 'version'";
    file.execute(earlier, []).unwrap();
    let state = || -> (i64, i64) {
        let sql = "SELECT (SELECT value FROM fencepost_meta WHERE key = 'version'), epoch FROM fencepost_fence";
        file.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
    };
    let before = state();
    assert_eq!(before.0, 1);
    for look in [&["locks", "list"][..], &["locks", "show", "deploy"]] {
        let seen = stage.run(look);
        assert_eq!(seen.code(), 0, "{}", seen.stderr);
        assert!(seen.stdout.contains("deploy"), "{}", seen.stdout);
        let pid = holder.pid().to_string();
        assert!(seen.stdout.contains(&pid), "{pid}: {}", seen.stdout);
        assert_eq!(state(), before, "{look:?}");
    }
}
