//! Checks that the documentation of every public async function has a section on cancel safety.

use super::Finding;
use crate::tree::SourceFile;

/// The crates whose public functions others call: the library, and the service behind `serve`.
const CRATES: &[&str] = &["crates/fencepost/src/", "crates/checkout/src/"];
const SECTION: &str = "# Cancel safety";

/// Checks that each public async function of these crates says what happens if its future is dropped.
pub(super) fn async_functions_state_cancel_safety(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_one_of_ours = |file: &&SourceFile| {
        let mut crates = CRATES.iter();
        file.is_rust() && crates.any(|folder| file.path.starts_with(folder))
    };
    for file in files.iter().filter(is_one_of_ours) {
        let lines: Vec<&str> = file.text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            if is_public_and_async(line, &lines[at..])
                && !documentation_above(&lines[..at]).contains(SECTION)
            {
                let name = line.trim().split('(').next().unwrap_or_default();
                findings.push(Finding::new(
                    file,
                    at + 1,
                    format!("{name}: no '{SECTION}' in its documentation"),
                ));
            }
        }
    }
    findings
}

fn is_public_and_async(line: &str, from_here: &[&str]) -> bool {
    let line = line.trim_start();
    if line.starts_with("pub async fn ") {
        return true;
    }
    let signature = from_here
        .iter()
        .take_while(|line| !line.trim_start().starts_with("where"));
    let mut signature = signature.scan(false, |ended, line| {
        let is_part = !*ended;
        *ended |= line.contains('{') || line.trim_end().ends_with(';');
        is_part.then_some(line)
    });
    line.starts_with("pub fn ")
        && signature.any(|line| line.contains("-> impl Future") || line.contains("-> BoxFuture"))
}

/// Comments and attributes directly above an item.
fn documentation_above(lines: &[&str]) -> String {
    let is_other_code =
        |line: &str| line.is_empty() || line.ends_with(['{', '}', ';']) && !line.starts_with("//");
    let above = lines
        .iter()
        .rev()
        .map(|line| line.trim())
        .take_while(|line| !is_other_code(line));
    above
        .filter(|line| line.starts_with("///"))
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    const UNDOCUMENTED: &str = "
impl Locker {
    /// # Cancel safety
    /// Leaves nothing behind; see `acquire();`
    #[tracing::instrument(
        skip(self)
    )]
    pub async fn try_acquire(&self) {}

    /// Waits.
    pub async fn acquire(&self) {
    }
    pub async fn shutdown(&self) {}

    /// Sleeps.
    pub fn sleep(
        &self,
    ) -> impl Future<Output = ()> {}

    pub fn is_lost(&self) -> bool { true }
    pub(crate) async fn internal(&self) {}
    async fn private(&self) {}
}";

    #[test]
    fn every_public_async_function_says_what_a_cancellation_leaves() {
        for path in ["crates/fencepost/src/a.rs", "crates/checkout/src/b/a.rs"] {
            let findings = found(async_functions_state_cancel_safety, &[(path, UNDOCUMENTED)]);
            let places: Vec<_> = findings
                .iter()
                .map(|text| text.split(": no").next().unwrap())
                .collect();
            let expected = [
                format!("{path}:11: pub async fn acquire"),
                format!("{path}:13: pub async fn shutdown"),
                format!("{path}:16: pub fn sleep"),
            ];
            assert_eq!(places, expected);
        }
    }

    #[test]
    fn other_crates_are_free() {
        assert!(
            found(
                async_functions_state_cancel_safety,
                &[("crates/rig/src/a.rs", UNDOCUMENTED)]
            )
            .is_empty()
        );
    }
}
