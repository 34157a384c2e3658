//! Fuzzes the service with Schemathesis, which generates requests from /openapi.json and checks the answers against it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::stage::Stage;

/// The paths to test, and the checks to leave out.
const PARTS: [(&str, &[&str]); 2] = [
    // Excludes the stream of events, which does not end.
    ("^/(?!v1/(checkout|events))", &[]),
    // The description cannot express everything, such as that a product occurs only once in an order, or that an order has at
    // most 100 items *in total*. Such a request is valid by the schema, but is refused.
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
    // The products that the examples in the description order, so that they get further than "no such product".
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
    // The service is still running, and reports no inconsistency.
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
