//! `cargo xtask load`, with real k6 and a real service: short, and with limits that can break.
//!
//! Without k6 (`cargo xtask prepare` brings it) these tests are skipped, and counted so.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// Whatever does not happen within this time never will.
const LONG: Duration = Duration::from_secs(60);

fn main() {
    let tests: &[(&str, fn())] = &[
        ("load::one_unit_is_sold_once", one_unit_is_sold_once),
        ("load::a_broken_limit_is_told", a_broken_limit_is_told),
        (
            "load::every_unit_of_a_checkout_is_accounted_for",
            every_unit_is_accounted_for,
        ),
        ("load::on_postgres_and_redis_too", on_postgres_and_redis_too),
        (
            "load::an_interruption_leaves_nothing_behind",
            an_interruption_leaves_nothing_behind,
        ),
    ];
    let is_ignored = !k6().is_file() && std::env::var_os("FENCEPOST_NO_SKIP").is_none();
    let trial = |(name, test): &(&'static str, fn())| {
        let test = *test;
        Trial::test(*name, move || {
            test();
            Ok(())
        })
        .with_ignored_flag(is_ignored)
    };
    let mut arguments = Arguments::from_args();
    // Each uses the machine as far as it can.
    arguments.test_threads = arguments.test_threads.or(Some(1));
    libtest_mimic::run(&arguments, tests.iter().map(trial).collect()).exit();
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn k6() -> PathBuf {
    root().join(".tools/clients/k6/bin/k6")
}

/// The program as built for these tests; beside the folder of this test.
fn program() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let program = here.ancestors().nth(2).unwrap().join("fencepost");
    if !program.is_file() {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args([
            "build",
            "--package",
            "fencepost-cli",
            "--features",
            "postgres",
        ]);
        assert!(cargo.current_dir(root()).status().unwrap().success());
    }
    program
}

struct Run {
    command: Command,
    output: TempDir,
    /// What it leaves in the system's place for temporary files is left here.
    temporary: TempDir,
}

fn load(arguments: &str) -> Run {
    let (output, temporary) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command
        .arg("load")
        .args(arguments.split_whitespace())
        .arg("--program")
        .arg(program())
        .arg("--output")
        .arg(output.path())
        .env("TMPDIR", temporary.path());
    Run {
        command,
        output,
        temporary,
    }
}

impl Run {
    fn run(mut self) -> (Option<i32>, String, TempDir) {
        let output = self.command.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        self.left_nothing();
        let said = String::from_utf8_lossy(&said).into_owned();
        (output.status.code(), said, self.output)
    }

    fn left_nothing(&self) {
        let left = std::fs::read_dir(self.temporary.path()).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

fn figures(folder: &TempDir, file: &str) -> Value {
    let text = std::fs::read_to_string(folder.path().join(file)).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn one_unit_is_sold_once() {
    let (code, said, output) = load("--filter oversell").run();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("every limit held"), "{said}");
    let figures = figures(&output, "oversell-sqlite.json");
    let count = |metric: &str| figures["metrics"][metric]["values"]["count"].clone();
    assert_eq!(
        (count("purchases_created"), count("purchases_rejected")),
        (1.into(), 49.into())
    );
}

fn a_broken_limit_is_told() {
    // Nobody can buy with a lock that there is not. (Without any lock one unit is sold once or oftener, as chance has it.)
    let mut in_vain = load("--filter oversell");
    in_vain.command.env("LOCK", "no-such-lock");
    let (code, said, _) = in_vain.run();
    assert_eq!(code, Some(1), "{said}");
    let broken = said
        .lines()
        .find(|line| line.contains("purchases_created") && line.ends_with("BROKEN"));
    assert!(broken.is_some(), "{said}");
}

fn every_unit_is_accounted_for() {
    // As many users as a busy machine serves from an unoptimised program.
    let (code, said, _) = load("--filter checkout --quick --users 10").run();
    assert_eq!(code, Some(0), "{said}");
}

fn on_postgres_and_redis_too() {
    let mut probe = Command::new(program());
    let probe = probe.args(["serve", "--db", "postgres://127.0.0.1:1/x"]);
    let said = probe.output().unwrap().stderr;
    if String::from_utf8_lossy(&said).contains("without Postgres") {
        let reason = "the program was built without Postgres";
        assert!(std::env::var_os("FENCEPOST_NO_SKIP").is_none(), "{reason}");
        return println!("skipped: {reason}");
    }
    let (code, said, _) =
        load("--filter oversell --filter checkout --db postgres --quick --users 10").run();
    assert_eq!(code, Some(0), "{said}");
}

fn an_interruption_leaves_nothing_behind() {
    let mut run = load("--filter high-load");
    let mut child = run.command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = lines.find_map(|line| {
        let line = line.unwrap();
        let (_, address) = line.split_once("served at http://")?;
        Some(address.split(' ').next().unwrap().to_owned())
    });
    let address = address.unwrap();
    assert!(lines.any(|line| line.unwrap().starts_with("$ k6 ")));
    assert!(std::net::TcpStream::connect(&address).is_ok());
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let began = Instant::now();
    // Reads to the end, so that it is never stopped by a full pipe.
    lines.for_each(drop);
    let status = child.wait().unwrap();
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
    assert_eq!(status.code(), Some(130));
    assert!(
        std::net::TcpStream::connect(&address).is_err(),
        "the service is still there"
    );
    run.left_nothing();
}
