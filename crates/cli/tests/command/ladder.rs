//! Tests of `fencepost gauntlet --ladder`.

use crate::gauntlet::{as_json, judged_alike_again};
use crate::schema::{assert_valid, schema};
use crate::{fencepost, finish, run};

#[test]
fn a_ladder_shows_which_lock_is_the_first_to_withstand_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let (results, page) = (
        folder.path().join("results"),
        folder.path().join("page.html"),
    );
    let mut command = fencepost(
        "gauntlet --lock=blind-delete --ladder --scenario crash --scenario ttl-edge --seed 7 --output",
    );
    command.arg(&results).arg("--report").arg(&page);
    let ran = finish(command.output().unwrap());
    assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
    let verdicts = |scenario: &str| -> Vec<String> {
        let row = ran
            .stdout
            .lines()
            .find(|line| line.trim_start().starts_with(scenario));
        let words = row
            .unwrap_or_else(|| panic!("{}", ran.stdout))
            .split_whitespace();
        words.skip(2).step_by(2).map(str::to_owned).collect()
    };
    assert_eq!(verdicts("crash"), ["STUCK", "HELD", "HELD", "HELD", "HELD"]);
    let over = verdicts("ttl-edge");
    assert_eq!(over[1..], ["BROKEN", "HELD", "HELD", "BROKEN"]);
    let helps = "crash: safe; ttl-edge:";
    assert!(ran.stdout.contains(helps), "{}", ran.stdout);
    let files = ": 10 × JSON and history; ";
    assert!(ran.stdout.contains(files), "{}", ran.stdout);
    judged_alike_again(&results.join("safe-ttl-edge"));
    judged_alike_again(&results.join("on-trial-ttl-edge"));
    let page = std::fs::read_to_string(&page).unwrap();
    for run in ["naive.crash\"", "fenced.ttl-edge\"", "blind-delete.crash\""] {
        assert!(page.contains(run), "{run}");
    }
}

#[test]
fn a_ladder_in_json_has_the_gauntlet_of_every_lock() {
    let ran = run("gauntlet --lock=safe --ladder --scenario crash --seed 7 --json");
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let document = as_json(&ran);
    assert_valid(&schema("report.json"), "ladder", &document);
    let rungs = document["rungs"].as_array().unwrap();
    let locks: Vec<&str> = rungs
        .iter()
        .map(|rung| rung["lock"].as_str().unwrap())
        .collect();
    assert_eq!(locks, ["naive", "watchdog", "fenced", "safe"]);
}
