//! The output files of a run. They are opened before the run, so that an invalid path does not waste it.

use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use fencepost_trial::history::History;
use fencepost_trial::holds::Judged;
use fencepost_trial::processes::NoVerdict;
use fencepost_trial::report::html::Page;
use fencepost_trial::saved::Seal;
use fencepost_trial::verdict::Verdict;
use serde_json::Value;

use crate::command_error::{CommandError, system_words};
use crate::exit;
use crate::no_verdict::{UsedFlags, explain};

/// The flags that name the output files of one trial.
#[derive(Debug, Args)]
pub(crate) struct FileFlags {
    #[arg(long)]
    pub(crate) output: Option<PathBuf>,
    #[arg(long)]
    history: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) drawings: DrawingFlags,
}

/// The flags for the HTML report and the trace.
#[derive(Debug, Args)]
pub(crate) struct DrawingFlags {
    #[arg(long)]
    report: Option<PathBuf>,
    #[arg(long)]
    trace: Option<PathBuf>,
}

/// The results of a trial, as its files show them.
pub(crate) struct EndedTrial<'a> {
    pub(crate) report: Value,
    pub(crate) verdict: &'a Verdict,
    /// The number of events in the history.
    pub(crate) events: usize,
    pub(crate) page: Page<'a>,
    /// The lock trial, whose shortest beginning is saved beside the history; `None` for a sale.
    pub(crate) lock_trial: Option<&'a Judged>,
    /// Whether the history was written as it happened. That of the worst of several storms is written at the end.
    pub(crate) is_recorded: bool,
}

/// The files of one trial: its report, its history and its drawings.
#[derive(Debug)]
pub(crate) struct Files {
    output: Option<OutputFile>,
    history: Option<HistoryFile>,
    drawings: Drawings,
}

impl Files {
    /// Opens the files that the flags name.
    pub(crate) fn open(flags: &FileFlags) -> Result<Self, CommandError> {
        let (output, history) = (flags.output.as_deref(), flags.history.as_deref());
        let named = [
            ("--output", "FILE.json", output),
            ("--history", "FILE.jsonl", history),
        ];
        let drawings = Drawings::open(&flags.drawings, &named)?;
        let output = output.map(|path| OutputFile::open("--output", path));
        let history = history.map(|path| HistoryFile::open("--history", path));
        Ok(Self {
            output: output.transpose()?,
            history: history.transpose()?,
            drawings,
        })
    }

    /// Returns the history, if its flag was given.
    pub(crate) fn history(&self) -> Option<&HistoryFile> {
        self.history.as_ref()
    }

    /// Returns the error message for a trial without a verdict, which mentions the history if there is one. `has_concurrency` says whether
    /// `--concurrency` sets the number of processes.
    pub(crate) fn explain(&self, no_verdict: &NoVerdict, has_concurrency: bool) -> CommandError {
        let history = self.history.as_ref();
        let flags = UsedFlags {
            history: history.map(|history| (history.flag, history.path.as_path())),
            has_concurrency,
        };
        explain(no_verdict, flags)
    }

    /// Opens another handle to the history, for the run to write to.
    pub(crate) fn recording(&self) -> Result<Option<File>, CommandError> {
        let handle = self.history.as_ref().map(|history| {
            let handle = history.handle();
            handle.map_err(|error| cannot_open(history.flag, &history.path, &error))
        });
        handle.transpose()
    }

    /// Opens a handle to the history for a run that may not be the one to keep; `None` if that cannot be replaced afterwards, as in a
    /// pipe.
    pub(crate) fn draft(&self) -> Result<Option<File>, CommandError> {
        match &self.history {
            Some(history) if history.path.is_file() => self.recording(),
            _ => Ok(None),
        }
    }

    /// Writes the report and the drawings, and completes the history: it appends the verdict and saves the shortest beginning that
    /// convicts.
    pub(crate) fn fill(self, ended: &EndedTrial<'_>) -> Result<(), CommandError> {
        if let Some(history) = &self.history {
            if let (false, Some(judged)) = (ended.is_recorded, ended.lock_trial) {
                history.replace(&judged.history())?;
            }
            history.seal(ended.verdict, ended.events)?;
        }
        if let Some(output) = self.output {
            output.fill(&ended.report)?;
        }
        self.drawings.fill(&ended.page)?;
        match (&self.history, ended.lock_trial) {
            (Some(history), Some(judged)) => history.save_beginning(judged),
            _ => Ok(()),
        }
    }
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

    /// Replaces the content of the file by a JSON document, which is on the screen as well, or as text.
    pub(crate) fn fill(self, document: &Value) -> Result<(), CommandError> {
        self.fill_with(&format!("{document:#}\n"))
    }

    /// Replaces the content of the file by this text. Call it when the result is on the screen: the error says so.
    pub(crate) fn fill_with(self, text: &str) -> Result<(), CommandError> {
        self.replace(text, "the run is over; its report is on the screen")
    }

    /// Replaces the content of the file by the report of one trial among many, which is nowhere else.
    pub(crate) fn fill_alone(self, document: &Value) -> Result<(), CommandError> {
        let effect = "the trial is over; its report was not written";
        self.replace(&format!("{document:#}\n"), effect)
    }

    fn replace(mut self, text: &str, effect: &str) -> Result<(), CommandError> {
        let written = truncate(&self.file).and_then(|()| self.file.write_all(text.as_bytes()));
        written.map_err(|error| {
            CommandError::new(exit::WRITE_FAILED, "cannot write the results")
                .at(place(self.flag, &self.path, &system_words(&error)))
                .effect(effect)
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

/// A history, which is written during the run and sealed with the verdict.
#[derive(Debug)]
pub(crate) struct HistoryFile {
    file: File,
    path: PathBuf,
    /// The flag that named it, or its folder.
    flag: &'static str,
}

impl HistoryFile {
    /// Opens the file and truncates it.
    pub(crate) fn open(flag: &'static str, path: &Path) -> Result<Self, CommandError> {
        let file = File::create(path).map_err(|error| cannot_open(flag, path, &error))?;
        let path = path.to_owned();
        Ok(Self { file, path, flag })
    }

    /// Opens another handle to the file, for the run to write to.
    pub(crate) fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the whole history of a run that was not written as it happened, instead of what the file contains.
    pub(crate) fn replace(&self, history: &History) -> Result<(), CommandError> {
        let written = self.clear().and_then(|handle| history.write(handle));
        written
            .map_err(|error| not_written(self.flag, &self.path, &error, "the file is not complete"))
    }

    /// Empties a regular file. Returns another handle to it.
    fn clear(&self) -> io::Result<File> {
        let mut handle = self.handle()?;
        if self.path.is_file() {
            handle.set_len(0)?;
            handle.rewind()?;
        }
        Ok(handle)
    }

    /// Appends the verdict.
    pub(crate) fn seal(&self, verdict: &Verdict, events: usize) -> Result<(), CommandError> {
        let seal = Seal::of(verdict, events);
        let sealed = self.handle().and_then(|mut handle| seal.write(&mut handle));
        sealed.map_err(|error| {
            let left = format!("the file ends at #{events} and is readable");
            not_written(self.flag, &self.path, &error, &left)
        })
    }

    /// Returns the file of the shortest beginning that convicts a lock: `storm.prefix.jsonl` beside `storm.jsonl`. `None` if there is no
    /// such beginning.
    pub(crate) fn beginning_path(&self, judged: &Judged) -> Option<PathBuf> {
        // A device or a pipe has nothing beside it.
        let has_beginning = judged.shortest.is_some() && self.path.is_file();
        has_beginning.then(|| self.path.with_extension("prefix.jsonl"))
    }

    /// Writes the shortest beginning that convicts a lock, if there is one, beside this history, which is complete by then.
    pub(crate) fn save_beginning(&self, judged: &Judged) -> Result<(), CommandError> {
        let beginning = judged.shortest.as_ref().zip(judged.beginning());
        let (Some(path), Some((shortest, history))) = (self.beginning_path(judged), beginning)
        else {
            return Ok(());
        };
        let written = File::create(&path).and_then(|mut file| {
            history.write(file.try_clone()?)?;
            Seal::of(&shortest.verdict, shortest.events).write(&mut file)
        });
        written.map_err(|error| {
            let left = format!("the whole history is in {}", self.path.display());
            not_written(self.flag, &path, &error, &left)
        })
    }
}

/// Returns the error for a history that cannot be written when the run is over.
fn not_written(flag: &str, path: &Path, error: &io::Error, left: &str) -> CommandError {
    CommandError::new(exit::WRITE_FAILED, "cannot write the history")
        .at(place(flag, path, &system_words(error)))
        .effect(format_args!("the run is over; {left}"))
}

/// The open files for the HTML report and the trace.
#[derive(Debug, Default)]
pub(crate) struct Drawings {
    report: Option<OutputFile>,
    trace: Option<OutputFile>,
}

/// A flag, an example of a file name for it, and the name that was given.
type Named<'a> = (&'static str, &'static str, Option<&'a Path>);

impl Drawings {
    /// Opens the files that the flags name. Returns an error if two flags name the same file; `others` are the files of other flags.
    pub(crate) fn open(flags: &DrawingFlags, others: &[Named<'_>]) -> Result<Self, CommandError> {
        let report = ("--report", "FILE.html", flags.report.as_deref());
        let trace = ("--trace", "TRACE.json", flags.trace.as_deref());
        one_file_each(&[others, &[report, trace]].concat())?;
        let open = |(flag, _, path): Named<'_>| {
            let file = path.map(|path| OutputFile::open(flag, path));
            file.transpose()
        };
        Ok(Self {
            report: open(report)?,
            trace: open(trace)?,
        })
    }

    /// Writes the page and the trace, if their flags were given.
    pub(crate) fn fill(self, page: &Page<'_>) -> Result<(), CommandError> {
        if let Some(file) = self.report {
            file.fill_with(&page.render())?;
        }
        if let Some(file) = self.trace {
            file.fill_with(&format!("{}\n", page.trace()))?;
        }
        Ok(())
    }
}

fn one_file_each(files: &[Named<'_>]) -> Result<(), CommandError> {
    for (index, (flag, name, path)) in files.iter().enumerate() {
        for (other, other_name, other_path) in &files[index + 1..] {
            let (one, two) = (path.map(identity), other_path.map(identity));
            if one.is_some() && one == two {
                let what = format!("{flag} and {other} name the same file");
                let advice = format!("{flag} {name} {other} {other_name}");
                return Err(CommandError::new(exit::USAGE, what).try_this(advice));
            }
        }
    }
    Ok(())
}

/// Returns a canonical path, which is the same for all names of a file, even if the file does not exist yet.
fn identity(path: &Path) -> PathBuf {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize();
    let not_yet = folder.map(|folder| folder.join(path.file_name().unwrap_or_default()));
    path.canonicalize()
        .or(not_yet)
        .unwrap_or_else(|_| path.to_owned())
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
