//! Blocks the current thread on a future until a deadline, inside or outside of a runtime.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

/// Wakes the waiting thread.
struct Awake(Thread);

impl Wake for Awake {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Returns the output of the future if it is ready before the deadline. This works inside and outside of a runtime; strategies
/// are called in either.
pub(super) fn wait_until<F: Future>(deadline: Instant, future: F) -> Option<F::Output> {
    let waker = Waker::from(Arc::new(Awake(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        thread::park_timeout(left);
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_answer_is_awaited_until_the_deadline() {
        let soon = Instant::now() + Duration::from_millis(20);
        assert_eq!(wait_until(soon, ready(7)), Some(7));
        assert_eq!(wait_until(soon, pending::<()>()), None);
        assert!(Instant::now() >= soon);
    }

    #[test]
    fn an_answer_from_another_thread_wakes() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        thread::spawn(move || sender.send(7).unwrap());
        let late = Instant::now() + Duration::from_secs(30);
        assert_eq!(wait_until(late, receiver), Some(Ok(7)));
        assert!(Instant::now() < late);
    }
}
