//! An allocator that counts live bytes while counting is turned on.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// The system's allocator with a counter. When off, it costs one load, so that it does not disturb time measurements.
pub(crate) struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static ALIVE: AtomicI64 = AtomicI64::new(0);

/// Returns how many more bytes are allocated after `work` than before, and the result of `work`.
pub(crate) fn bytes_kept<T>(work: impl FnOnce() -> T) -> (i64, T) {
    let before = ALIVE.load(Ordering::SeqCst);
    COUNTS.store(true, Ordering::SeqCst);
    let output = work();
    COUNTS.store(false, Ordering::SeqCst);
    (ALIVE.load(Ordering::SeqCst) - before, output)
}

fn count(bytes: i64) {
    if COUNTS.load(Ordering::Relaxed) {
        ALIVE.fetch_add(bytes, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's guarantee is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the caller's guarantee is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: the caller's guarantee is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
