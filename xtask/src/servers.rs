//! Starts the servers that tests share because they take long to start. A helper program of the rig runs them and ends with xtask.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::runner;
use crate::terminal::say;

/// Running servers; dropping this stops them.
pub(crate) struct Servers {
    helper: Child,
    variables: Vec<(String, String)>,
}

impl Servers {
    /// Starts the helper that starts the servers.
    ///
    /// # Errors
    /// Returns an error if the system fails. It is not an error if the helper does not build or a server is not installed, because the
    /// tests report that themselves.
    pub(crate) fn start() -> Result<Self> {
        let arguments = [
            "run",
            "--quiet",
            "--package",
            "fencepost-rig",
            "--example",
            "servers",
        ];
        let mut helper = runner::cargo(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the servers that tests share")?;
        let mut variables = Vec::new();
        let output = helper.stdout.take().context("its output")?;
        for line in BufReader::new(output).lines() {
            let line = line?;
            match line.split_once('=') {
                Some((name, address)) => variables.push((name.to_owned(), address.to_owned())),
                None => {
                    for (name, address) in &variables {
                        say(format!("{name}={address}"));
                    }
                    return Ok(Self { helper, variables });
                }
            }
        }
        say("note: continuing without servers that tests share; each starts its own");
        Ok(Self {
            helper,
            variables: Vec::new(),
        })
    }

    /// Passes the addresses of the servers to a command.
    pub(crate) fn set_env(&self, command: &mut Command) {
        command.envs(self.variables.iter().map(|(name, address)| (name, address)));
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        drop(self.helper.stdin.take());
        let _ = self.helper.wait();
    }
}
