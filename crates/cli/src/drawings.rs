//! `--report FILE.html` and `--trace FILE`: opened before the run, written when it is over.

use std::path::{Path, PathBuf};

use clap::Args;
use fencepost_trial::report::html::{self, Page};
use fencepost_trial::report::trace;

use crate::exit;
use crate::fault::Fault;
use crate::results::Results;

/// The flags, for every command that has runs to draw.
#[derive(Debug, Args)]
pub(crate) struct DrawingFlags {
    #[arg(long)]
    pub(crate) report: Option<PathBuf>,
    #[arg(long)]
    pub(crate) trace: Option<PathBuf>,
}

impl DrawingFlags {
    /// Opens what was asked for, beside the other files of the run.
    pub(crate) fn open(
        &self,
        output: Option<&Path>,
        history: Option<&Path>,
    ) -> Result<Drawings, Fault> {
        one_file_each([
            ("--output", "FILE.json", output),
            ("--history", "FILE.jsonl", history),
            ("--report", "FILE.html", self.report.as_deref()),
            ("--trace", "TRACE.json", self.trace.as_deref()),
        ])?;
        let open = |flag, path: &Option<PathBuf>| {
            let path = path.as_deref();
            path.map(|path| Results::open(flag, path)).transpose()
        };
        Ok(Drawings {
            report: open("--report", &self.report)?,
            trace: open("--trace", &self.trace)?,
        })
    }
}

/// Two results in one file would be none.
fn one_file_each(files: [(&str, &str, Option<&Path>); 4]) -> Result<(), Fault> {
    for (index, (flag, name, path)) in files.iter().enumerate() {
        for (other, other_name, other_path) in &files[index + 1..] {
            if path.is_some() && path == other_path {
                let what = format!("{flag} and {other} name the same file");
                let advice = format!("{flag} {name} {other} {other_name}");
                return Err(Fault::new(exit::USAGE, what).try_this(advice));
            }
        }
    }
    Ok(())
}

/// The files that wait for their runs.
#[derive(Debug, Default)]
pub(crate) struct Drawings {
    report: Option<Results>,
    trace: Option<Results>,
}

impl Drawings {
    /// Writes the page and the trace, as far as they were asked for.
    pub(crate) fn fill(self, page: &Page<'_>) -> Result<(), Fault> {
        if let Some(file) = self.report {
            file.fill_with(&html::render(page))?;
        }
        if let Some(file) = self.trace {
            file.fill_with(&format!("{}\n", trace::trace(page)))?;
        }
        Ok(())
    }
}
