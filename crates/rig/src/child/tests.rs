//! A child answers, is stopped, and ends; and nothing of it is left.

use super::*;
use crate::feed::{Feed, Output, feed};

const LONG: Duration = Duration::from_secs(20);

fn shell(script: &str) -> (Child, Feed) {
    let (feed, sender) = feed();
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    (Child::spawn(command, 7, &sender).unwrap(), feed)
}

fn line(feed: &Feed) -> String {
    match feed.next(LONG).unwrap().output {
        Output::Line(line) => line,
        other => panic!("{other:?}"),
    }
}

fn gone(pid: i32) -> bool {
    poll(LONG, || has_ended(Pid::from_raw(pid)).then_some(())).is_some()
}

#[test]
fn a_child_answers_line_by_line_and_its_end_is_told() {
    let (mut child, feed) = shell("read x; echo \"got $x\"; echo tired >&2; exit 3");
    child.send(&serde_json::json!({"go": 1})).unwrap();
    assert_eq!(line(&feed), r#"got {"go":1}"#);
    assert_eq!(feed.next(LONG).unwrap().output, Output::Closed);
    assert_eq!(child.wait(LONG).and_then(|status| status.code()), Some(3));
    assert_eq!(child.last_words(), ["tired"]);
    assert_eq!(child.signal(Signal::SIGCONT), Err(Errno::ESRCH));
}

#[test]
fn only_the_last_words_are_kept() {
    let (mut child, _feed) = shell("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo $i >&2; done");
    assert!(child.wait(LONG).is_some());
    let words = child.last_words();
    assert_eq!(
        (words.len(), words[0].as_str(), words[9].as_str()),
        (10, "3", "12")
    );
}

#[test]
fn dropping_a_stopped_child_kills_its_whole_group() {
    let (child, feed) = shell("sleep 1000 & echo $!; wait");
    let grandchild: i32 = line(&feed).parse().unwrap();
    assert!(!child.wait_stopped(Duration::ZERO));
    child.signal(Signal::SIGSTOP).unwrap();
    assert!(child.wait_stopped(LONG));
    let pid = child.pid();
    drop(child);
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "reaped");
    assert!(gone(grandchild));
}

#[test]
fn the_end_of_a_child_is_no_stop_and_is_not_waited_for() {
    let (child, feed) = shell("exit 0");
    assert_eq!(feed.next(LONG).unwrap().output, Output::Closed);
    let started = Instant::now();
    assert!(!child.wait_stopped(LONG));
    assert!(started.elapsed() < LONG / 2);
}

#[test]
fn what_a_child_leaves_behind_ends_with_it() {
    let (mut child, feed) = shell("sleep 1000 >/dev/null 2>&1 & echo $!");
    let grandchild: i32 = line(&feed).parse().unwrap();
    assert!(child.wait(LONG).is_some());
    assert!(gone(grandchild));
}

#[test]
fn a_child_dies_with_the_thread_that_started_it() {
    let (pid, child) = std::thread::spawn(|| {
        let (child, feed) = shell("echo ready; exec sleep 1000");
        assert_eq!(line(&feed), "ready");
        (child.pid(), child)
    })
    .join()
    .unwrap();
    assert!(gone(pid));
    drop(child);
}

#[test]
fn a_program_that_is_not_there_is_an_error() {
    let (_feed, sender) = feed();
    assert!(Child::spawn(Command::new("/no/such/program"), 0, &sender).is_err());
    let error = Child::spawn_supervised(Command::new("/no/such/program"), 0, &sender);
    assert_eq!(error.unwrap_err().kind(), io::ErrorKind::NotFound);
}

fn supervised(script: &str) -> (Child, Feed) {
    let (feed, sender) = feed();
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    (Child::spawn_supervised(command, 7, &sender).unwrap(), feed)
}

#[test]
fn a_supervised_program_is_stopped_and_ends_like_any_other() {
    let (mut child, feed) = supervised("echo $$; read x; echo \"got $x\"; exit 3");
    assert_eq!(line(&feed), child.pid().to_string());
    child.signal(Signal::SIGSTOP).unwrap();
    assert!(child.wait_stopped(LONG));
    child.signal(Signal::SIGCONT).unwrap();
    child.send(&1).unwrap();
    assert_eq!(line(&feed), "got 1");
    assert_eq!(feed.next(LONG).unwrap().output, Output::Closed);
    assert_eq!(child.wait(LONG).and_then(|status| status.code()), Some(3));
    assert_eq!(child.signal(Signal::SIGCONT), Err(Errno::ESRCH));
    let (mut child, _feed) = supervised("sleep 1000");
    child.signal(Signal::SIGKILL).unwrap();
    let status = child.wait(LONG).unwrap();
    assert_eq!(status.signal(), Some(Signal::SIGKILL as i32));
}

/// Starts a process in another session, whose parent has ended, and says its number.
const FLEES: &str = "setsid sh -c 'sleep 1000 & echo $!'";

#[test]
fn what_a_supervised_program_starts_ends_with_it_in_whatever_session() {
    let (mut child, feed) = supervised(&format!("{FLEES}; read x"));
    let fled: i32 = line(&feed).parse().unwrap();
    assert!(!gone_at_once(fled));
    child.send(&1).unwrap();
    assert!(child.wait(LONG).is_some());
    assert!(gone_at_once(fled));
    // The fled process had the output open.
    assert_eq!(feed.next(LONG).unwrap().output, Output::Closed);
}

#[test]
fn dropping_a_supervised_program_kills_all_that_it_started() {
    let (child, feed) = supervised(&format!("{FLEES}; kill -STOP $$"));
    let fled: i32 = line(&feed).parse().unwrap();
    assert!(child.wait_stopped(LONG));
    drop(child);
    assert!(gone_at_once(fled));
}

#[test]
fn a_program_that_stops_its_supervisor_does_not_hold_us_up_for_ever() {
    let (child, feed) = supervised("kill -STOP $PPID; echo $$; sleep 1000");
    let program: i32 = line(&feed).parse().unwrap();
    let started = Instant::now();
    drop(child);
    assert!(started.elapsed() < LONG);
    assert!(gone(program));
}

fn gone_at_once(pid: i32) -> bool {
    has_ended(Pid::from_raw(pid))
}

/// Starts a script under this number.
#[cfg(target_os = "linux")]
fn numbered(space: &crate::PidSpace, number: i32, script: &str) -> (Child, Feed) {
    let (feed, sender) = feed();
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let child = Child::spawn_in(space, number, command, 7, &sender);
    (child.unwrap(), feed)
}

/// Returns a namespace; `None`, and says so, if this machine does not allow any. Where everything is installed, that is a failure.
#[cfg(target_os = "linux")]
fn space() -> Option<crate::PidSpace> {
    match crate::PidSpace::lacks() {
        None => Some(crate::PidSpace::open().unwrap()),
        Some(why) => {
            assert!(std::env::var_os("FENCEPOST_NO_SKIP").is_none(), "{why}");
            eprintln!("skipped: {why}");
            None
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_program_gets_the_number_of_one_that_was_killed() {
    let Some(space) = space() else { return };
    // It sees itself in /proc, and what it leaves behind has its number as a session.
    let script = "echo $$ $(readlink /proc/self | wc -w); sleep 1000 & read x";
    for life in 0..3 {
        let (mut child, feed) = numbered(&space, 700, script);
        assert_eq!(line(&feed), "700 1", "life {life}");
        assert_eq!(child.number_inside(), Some(700));
        assert_ne!(child.pid(), 700);
        child.signal(Signal::SIGSTOP).unwrap();
        assert!(child.wait_stopped(LONG));
        child.signal(Signal::SIGCONT).unwrap();
        child.signal(Signal::SIGKILL).unwrap();
        let status = child.wait(LONG).unwrap();
        assert_eq!(status.signal(), Some(Signal::SIGKILL as i32));
        assert_eq!(child.number_inside(), None);
    }
    let (mut child, _feed) = numbered(&space, 701, "exit 3");
    assert_eq!(child.wait(LONG).and_then(|status| status.code()), Some(3));
}

#[cfg(target_os = "linux")]
#[test]
fn programs_of_a_namespace_see_each_other_and_keep_their_folder() {
    let Some(space) = space() else { return };
    let (_first, feed) = numbered(&space, 700, "echo ready; read x");
    assert_eq!(line(&feed), "ready");
    let folder = std::env::current_dir().unwrap();
    let script = "kill -0 700 && ! kill -0 702 2>/dev/null && pwd";
    let (_second, feed) = numbered(&space, 701, script);
    assert_eq!(line(&feed), folder.display().to_string());
}

#[cfg(target_os = "linux")]
#[test]
fn what_a_program_of_a_namespace_starts_ends_with_it_in_whatever_session() {
    let Some(space) = space() else { return };
    let (mut child, feed) = numbered(&space, 700, &format!("{FLEES}; read x"));
    let fled: i32 = line(&feed).parse().unwrap();
    let (mut other, feed) = numbered(
        &space,
        701,
        &format!("kill -0 {fled} && echo there; read x; kill -0 {fled} || echo gone"),
    );
    assert_eq!(line(&feed), "there");
    child.signal(Signal::SIGKILL).unwrap();
    assert!(child.wait(LONG).is_some());
    other.send(&1).unwrap();
    assert_eq!(line(&feed), "gone");
}

#[cfg(target_os = "linux")]
#[test]
fn the_end_of_a_namespace_ends_everything_in_it() {
    let Some(space) = space() else { return };
    let (mut child, feed) = numbered(&space, 700, "echo ready; sleep 1000");
    assert_eq!(line(&feed), "ready");
    drop(space);
    assert!(child.wait(LONG).is_some());
}
