//! The output files of a run. They are opened before the run, so that an invalid path does not waste it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use fencepost_trial::history::History;
use fencepost_trial::holds::Judged;
use fencepost_trial::report::html::Page;
use fencepost_trial::saved::Seal;
use fencepost_trial::verdict::Verdict;
use serde_json::Value;

use crate::command_error::{CommandError, system_words};
use crate::exit;

mod drawings;

pub(crate) use drawings::{DrawingFlags, Drawings};

/// The flags that name the output files.
#[derive(Debug, Args)]
pub(crate) struct FileFlags {
    #[arg(long)]
    pub(crate) output: Option<PathBuf>,
    #[arg(long)]
    history: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) drawings: DrawingFlags,
}

/// A file that is written when the run is over. A file that was created for it but never written is removed.
#[derive(Debug)]
pub(crate) struct OutputFile {
    file: File,
    path: PathBuf,
    is_new: bool,
    flag: &'static str,
}

impl OutputFile {
    /// Opens the file that `flag` names, or creates it.
    pub(crate) fn open(flag: &'static str, path: &Path) -> Result<Self, CommandError> {
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

    /// Replaces the content of the file by a JSON document.
    pub(crate) fn fill(self, document: &Value) -> Result<(), CommandError> {
        self.fill_with(&format!("{document:#}\n"))
    }

    /// Replaces the content of the file by this text.
    pub(crate) fn fill_with(mut self, text: &str) -> Result<(), CommandError> {
        let written = truncate(&self.file).and_then(|()| self.file.write_all(text.as_bytes()));
        written.map_err(|error| {
            CommandError::new(exit::WRITE_FAILED, "cannot write the results")
                .at(place(self.flag, &self.path, &system_words(&error)))
                .effect("the run is over; its report is on the screen")
        })?;
        self.is_new = false;
        Ok(())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.is_new {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The files of one run: its report and its history.
#[derive(Debug)]
pub(crate) struct Files<'a> {
    output: Option<OutputFile>,
    history: Option<(&'a Path, File)>,
    drawings: Drawings,
}

impl<'a> Files<'a> {
    /// Opens the files that the flags name.
    pub(crate) fn open(flags: &'a FileFlags) -> Result<Self, CommandError> {
        let (output, history) = (flags.output.as_deref(), flags.history.as_deref());
        let named = [
            ("--output", "FILE.json", output),
            ("--history", "FILE.jsonl", history),
        ];
        let drawings = Drawings::open(&flags.drawings, &named)?;
        let output = output
            .map(|path| OutputFile::open("--output", path))
            .transpose()?;
        let history = history.map(|path| Ok((path, open_history("--history", path)?)));
        Ok(Self {
            output,
            history: history.transpose()?,
            drawings,
        })
    }

    /// The history file, which is written during the run.
    pub(crate) fn history(&self) -> Result<Option<File>, CommandError> {
        let shared = self.history.as_ref().map(|(path, file)| {
            let shared = file.try_clone();
            shared.map_err(|error| cannot_open("--history", path, &error))
        });
        shared.transpose()
    }

    /// The flag that named the history, and its path.
    pub(crate) fn history_flag(&self) -> Option<(&'static str, &'a Path)> {
        self.history.as_ref().map(|(path, _)| ("--history", *path))
    }

    /// Writes the whole history of a run that was not written as it happened.
    pub(crate) fn record(&self, judged: &Judged) -> Result<(), CommandError> {
        let (Some(file), Some((path, _))) = (self.history()?, &self.history) else {
            return Ok(());
        };
        let history = History {
            header: judged.header.clone(),
            events: judged.events.clone(),
        };
        let written = history.write(file);
        written.map_err(|error| not_written("--history", path, &error))
    }

    /// Writes the shortest beginning that convicts the lock beside the history. Returns its path, if there is one.
    pub(crate) fn save_beginning(&self, judged: &Judged) -> Result<Option<PathBuf>, CommandError> {
        match &self.history {
            // A device or a pipe has nothing beside it.
            Some((path, _)) if path.is_file() => save_beginning("--history", path, judged),
            _ => Ok(None),
        }
    }

    /// Writes the report and the drawings, and appends the verdict to the history.
    pub(crate) fn fill(
        self,
        report: &Value,
        verdict: &Verdict,
        events: usize,
        page: &Page<'_>,
    ) -> Result<(), CommandError> {
        if let Some((path, mut file)) = self.history {
            seal("--history", path, &mut file, verdict, events)?;
        }
        self.output.map_or(Ok(()), |output| output.fill(report))?;
        self.drawings.fill(page)
    }
}

/// Appends the verdict to a history.
pub(crate) fn seal(
    flag: &'static str,
    path: &Path,
    file: &mut File,
    verdict: &Verdict,
    events: usize,
) -> Result<(), CommandError> {
    let sealed = Seal::of(verdict, events).write(file);
    sealed.map_err(|error| {
        CommandError::new(exit::WRITE_FAILED, "cannot write the history")
            .at(place(flag, path, &system_words(&error)))
            .effect(format_args!(
                "the run is over; the file ends at #{events} and is readable"
            ))
    })
}

/// Writes the shortest beginning that convicts a lock beside the history at this path: `storm.prefix.jsonl` beside `storm.jsonl`.
/// Returns its path; `None` if there is no such beginning.
pub(crate) fn save_beginning(
    flag: &'static str,
    path: &Path,
    judged: &Judged,
) -> Result<Option<PathBuf>, CommandError> {
    let (Some(shortest), Some(history)) = (&judged.shortest, judged.beginning()) else {
        return Ok(None);
    };
    let path = path.with_extension("prefix.jsonl");
    let file = open_history(flag, &path)?;
    let shared = file.try_clone();
    let written = shared.and_then(|shared| history.write(shared));
    written.map_err(|error| not_written(flag, &path, &error))?;
    let mut file = file;
    seal(flag, &path, &mut file, &shortest.verdict, shortest.events)?;
    Ok(Some(path))
}

fn not_written(flag: &str, path: &Path, error: &io::Error) -> CommandError {
    CommandError::new(exit::WRITE_FAILED, "cannot write the history")
        .at(place(flag, path, &system_words(error)))
        .effect("the run is over; the file is not complete")
}

/// Opens a file that is written during the run, and truncates it.
pub(crate) fn open_history(flag: &'static str, path: &Path) -> Result<File, CommandError> {
    File::create(path).map_err(|error| cannot_open(flag, path, &error))
}

/// Creates the folder for the results if it does not exist.
pub(crate) fn open_folder(flag: &'static str, path: &Path) -> Result<(), CommandError> {
    fs::create_dir_all(path).map_err(|error| cannot_open(flag, path, &error))
}

/// Truncates a regular file. Devices and pipes cannot be truncated.
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

fn cannot_open(flag: &str, path: &Path, error: &io::Error) -> CommandError {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    let cannot_write = CommandError::new(exit::CANNOT_CREATE, "cannot write the results");
    let effect = "none: checked before the run";
    match folder {
        Some(folder) if error.kind() == io::ErrorKind::NotFound => cannot_write
            .at(place(
                flag,
                path,
                &format!("no such directory ({})", folder.display()),
            ))
            .effect(effect)
            .try_this(format_args!("mkdir -p {}", folder.display())),
        _ => cannot_write
            .at(place(flag, path, &system_words(error)))
            .effect(effect),
    }
}
