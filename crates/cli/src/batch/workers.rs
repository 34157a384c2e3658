//! A pool of threads that take trials from one list and report their progress.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// What a worker reports.
pub(super) enum News<T> {
    /// A worker began this piece of work.
    Begun(usize),
    /// A worker finished this piece of work after this time.
    Done(usize, T, Duration),
}

/// The work, and how many threads share it.
pub(super) struct WorkList<'a> {
    pub(super) cells: &'a [usize],
    pub(super) workers: usize,
}

impl WorkList<'_> {
    /// Does all the work. Calls `hear` on this thread for every report, and now and then without one. After an error, no more work is
    /// begun. Each piece of work stays on one thread that outlives it, because child processes need that.
    pub(super) fn run<T: Send, E: Send>(
        &self,
        work: &(dyn Fn(usize) -> Result<T, E> + Sync),
        every: Duration,
        hear: &mut dyn FnMut(Option<News<Result<T, E>>>),
    ) {
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let worker = |tell: Sender<News<Result<T, E>>>| {
            while !stop.load(Ordering::Relaxed) {
                let Some(&cell) = self.cells.get(next.fetch_add(1, Ordering::Relaxed)) else {
                    return;
                };
                let begun = Instant::now();
                // The receiver lives until all workers are done.
                let _ = tell.send(News::Begun(cell));
                let done = work(cell);
                stop.fetch_or(done.is_err(), Ordering::Relaxed);
                let _ = tell.send(News::Done(cell, done, begun.elapsed()));
            }
        };
        let worker = &worker;
        thread::scope(|scope| {
            let (tell, news) = mpsc::channel();
            for number in 0..self.workers.min(self.cells.len()) {
                let tell = tell.clone();
                let builder = thread::Builder::new().name(format!("worker {number}"));
                // With fewer threads the work takes longer; without any, nothing is reported.
                let _ = builder.spawn_scoped(scope, move || worker(tell));
            }
            drop(tell);
            loop {
                match news.recv_timeout(every) {
                    Ok(news) => hear(Some(news)),
                    Err(RecvTimeoutError::Timeout) => hear(None),
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    const SOON: Duration = Duration::from_millis(1);

    #[test]
    fn as_many_as_there_are_workers_work_at_once_and_all_is_done() {
        let meeting = Barrier::new(3);
        let cells: Vec<usize> = (0..9).collect();
        let mut done = Vec::new();
        let work = |cell: usize| {
            meeting.wait();
            Ok::<usize, ()>(cell * 2)
        };
        let list = WorkList {
            cells: &cells,
            workers: 3,
        };
        list.run(&work, SOON, &mut |news| {
            if let Some(News::Done(cell, Ok(twice), _)) = news {
                assert_eq!(twice, cell * 2);
                done.push(cell);
            }
        });
        done.sort_unstable();
        assert_eq!(done, cells);
    }

    #[test]
    fn nothing_is_begun_after_an_error() {
        let (cells, mut begun) = ([0, 1, 2, 3], Vec::new());
        let work = |cell: usize| if cell == 1 { Err(()) } else { Ok(()) };
        let list = WorkList {
            cells: &cells,
            workers: 1,
        };
        list.run(&work, SOON, &mut |news| {
            if let Some(News::Begun(cell)) = news {
                begun.push(cell);
            }
        });
        assert_eq!(begun, [0, 1]);
    }
}
