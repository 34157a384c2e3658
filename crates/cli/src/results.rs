//! The files a command writes: opened before the run, so that nothing is run in vain.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::exit;
use crate::fault::{Fault, system_words};

/// A file that is filled when the run is over. One that was made for it and never filled is removed.
#[derive(Debug)]
pub(crate) struct Results {
    file: File,
    path: PathBuf,
    is_new: bool,
    flag: &'static str,
}

impl Results {
    /// Opens the file that `flag` names.
    pub(crate) fn open(flag: &'static str, path: &Path) -> Result<Self, Fault> {
        let is_new = !path.exists();
        let opened = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path);
        let file = opened.map_err(|error| cannot_open(flag, path, &error))?;
        Ok(Self {
            file,
            path: path.to_owned(),
            is_new,
            flag,
        })
    }

    /// Writes a JSON document in place of what was there.
    pub(crate) fn fill(self, document: &Value) -> Result<(), Fault> {
        self.fill_with(&format!("{document:#}\n"))
    }

    /// Writes the text in place of what was there.
    pub(crate) fn fill_with(mut self, text: &str) -> Result<(), Fault> {
        let written = truncate(&self.file).and_then(|()| self.file.write_all(text.as_bytes()));
        written.map_err(|error| {
            Fault::new(exit::WRITE_FAILED, "cannot write the results")
                .at(place(self.flag, &self.path, &system_words(&error)))
                .effect("the run is over; its report is on the screen")
        })?;
        self.is_new = false;
        Ok(())
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        if self.is_new {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Opens a file that is written as the run goes, in place of what was there.
pub(crate) fn open_history(flag: &'static str, path: &Path) -> Result<File, Fault> {
    File::create(path).map_err(|error| cannot_open(flag, path, &error))
}

/// Makes the folder for the results, unless it is there.
pub(crate) fn open_folder(flag: &'static str, path: &Path) -> Result<(), Fault> {
    fs::create_dir_all(path).map_err(|error| cannot_open(flag, path, &error))
}

/// Devices and pipes have no length to cut.
fn truncate(file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() {
        file.set_len(0)
    } else {
        Ok(())
    }
}

fn place(flag: &str, path: &Path, words: &str) -> String {
    format!("{flag} {}: {words}", path.display())
}

fn cannot_open(flag: &str, path: &Path, error: &io::Error) -> Fault {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    let fault = Fault::new(exit::CANNOT_CREATE, "cannot write the results");
    let effect = "none: checked before the run";
    match folder {
        Some(folder) if error.kind() == io::ErrorKind::NotFound => fault
            .at(place(
                flag,
                path,
                &format!("no such directory ({})", folder.display()),
            ))
            .effect(effect)
            .try_this(format_args!("mkdir -p {}", folder.display())),
        _ => fault
            .at(place(flag, path, &system_words(error)))
            .effect(effect),
    }
}
