//! Blocking use: ordinary threads, no async anywhere.
//!
//! `cargo run -p fencepost --example blocking --features blocking,sqlite`

use std::sync::Arc;
use std::time::Duration;

use fencepost::blocking::Locker;
use fencepost::stores::sqlite::Sqlite;

fn main() -> fencepost::Result<()> {
    let file = std::env::temp_dir().join("fencepost-example.db");
    let store = Arc::new(Sqlite::open_blocking(&file)?);
    let locker = Locker::builder(store).ttl(Duration::from_secs(5)).build()?;

    std::thread::scope(|scope| {
        for worker in 1..=3 {
            let locker = locker.clone();
            scope.spawn(move || match locker.acquire("printer") {
                Ok(guard) => println!("worker {worker} prints, fence {}", guard.fence()),
                Err(error) => println!("worker {worker}: {error}"),
            });
        }
    });
    Ok(())
}
