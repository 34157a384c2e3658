//! Tests of clocks that are set for one program alone.

use super::*;
use crate::redis::Redis;
use crate::resp::{Connection, Value};
use std::time::SystemTime;

const HOUR: Duration = Duration::from_secs(3_600);
const LONG: Duration = Duration::from_secs(20);

/// Returns the shim, or `None` on a machine without a C compiler, where there is nothing to test.
fn shim() -> Option<ClockShim> {
    match ClockShim::compile() {
        Ok(shim) => Some(shim),
        Err(why @ (ShimError::NoCompiler | ShimError::OtherSystem)) => {
            skip(&why.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Reports that a part of a test is skipped. Where everything is installed, that is a failure.
fn skip(why: &str) {
    assert!(std::env::var_os("FENCEPOST_NO_SKIP").is_none(), "{why}");
    eprintln!("skipped: {why}");
}

/// Compiles a C program.
fn compiled(source: &str, flags: &[&str]) -> (TempDir, PathBuf) {
    let folder = folder().unwrap();
    let [file, program] = ["program.c", "program"].map(|name| folder.path().join(name));
    fs::write(&file, source).unwrap();
    let mut command = Command::new(compiler().unwrap());
    let status = command
        .args(flags)
        .arg("-o")
        .args([&program, &file])
        .status();
    assert!(status.unwrap().success());
    (folder, program)
}

/// How far the time of day that a program prints is ahead of ours, in whole minutes.
fn minutes_ahead(clock: &ProgramClock, program: &str, arguments: &[&str]) -> Option<i64> {
    let output = Command::new(program)
        .args(arguments)
        .envs(clock.variables())
        .output()
        .ok()?;
    let told: f64 = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .ok()?;
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    Some(((told - now.as_secs_f64()) / 60.0).round() as i64)
}

#[test]
fn programs_are_told_what_was_set_and_every_answer_is_counted() {
    let Some(shim) = shim() else { return };
    let python = ["-c", "import time; print(time.time())"];
    let node = ["-e", "console.log(Date.now() / 1000)"];
    let date = ["+%s"];
    let programs: [(&str, &[&str]); 3] = [("python3", &python), ("node", &node), ("date", &date)];
    for (program, arguments) in programs {
        let clock = shim.clock().unwrap();
        if minutes_ahead(&clock, program, arguments).is_none() {
            skip(&format!("{program} is not installed"));
            continue;
        }
        let calls = clock.calls();
        assert!(calls > 0, "{program}");
        for (set, minutes) in [
            (WallClock::Ahead(HOUR), 60),
            (WallClock::Behind(2 * HOUR), -120),
            (WallClock::Right, 0),
        ] {
            clock.set(set).unwrap();
            assert_eq!(
                minutes_ahead(&clock, program, arguments),
                Some(minutes),
                "{program}"
            );
        }
        assert!(clock.calls() > calls, "{program}");
    }
}

#[test]
fn a_program_that_is_linked_statically_is_not_affected_and_not_counted() {
    let Some(shim) = shim() else { return };
    let clock = shim.clock().unwrap();
    clock.set(WallClock::Ahead(HOUR)).unwrap();
    let source =
        "#include <stdio.h>\n#include <time.h>\nint main(void) { printf(\"%ld\", (long)time(0)); }";
    let (_folder, program) = compiled(source, &["-static"]);
    let program = program.to_str().unwrap();
    assert_eq!(minutes_ahead(&clock, program, &[]), Some(0));
    assert_eq!(clock.calls(), 0);
}

#[test]
fn a_program_may_ask_for_the_time_without_taking_it() {
    let Some(shim) = shim() else { return };
    let clock = shim.clock().unwrap();
    let source = "#include <stdio.h>\n#include <sys/time.h>\nint main(void) { struct timezone z; return gettimeofday(NULL, &z); }";
    let (_folder, program) = compiled(source, &["-Wno-nonnull"]);
    let status = Command::new(program).envs(clock.variables()).status();
    assert!(status.unwrap().success());
    assert_eq!(clock.calls(), 1);
}

#[test]
fn a_clock_that_is_being_set_keeps_nobody_waiting_for_ever() {
    let Some(shim) = shim() else { return };
    let clock = shim.clock().unwrap();
    // As if the lab had been stopped in the middle.
    clock.write(VERSION, 1).unwrap();
    assert_eq!(minutes_ahead(&clock, "date", &["+%s"]), Some(0));
}

#[test]
fn only_the_clock_that_was_set_is_wrong_and_it_can_run_fast() {
    let Some(shim) = shim() else { return };
    let clock = shim.clock().unwrap();
    let read = "import time\nfor c in (time.CLOCK_REALTIME, time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME): print(time.clock_gettime(c))";
    let told = || {
        let mut command = Command::new("python3");
        command.args(["-c", read]).envs(clock.variables());
        let output = String::from_utf8(command.output().ok()?.stdout).ok()?;
        let all: Vec<f64> = output
            .lines()
            .filter_map(|line| line.parse().ok())
            .collect();
        (all.len() == 3).then_some(all)
    };
    let Some(first) = told() else {
        return skip("python3 is not installed");
    };
    clock.set(WallClock::Fast(1_000)).unwrap();
    clock.hold_steady(HOUR).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let second = told().unwrap();
    let [wall, steady, boot] = [0, 1, 2].map(|index| second[index] - first[index]);
    assert!(wall > 40.0, "a thousand times as fast: {wall}");
    assert!(steady < -3_000.0, "held back by an hour: {steady}");
    assert!((0.0..1_000.0).contains(&boot), "as it is: {boot}");
}

#[test]
fn a_server_that_brings_its_own_allocator_is_told_as_well_while_it_runs() {
    let Some(shim) = shim().filter(|_| Redis::is_installed()) else {
        return;
    };
    let clock = shim.clock().unwrap();
    let server = Redis::builder().clock(&clock).start().unwrap();
    let mut connection = Connection::open(server.address(), LONG).unwrap();
    let mut ask = |words: &[&str]| connection.ask(words).unwrap();
    let lease = ["SET", "lock", "A", "PX", "60000"];
    ask(&lease);
    assert_eq!(ask(&["GET", "lock"]), Value::Text("A".into()));
    clock.set(WallClock::Ahead(HOUR)).unwrap();
    assert_eq!(ask(&["GET", "lock"]), Value::Nil);
    ask(&lease);
    clock.set(WallClock::Right).unwrap();
    let Value::Number(left_ms) = ask(&["PTTL", "lock"]) else {
        panic!("no time to live")
    };
    assert!(left_ms > 3_600_000, "{left_ms}");
    assert!(clock.calls() > 0);
}

#[test]
fn the_source_is_clean_and_its_layout_is_ours() {
    let Some(compiler) = compiler() else { return };
    let folder = folder().unwrap();
    let source = folder.path().join("shim.c");
    let size = format!(
        "{SOURCE}\n_Static_assert(sizeof(struct page) == {BYTES}, \"size\");\n_Static_assert(offsetof(struct page, steady_ns) == {STEADY}, \"last\");"
    );
    fs::write(&source, size).unwrap();
    let checked = Command::new(compiler)
        .args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror"])
        .arg(&source)
        .output()
        .unwrap();
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
}
