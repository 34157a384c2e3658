//! Runs a test again in its own mount namespace, so that it may mount file systems. Whatever it mounts and starts there
//! disappears with it, however it ends.

use std::path::PathBuf;
use std::process::Command;

const FOLDER: &str = "FENCEPOST_STAGE";

/// Inside the namespace, returns the folder that `setup` prepared. Outside, runs the test `name` inside and returns `None`.
///
/// `setup` is a shell script that receives an empty folder in `$1`.
pub(crate) fn stage(name: &str, setup: &str) -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return Some(folder.into());
    }
    let folder = tempfile::tempdir().unwrap();
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child"]);
        if !is_root() {
            command.arg("--map-root-user");
        }
        command.args(["sh", "-ec", script, "sh"]).arg(folder.path());
        command.env(FOLDER, folder.path());
        command
    };
    let prepared = match unshare(setup).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Err(error.to_string()),
    };
    if let Err(reason) = prepared {
        // `cargo xtask test` has installed what is needed, and root may do everything, so this is a failure.
        let reason = reason.trim();
        let allowed = std::env::var_os("FENCEPOST_NO_SKIP").is_none();
        assert!(allowed, "{name} cannot be staged: {reason}");
        println!("skipped: {name}: {reason}");
        return None;
    }
    let script = format!("{setup}\n\"$2\" --exact {name} --nocapture");
    let output = unshare(&script)
        .arg(std::env::current_exe().unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complained}");
    assert!(said.contains("1 passed"), "{name} was not run: {said}");
    None
}

fn is_root() -> bool {
    let owner = std::fs::metadata("/proc/self").map(|me| std::os::unix::fs::MetadataExt::uid(&me));
    owner.is_ok_and(|uid| uid == 0)
}
