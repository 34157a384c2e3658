//! `--report FILE.html` and `--trace FILE`: opened before the run, written when it is over.

use std::path::{Path, PathBuf};

use clap::Args;
use fencepost_trial::report::html::{self, Page};
use fencepost_trial::report::trace;

use super::OutputFile;
use crate::command_error::CommandError;
use crate::exit;

/// The flags for the HTML report and the trace.
#[derive(Debug, Args)]
pub(crate) struct DrawingFlags {
    #[arg(long)]
    pub(crate) report: Option<PathBuf>,
    #[arg(long)]
    pub(crate) trace: Option<PathBuf>,
}

/// A flag, an example of a file name for it, and the name that was given.
pub(super) type Named<'a> = (&'static str, &'static str, Option<&'a Path>);

/// The open files for the HTML report and the trace.
#[derive(Debug, Default)]
pub(crate) struct Drawings {
    report: Option<OutputFile>,
    trace: Option<OutputFile>,
}

impl Drawings {
    /// Opens the files that the flags name. Returns an error if two flags name the same file; `others` are the files of other flags.
    pub(crate) fn open(flags: &DrawingFlags, others: &[Named<'_>]) -> Result<Self, CommandError> {
        let report = ("--report", "FILE.html", flags.report.as_deref());
        let trace = ("--trace", "TRACE.json", flags.trace.as_deref());
        one_file_each(&[others, &[report, trace]].concat())?;
        let open = |flag, path: &Option<PathBuf>| {
            let path = path.as_deref();
            path.map(|path| OutputFile::open(flag, path)).transpose()
        };
        Ok(Self {
            report: open("--report", &flags.report)?,
            trace: open("--trace", &flags.trace)?,
        })
    }

    /// Writes the page and the trace, if their flags were given.
    pub(crate) fn fill(self, page: &Page<'_>) -> Result<(), CommandError> {
        if let Some(file) = self.report {
            file.fill_with(&html::render(page))?;
        }
        if let Some(file) = self.trace {
            file.fill_with(&format!("{}\n", trace::trace(page)))?;
        }
        Ok(())
    }
}

/// A canonical path, which is the same for all names of a file, even if the file does not exist yet.
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
