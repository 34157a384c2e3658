//! Drops a future after a given number of polls.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Polls `future` at most `times` times, each time it is woken, and then drops it. Returns `None` if it was not ready.
///
/// The future is dropped within the last poll, so nothing has to wake it once more.
pub async fn polled<T>(times: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = times;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
