//! Checks that the packaged library does not need the workspace: packs it, unpacks it elsewhere and runs its tests.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::counts::Counts;
use crate::runner;
use crate::terminal;
use crate::tree;

const NAME: &str = "package-passes-its-tests-alone";

/// Packs, unpacks and tests the library, unless the filter excludes this step.
pub(crate) fn run(filter: Option<&str>) -> Result<Counts> {
    if filter.is_some_and(|filter| !NAME.contains(filter)) {
        return Ok(Counts::SKIPPED);
    }
    let folder = tree::root().join("target/package-alone");
    let good = unpack(&folder).and_then(|manifest| {
        // With default features, as most users have them; they compile no client library.
        let lib = passes(&folder, &manifest, "--lib")?;
        Ok(lib && passes(&folder, &manifest, "--doc")?)
    })?;
    terminal::say(format!("{NAME} ... {}", if good { "ok" } else { "FAILED" }));
    Ok(if good { Counts::PASSED } else { Counts::FAILED })
}

/// Creates the package and unpacks it. Returns the path of its manifest.
fn unpack(folder: &Path) -> Result<String> {
    let packed = folder.join("packed");
    if folder.join("unpacked").exists() {
        fs::remove_dir_all(folder.join("unpacked"))?;
    }
    fs::create_dir_all(folder.join("unpacked"))?;
    let mut pack = runner::cargo([
        "package",
        "--package",
        "fencepost",
        "--allow-dirty",
        "--no-verify",
    ]);
    pack.arg("--target-dir").arg(&packed);
    if !runner::run(&mut pack, |_| {})?.success() {
        bail!("the package cannot be made");
    }
    let version = env!("CARGO_PKG_VERSION");
    let mut tar = Command::new("tar");
    // Files in a package have a fixed date. With a new one (m), Cargo does not mistake them for those of an earlier run.
    tar.arg("xzmf")
        .arg(packed.join(format!("package/fencepost-{version}.crate")))
        .arg("-C")
        .arg(folder.join("unpacked"));
    let status = tar.status().context("tar")?;
    if !status.success() {
        bail!("the package cannot be unpacked");
    }
    let manifest = folder.join(format!("unpacked/fencepost-{version}/Cargo.toml"));
    // Cargo would otherwise take an enclosing workspace for the package's own.
    let own = fs::read_to_string(&manifest)? + "\n[workspace]\n";
    fs::write(&manifest, own)?;
    Ok(manifest.display().to_string())
}

fn passes(folder: &Path, manifest: &str, what: &str) -> Result<bool> {
    let mut test = runner::cargo(["test", "--manifest-path", manifest, what, "--target-dir"]);
    test.arg(folder.join("built"));
    Ok(runner::run(&mut test, |_| {})?.success())
}
