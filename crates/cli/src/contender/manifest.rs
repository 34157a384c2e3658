//! The manifest of an external lock: a file `subject.toml` in the lock's folder, beside its program.
//!
//! It says what the lock is called, how to start it, on which stores it works, and what it claims. The lab judges the lock by these
//! claims, because each of them comes with the place in the lock's own documentation where it is written.

use std::path::{Path, PathBuf};
use std::process::Command;

use fencepost_trial::gauntlet::{Kind, Limit};
use fencepost_trial::protocol::Claims;
use fencepost_trial::store::{TrialStore, private_name};

use crate::command_error::{CommandError, system_words};
use crate::exit;
use crate::values::BadValue;

mod claims;
mod fields;
mod invalid;
mod kind;
mod limits;

use fields::Fields;

/// The name of the file.
const FILE: &str = "subject.toml";

/// The manifest of an external lock, and the folder that it describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Manifest {
    folder: PathBuf,
    fields: Fields,
}

impl Manifest {
    /// Returns whether `text` names a folder with a manifest, or at least a folder in the spelling of a path.
    fn is_meant(text: &str) -> bool {
        let folder = Path::new(text);
        folder.is_dir() && (text.contains('/') || folder.join(FILE).exists())
    }

    /// Reads the manifest of the folder that `text` names. `None` if it does not name such a folder.
    pub(super) fn find(text: &str) -> Option<Result<Self, BadValue>> {
        Self::is_meant(text).then(|| Self::read(Path::new(text)))
    }

    fn read(folder: &Path) -> Result<Self, BadValue> {
        let path = folder.join(FILE);
        let source = std::fs::read_to_string(&path).map_err(|error| BadValue {
            what: format!("cannot read {}: {}", path.display(), system_words(&error)),
            advice: format!("a folder with a program and a {FILE}, as docs/lab.md describes"),
        })?;
        let fields = Fields::parse(&source)
            .map_err(|invalid| invalid.explain(&path.display().to_string(), &source))?;
        // The program runs in its folder, where a relative path would lead elsewhere.
        let folder = folder.canonicalize().map_err(|error| BadValue {
            what: format!(
                "cannot enter {}: {}",
                folder.display(),
                system_words(&error)
            ),
            advice: "a folder that you may enter".into(),
        })?;
        Ok(Self { folder, fields })
    }

    /// Returns the name and version, as titles and reports show them.
    pub(super) fn title(&self) -> String {
        format!("{} {}", self.fields.name, self.fields.version)
    }

    /// Returns how the lock is built.
    pub(super) fn kind(&self) -> Kind {
        self.fields.kind
    }

    /// Returns the limits that its documentation states.
    pub(super) fn limits(&self) -> &[Limit] {
        self.fields.limits.all()
    }

    /// Returns what starts the program, as the manifest spells it.
    pub(super) fn program(&self) -> &str {
        self.fields.start.program()
    }

    /// Starts one process, in the folder of the lock.
    pub(super) fn command(&self) -> Command {
        let program = self.program();
        // Whether a path is relative to the old or to the new folder differs between systems.
        let mut command = if program.contains('/') {
            Command::new(self.folder.join(program))
        } else {
            Command::new(program)
        };
        command
            .args(self.fields.start.arguments())
            .current_dir(&self.folder);
        command
    }

    /// Returns the store for a trial without `--store`, if the lock does not work on the usual one.
    pub(super) fn default_store(&self) -> Option<TrialStore> {
        if self.supports(&TrialStore::default()) {
            return None;
        }
        TrialStore::named(self.fields.stores.names().next()?)
    }

    fn supports(&self, store: &TrialStore) -> bool {
        let name = private_name(store.kind());
        self.fields.stores.names().any(|known| known == name)
    }

    /// Refuses a store on which the lock does not work.
    pub(super) fn fits(&self, flag: &str, store: &TrialStore) -> Result<(), CommandError> {
        if self.supports(store) {
            return Ok(());
        }
        let names: Vec<&str> = self.fields.stores.names().collect();
        let what = format!("{} does not support {}", self.title(), store.kind().title);
        let advice: Vec<String> = names.iter().map(|name| format!("--store {name}")).collect();
        Err(CommandError::new(exit::USAGE, what)
            .at(format_args!("{flag} --store {}", store.name()))
            .with(
                "supports",
                format_args!("{}, as its {FILE} says", names.join(", ")),
            )
            .effect("none: no process was started")
            .try_this(advice.join("      or ")))
    }

    /// Returns the claims by which the lock is judged. Refuses a program that makes other claims than its manifest.
    pub(super) fn claims(&self, flag: &str, said: Option<Claims>) -> Result<Claims, CommandError> {
        let Fields { kind, claims, .. } = &self.fields;
        let differences = said.map_or_else(Vec::new, |said| claims.differences(*kind, said));
        if differences.is_empty() {
            return Ok(claims.claims(*kind));
        }
        let what = format!("{} makes other claims than its manifest", self.title());
        let error = CommandError::new(exit::SUBJECT, what).at(flag);
        let error = differences
            .iter()
            .fold(error, |error, difference| error.with("claim", difference));
        Err(error
            .effect("none: the trial had not begun")
            .try_this(format_args!(
                "make init_ok and {FILE} agree, or leave the claims out of init_ok"
            )))
    }

    /// Returns what the manifest advises if the program does not run here. The lab only prints it.
    pub(super) fn advice(&self) -> String {
        let language = &self.fields.language;
        match &self.fields.install {
            Some(install) => {
                format!("{install}      (its {FILE} says so; it is written in {language})")
            }
            None => {
                format!("install {language}, in which it is written; its {FILE} does not say how")
            }
        }
    }
}

#[cfg(test)]
mod tests;
