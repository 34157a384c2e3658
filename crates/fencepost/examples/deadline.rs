//! Wait with a deadline: busy is an answer, not an error.
//!
//! `cargo run -p fencepost --example deadline`

use std::sync::Arc;
use std::time::Duration;

use fencepost::Locker;
use fencepost::stores::memory::Memory;

#[tokio::main(flavor = "current_thread")]
async fn main() -> fencepost::Result<()> {
    let locker = Locker::new(Arc::new(Memory::new()));
    let held = locker.acquire("seat-12A").await?;

    match locker.try_acquire("seat-12A").await? {
        Some(_) => println!("mine"),
        None => println!("taken: not tried any further"),
    }
    match locker
        .acquire_within("seat-12A", Duration::from_millis(200))
        .await?
    {
        Some(_) => println!("mine"),
        None => println!("still taken after 200 ms"),
    }

    drop(held);
    match locker
        .acquire_within("seat-12A", Duration::from_millis(200))
        .await?
    {
        Some(guard) => println!("mine, fence {}", guard.fence()),
        None => println!("still taken after 200 ms"),
    }
    Ok(())
}
