//! Notices when the lab itself stalls, because it was stopped or because the machine is busy, and when the machine was suspended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use super::Stage;
use crate::history::What;
use crate::processes::{LOOK_UP, stall_ms};

impl Stage<'_> {
    /// Records that the lab itself stalled, or that the machine was suspended, if so since it was here last.
    pub(super) fn notice_stall(&mut self) {
        let slept = self.subjects.slept_ms();
        let now = Instant::now();
        if let Some(for_ms) = slept {
            self.diary.later(now, None, What::Slept { for_ms });
        }
        if let Some(for_ms) = stall_ms(now, &mut self.last_seen) {
            self.diary.later(now, None, What::Stalled { for_ms });
        }
    }

    /// Records that the lab stalled while it was busy for long with something else.
    pub(super) fn was_busy(&mut self, stalls: Vec<(Instant, f64)>) {
        for (at, for_ms) in stalls {
            self.diary.later(at, None, What::Stalled { for_ms });
        }
        self.last_seen = Instant::now();
    }
}

/// Does something that takes long. Returns its result and the times at which the lab stalled meanwhile: when each ended, and how many
/// milliseconds it lasted.
pub(super) fn witnessed<T>(act: impl FnOnce() -> T) -> (T, Vec<(Instant, f64)>) {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let witness = scope.spawn(|| {
            let (mut last_seen, mut stalls) = (Instant::now(), Vec::new());
            while !is_done.load(Ordering::SeqCst) {
                thread::park_timeout(LOOK_UP);
                stalls.extend(stall_until(Instant::now(), &mut last_seen));
            }
            stalls
        });
        let result = act();
        is_done.store(true, Ordering::SeqCst);
        witness.thread().unpark();
        (result, witness.join().unwrap_or_default())
    })
}

/// Returns the stall that ends now, and how many milliseconds it lasted, if whoever looks was away for too long.
fn stall_until(now: Instant, last_seen: &mut Instant) -> Option<(Instant, f64)> {
    stall_ms(now, last_seen).map(|for_ms| (now, for_ms))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_long_act_is_no_stall() {
        let (result, stalls) = witnessed(|| {
            thread::sleep(Duration::from_millis(700));
            7
        });
        assert_eq!(result, 7);
        // A busy machine may stand still, but not for the whole time.
        assert!(
            stalls.iter().all(|(_, for_ms)| *for_ms < 650.0),
            "{stalls:?}"
        );
    }

    #[test]
    fn whoever_was_away_for_too_long_has_stalled_once() {
        let now = Instant::now();
        let mut last_seen = now.checked_sub(Duration::from_millis(400)).unwrap();
        let soon = now + Duration::from_millis(60);
        let looks = [now, now, soon].map(|at| stall_until(at, &mut last_seen));
        assert_eq!(looks, [Some((now, 400.0)), None, None]);
    }
}
