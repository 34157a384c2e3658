//! `--report FILE.html` and `--trace FILE`: opened before the run, written when it is over.

use std::path::PathBuf;

use clap::Args;
use fencepost_trial::report::html::{self, Page};
use fencepost_trial::report::trace;

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

/// The files that wait for their runs.
#[derive(Debug, Default)]
pub(crate) struct Drawings {
    report: Option<Results>,
    trace: Option<Results>,
}

impl Drawings {
    /// Opens what was asked for.
    pub(crate) fn open(flags: &DrawingFlags) -> Result<Self, Fault> {
        let open = |flag, path: &Option<PathBuf>| {
            let path = path.as_deref();
            path.map(|path| Results::open(flag, path)).transpose()
        };
        Ok(Self {
            report: open("--report", &flags.report)?,
            trace: open("--trace", &flags.trace)?,
        })
    }

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
