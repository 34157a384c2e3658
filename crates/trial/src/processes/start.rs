//! The starting line of a sale: a locked file that releases all processes at the same moment.
//!
//! The lab writes requests one after the other, and on a busy machine the first process could finish before the last one is
//! asked. So the processes wait for a file that the lab has locked, and a single call releases all of them. An external lock
//! that does not use the file starts as soon as it is asked.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The lab's side.
#[derive(Debug)]
pub(crate) struct StartingLine {
    file: File,
    path: PathBuf,
}

impl StartingLine {
    /// Creates and locks a file in `folder`.
    pub(crate) fn draw(folder: &Path) -> io::Result<Self> {
        let path = folder.join("start");
        let file = File::create(&path)?;
        file.lock()?;
        Ok(Self { file, path })
    }

    /// Returns the path that subjects receive.
    pub(crate) fn path(&self) -> String {
        self.path.display().to_string()
    }

    /// Releases all waiting processes. A process that arrives later does not wait.
    pub(crate) fn go(&self) -> io::Result<()> {
        self.file.unlock()
    }
}

/// Waits on the subject's side: returns once the line is open, or immediately if the file does not exist.
pub(crate) fn wait_at(path: &str) {
    if let Ok(file) = fs::File::open(path) {
        let _ = file.lock_shared();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn nobody_crosses_before_the_start_and_everybody_after() {
        let folder = tempfile::tempdir().unwrap();
        let line = StartingLine::draw(folder.path()).unwrap();
        let crossed = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    wait_at(&line.path());
                    crossed.fetch_add(1, Ordering::SeqCst);
                });
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert_eq!(crossed.load(Ordering::SeqCst), 0);
            line.go().unwrap();
        });
        assert_eq!(crossed.load(Ordering::SeqCst), 4);
        wait_at(&line.path());
        wait_at("/no/such/line");
    }
}
