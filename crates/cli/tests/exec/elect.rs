//! Tests of `fencepost elect`: one process leads, the command never outlives its term, and the next candidate takes over, however the leader
//! ends.

use nix::sys::signal::Signal;

use crate::fenced_file::{fences, writer_under};
use crate::lost::{FAMILY, family, is_in_time};
use crate::stage::{Play, Stage, is_running, shape, signal, state, until};

/// Starts a candidate whose command is a shell script.
fn candidate(stage: &Stage, flags: &str, script: &str) -> Play {
    let mut arguments = vec!["elect", "--name", "shared"];
    arguments.extend(flags.split_whitespace());
    arguments.extend(["--", "sh", "-c", script]);
    stage.start(&arguments)
}

/// Starts a candidate that writes to the fenced file while it leads.
fn writer(stage: &Stage, flags: &str) -> Play {
    writer_under(stage, &format!("elect --name shared {flags}"))
}

fn next_writer(stage: &Stage) -> Play {
    let next = writer(stage, "--ttl 60s");
    until("it stands in line", || stage.waiting("shared") == 1);
    next
}

/// Returns what a candidate has said, without numbers.
fn lines(stage: &Stage, said: &str) -> Vec<String> {
    let said = shape(said, &stage.path(""));
    said.lines().map(str::to_owned).collect()
}

#[test]
fn the_next_leads_when_a_leader_is_killed_and_its_command_is_gone_before() {
    let stage = Stage::new();
    let first = writer(&stage, "--ttl 2s");
    stage.until_lines("file", 5);
    let second = next_writer(&stage);
    assert_eq!(fences(&stage).len(), 1, "one leads, the other does not");
    first.send(Signal::SIGKILL);
    until("the next leads", || fences(&stage).len() == 2);
    assert!(!stage.path("file.refused").exists(), "nobody came too late");
    drop((first, second));
    stage.until_empty();
}

#[test]
fn a_stopped_leader_is_replaced_in_time_and_leads_again_in_a_later_term() {
    let stage = Stage::new();
    let mut first = writer(&stage, "--ttl 5s --grace 200ms");
    assert!(
        first
            .next_line()
            .starts_with("fencepost: leading shared, term ")
    );
    stage.until_lines("file", 5);
    let second = next_writer(&stage);
    first.stop();
    until("the next leads", || fences(&stage).len() == 2);
    assert!(!stage.path("file.refused").exists(), "nobody came too late");
    assert_eq!(state(first.pid()), Some('T'), "and nobody woke the first");
    first.send(Signal::SIGCONT);
    let said: String = (0..3).map(|_| first.next_line()).collect();
    let said = lines(&stage, &said);
    assert!(
        said[0].starts_with("fencepost: LOST shared at "),
        "{said:?}"
    );
    assert!(
        said[0].ends_with(" UTC: fencepost itself was paused for N s"),
        "{said:?}"
    );
    assert!(is_in_time(&said[1]), "{said:?}");
    assert!(
        said[2].contains(" in term N is not undone. Campaigning again."),
        "{said:?}"
    );
    until("it stands in line again", || stage.waiting("shared") == 1);
    second.send(Signal::SIGTERM);
    assert_eq!(second.end().code(), 143);
    until("the first leads again", || fences(&stage).len() == 3);
    drop(first);
    stage.until_empty();
}

#[test]
fn sigterm_resigns_at_once_and_stops_everything() {
    let stage = Stage::new();
    let first = candidate(&stage, "--ttl 60s --grace 300ms", FAMILY);
    let all = family(&stage);
    let second = next_writer(&stage);
    first.send(Signal::SIGTERM);
    let ran = first.end();
    assert!(
        !all.iter().any(|pid| is_running(*pid)),
        "everything ends with it"
    );
    assert!(
        ran.status.code().is_some_and(|code| code > 128),
        "{:?}",
        ran.status
    );
    until("the next leads", || fences(&stage).len() == 1);
    drop(second);
    stage.until_empty();
}

#[test]
fn whoever_is_interrupted_while_it_does_not_lead_leaves_the_line() {
    let stage = Stage::new();
    let leader = writer(&stage, "--ttl 60s");
    stage.until_lines("file", 1);
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let second = candidate(&stage, "-q --ttl 60s", "touch started");
        until("it stands in line", || stage.waiting("shared") == 1);
        second.send(signal);
        let ran = second.end();
        let said = format!("fencepost: sh was not started: {signal} while waiting for shared\n");
        assert_eq!((ran.code(), ran.stderr), (code, said));
        assert_eq!(stage.waiting("shared"), 0);
    }
    assert!(!stage.path("started").exists());
    drop(leader);
}

#[test]
fn a_command_that_ends_takes_what_it_left_running_with_it() {
    let stage = Stage::new();
    let script = "(trap '' HUP; setsid sleep 1000 & echo $! > left); exit 7";
    let ran = candidate(&stage, "--ttl 60s -q", script).end();
    assert_eq!((ran.code(), ran.stderr.as_str()), (7, ""));
    let left: i32 = stage.read("left").trim().parse().unwrap();
    assert!(!is_running(left));
    let next = candidate(&stage, "--ttl 60s -q", "exit 3").end();
    assert_eq!(next.code(), 3, "it has resigned: {}", next.stderr);
    let missing = stage.run(&["elect", "--name", "shared", "-q", "--", "./none"]);
    assert_eq!(missing.code(), 127, "{}", missing.stderr);
    stage.until_empty();
}

#[test]
fn a_command_is_killed_when_its_leadership_is_taken_away_and_starts_again() {
    let stage = Stage::new();
    let mut leader = writer(&stage, "--ttl 2s");
    leader.next_line();
    stage.until_lines("file", 5);
    let released = stage.run(&["locks", "release", "shared", "--yes"]);
    assert_eq!(released.code(), 0, "{}", released.stderr);
    let said = lines(&stage, &leader.next_line());
    assert!(
        said[0].ends_with("we no longer hold it: released by force, or forgotten"),
        "{said:?}"
    );
    until("it leads again", || fences(&stage).len() == 2);
    assert!(!stage.path("file.refused").exists());
    drop(leader);
    stage.until_empty();
}

#[test]
fn an_unhealthy_candidate_does_not_lead() {
    let stage = Stage::new();
    std::fs::write(stage.path("healthy"), "").unwrap();
    let flags = "elect --name shared --ttl 60s --grace 300ms --health-every 1s --health";
    let mut words: Vec<&str> = flags.split_whitespace().collect();
    words.push("test -e healthy || { test -e hang && exec sleep 1000; }");
    words.extend(["--", "sh", "-c", "echo $$ >> began; exec sleep 1000"]);
    let mut first = stage.start(&words);
    first.next_line();
    stage.until_lines("began", 1);
    let second = next_writer(&stage);
    std::fs::remove_file(stage.path("healthy")).unwrap();
    let said: String = (0..2).map(|_| first.next_line()).collect();
    assert!(
        said.starts_with("fencepost: not healthy: test -e healthy"),
        "{said}"
    );
    assert!(
        said.ends_with("sh and all it started were stopped\n"),
        "{said}"
    );
    let command: i32 = stage.read("began").trim().parse().unwrap();
    assert!(!is_running(command));
    until("the next leads", || fences(&stage).len() == 1);
    // It neither leads nor stands in line.
    assert_eq!(stage.waiting("shared"), 0);
    std::fs::write(stage.path("healthy"), "").unwrap();
    until("it stands in line again", || stage.waiting("shared") == 1);
    second.send(Signal::SIGTERM);
    stage.until_lines("began", 2);
    std::fs::write(stage.path("hang"), "").unwrap();
    std::fs::remove_file(stage.path("healthy")).unwrap();
    let third = next_writer(&stage);
    until("a check that hangs has failed", || {
        fences(&stage).len() == 2
    });
    drop((first, second, third));
    stage.until_empty();
}

#[test]
fn when_the_warden_is_killed_everything_ends() {
    let stage = Stage::new();
    let leader = candidate(&stage, "--ttl 60s", FAMILY);
    let all = family(&stage);
    signal(leader.warden(), Signal::SIGKILL);
    let ran = leader.end();
    assert_eq!(ran.code(), 137, "{}", ran.stderr);
    assert!(!all.iter().any(|pid| is_running(*pid)));
    stage.until_empty();
}

#[test]
fn an_observer_prints_who_leads_and_every_change() {
    let stage = Stage::new();
    let mut observer = stage.start(&["elect", "--name", "shared", "--observe"]);
    let mut lines = stage.start(&["elect", "--name", "shared", "--observe", "--json"]);
    let said = observer.next_output_line();
    assert!(said.ends_with(" UTC   shared has no leader\n"), "{said}");
    let mut next =
        || -> serde_json::Value { serde_json::from_str(&lines.next_output_line()).unwrap() };
    let none = next();
    assert_eq!(none["schema"], "fencepost/election/1");
    assert_eq!(
        (&none["state"], none["leader"].is_null()),
        (&"none".into(), true)
    );
    // What a leader says of itself cannot pose as a line of ours.
    let value = "\u{1b}[31mred\n12:00:00 UTC   shared has no leader";
    let script = "echo $FENCEPOST_FENCE > term; exec sleep 1000";
    let words = ["elect", "--name", "shared", "--ttl", "2s", "--value", value];
    let leader = stage.start(&[&words[..], &["--", "sh", "-c", script]].concat());
    stage.until_lines("term", 1);
    let said = observer.next_output_line();
    let escaped = "shared is led by \\u{1b}[31mred\\n12:00:00 UTC   shared has no leader (";
    assert!(said.contains(escaped), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let seen = next();
    assert_eq!(seen["leader"]["value"], value);
    assert_eq!(seen["leader"]["term"], stage.read("term").trim());
    assert_eq!(seen["leader"]["process"], leader.pid());
    leader.send(Signal::SIGKILL);
    assert_eq!(next()["state"], "none");
    assert!(observer.next_output_line().contains("shared has no leader"));
    let leader = candidate(&stage, "--ttl 60s", "sleep 1000");
    let seen = next();
    let label = seen["leader"]["label"].as_str().unwrap();
    assert_eq!(
        seen["leader"]["value"], label,
        "without a value, the host and process"
    );
    leader.send(Signal::SIGTERM);
    assert_eq!(next()["state"], "none");
}

#[test]
fn what_cannot_be_is_an_error_of_usage() {
    let stage = Stage::new();
    let long = "v".repeat(1025);
    for (arguments, what) in [
        (
            &["elect", "--", "true"][..],
            "an election's name is missing",
        ),
        (&["elect", "--name", "a"], "a command to run is missing"),
        (
            &["elect", "--name", "a\u{1b}", "--", "true"],
            "control characters",
        ),
        (
            &["elect", "--name", "a", "--ttl", "1ms", "--", "true"],
            "a TTL of 1ms is too short",
        ),
        (
            &["elect", "--name", "a", "--value", &long, "--", "true"],
            "a value of 1025 bytes is too long",
        ),
        (
            &[
                "elect",
                "--name",
                "a",
                "--health",
                "true",
                "--health-every",
                "1ms",
                "--",
                "true",
            ],
            "too often",
        ),
        (
            &["elect", "--name", "a", "--observe", "--value", "b"],
            "exclude each other",
        ),
        (
            &["elect", "--name", "a", "--json", "--", "true"],
            "exclude each other",
        ),
        (&["elect", "--name", "a", "--json"], "--observe is missing"),
    ] {
        let ran = stage.run(arguments);
        assert_eq!(ran.code(), 64, "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(what), "{}", ran.stderr);
    }
}
