//! Stop when the lock is lost: `run` drops the work, and returns the reason.
//!
//! `cargo run -p fencepost --example stop_when_lost`

use std::sync::Arc;
use std::time::Duration;

use fencepost::Locker;
use fencepost::stores::memory::Memory;

#[tokio::main(flavor = "current_thread")]
async fn main() -> fencepost::Result<()> {
    // Without keep-alive, a hold ends after its TTL: the quickest way to lose a lock.
    let locker = Locker::builder(Arc::new(Memory::new()))
        .ttl(Duration::from_millis(500))
        .keep_alive(false)
        .build()?;
    let guard = locker.acquire("import").await?;

    let import = async {
        for row in 1.. {
            println!("row {row}, valid for {:?}", guard.valid_for());
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    };
    match guard.run(import).await {
        Ok(()) => println!("done"),
        Err(lost) => println!("stopped: {lost}"),
    }
    Ok(())
}
