//! A fenced write: a stale holder is refused by the resource, even though it never noticed that it lost the lock.
//!
//! `cargo run -p fencepost --example fenced_write`

use std::sync::Arc;
use std::time::Duration;

use fencepost::Locker;
use fencepost::resource::{FencedCell, FencedResource};
use fencepost::stores::memory::Memory;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Arc::new(Memory::new());
    let locker = |keep_alive| {
        let settings = Locker::builder(store.clone()).ttl(Duration::from_millis(200));
        settings.keep_alive(keep_alive).build()
    };
    let (sleepy, awake) = (locker(false)?, locker(true)?);
    let balance = FencedCell::new(100);

    let stale = sleepy.acquire("account").await?;
    let seen = balance.read(stale.credential())?;
    println!(
        "A, fence {}: reads {seen}, then sleeps past its lease",
        stale.fence()
    );

    let fresh = awake.acquire("account").await?;
    let read = balance.read(fresh.credential())?;
    balance.write(fresh.credential(), read + 50)?;
    println!("B, fence {}: adds 50", fresh.fence());

    match balance.write(stale.credential(), seen - 30) {
        Ok(()) => println!("A: wrote over B's update"),
        Err(refused) => println!("A: refused: {refused}"),
    }
    println!("balance {}", balance.read(fresh.credential())?);
    Ok(())
}
