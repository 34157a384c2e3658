//! Schemathesis reads /openapi.json and asks whatever comes to its mind: the service keeps to its own description.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::stage::Stage;

/// What is asked, and which checks are left out.
const PARTS: [(&str, &[&str]); 2] = [
    // Not the stream of events, which does not end.
    ("^/(?!v1/(checkout|events))", &[]),
    // The description cannot say everything: that a product stands in an order once, that an order has 100 items *in all*.
    // Such a request is valid by the schema, and is refused.
    (
        "^/v1/checkout",
        &["--exclude-checks", "positive_data_acceptance"],
    ),
];

fn packages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/clients/schemathesis")
}

pub(crate) fn is_installed() -> bool {
    packages().join("schemathesis").is_dir()
}

pub(crate) fn keeps_to_its_description() {
    assert!(
        is_installed(),
        "schemathesis is not installed; see cargo xtask prepare"
    );
    let stage = Stage::new();
    let service = stage.serve("--lab --quiet --log text");
    // What the examples in the description order, so that they come further than "no such product".
    let example = json!({"product_id": "lamp-7", "shop_id": "lamp-7", "name": "Lamp", "price_cents": 1990, "stock": 1_000_000_000});
    assert_eq!(service.client.post("/v1/products", &example).status, 201);
    for (paths, left_out) in PARTS {
        let mut command = schemathesis(&stage);
        command.args(["--include-path-regex", paths]).args(left_out);
        command.arg(format!("http://{}/openapi.json", service.client.0));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}{complaint}");
        let cases = said.lines().find(|line| line.contains(" generated"));
        println!("schemathesis, {paths}: {}", cases.unwrap().trim());
    }
    // It is still there, whole, and found nothing wrong with itself.
    assert_eq!(service.client.get("/readyz").status, 200);
    service.adds_up();
    let log = stage.read("stderr");
    let faults = log.lines().filter(|line| line.contains(" ERROR "));
    assert_eq!(faults.collect::<Vec<_>>(), Vec::<&str>::new());
}

fn schemathesis(stage: &Stage) -> Command {
    let (examples, phases) = if fencepost_rig::is_soak() {
        ("400", "examples,coverage,fuzzing,stateful")
    } else {
        ("8", "examples,coverage,fuzzing")
    };
    let mut command = Command::new("python3");
    command
        .args(["-m", "schemathesis.cli", "run", "--no-color"])
        .args(["--continue-on-failure", "--checks", "all"])
        .args(["--phases", phases, "--max-examples", examples])
        .args(["--request-timeout", "30", "--suppress-health-check", "all"])
        .env("PYTHONPATH", packages())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(stage.path(""));
    command
}
