//! Hold a lock: the shortest useful program. Run it in two terminals at once.
//!
//! `cargo run -p fencepost --features sqlite --example hold`

use std::sync::Arc;
use std::time::Duration;

use fencepost::Locker;
use fencepost::stores::sqlite::Sqlite;

#[tokio::main(flavor = "current_thread")]
async fn main() -> fencepost::Result<()> {
    let file = std::env::temp_dir().join("fencepost-example.db");
    let locker = Locker::new(Arc::new(Sqlite::open(&file).await?));

    println!("waiting for 'report' …");
    let guard = locker.acquire("report").await?;
    println!("holding it, fence {}", guard.fence());

    // The locker renews the lease while the guard lives, however long this takes.
    tokio::time::sleep(Duration::from_secs(2)).await;

    println!("given back: {:?}", guard.release().await);
    Ok(())
}
