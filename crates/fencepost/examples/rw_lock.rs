//! A read-write lock: readers together, a writer alone, and a resource that refuses a late writer.
//!
//! `cargo run -p fencepost --example rw_lock`

use std::sync::Arc;
use std::time::Duration;

use fencepost::Locker;
use fencepost::resource::FencedRwCell;
use fencepost::stores::memory::Memory;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Arc::new(Memory::new());
    let locker = |keep_alive| {
        let settings = Locker::builder(store.clone()).ttl(Duration::from_millis(200));
        settings.keep_alive(keep_alive).build()
    };
    let (awake, sleepy) = (locker(true)?, locker(false)?);
    let lock = awake.rw_lock("config")?;
    let config = FencedRwCell::new(String::from("port = 80"));

    let (one, other) = (lock.read().await?, lock.read().await?);
    println!(
        "two readers, fences {} and {}: {:?}",
        one.fence(),
        other.fence(),
        config.view(one.credential(), Clone::clone)?
    );
    println!(
        "a writer beside them? {}",
        lock.try_write().await?.is_some()
    );
    drop((one, other));

    // This writer does not renew its lease, and sleeps past its end.
    let stale = sleepy.rw_lock("config")?.write().await?;
    println!("a writer, fence {}, falls asleep", stale.fence());
    let reader = lock.read().await?;
    let seen = config.view(reader.credential(), Clone::clone)?;
    println!("a reader, fence {}: {seen:?}", reader.fence());
    match config.update(stale.credential(), |text| text.push_str("81")) {
        Ok(()) => println!("the writer changed what the reader has read"),
        Err(refused) => println!("the writer: refused: {refused}"),
    }
    drop(reader);

    let writer = lock.write().await?;
    config.update(writer.credential(), |text| *text = "port = 8080".into())?;
    let reader = writer.downgrade().await?;
    println!(
        "a writer that became a reader, fence {}: {:?}",
        reader.fence(),
        config.view(reader.credential(), Clone::clone)?
    );
    println!("{:?}", reader.release().await);
    Ok(())
}
