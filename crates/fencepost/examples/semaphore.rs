//! A semaphore: six jobs share two devices, and a device refuses a holder that lost its permit without noticing.
//!
//! `cargo run -p fencepost --features sqlite --example semaphore`, in several terminals at once

use std::sync::Arc;
use std::time::Duration;

use fencepost::Locker;
use fencepost::resource::FencedCell;
use fencepost::stores::sqlite::Sqlite;
use tokio::task::JoinSet;

const DEVICES: u32 = 2;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::temp_dir().join("fencepost-example.db");
    let locker = Locker::new(Arc::new(Sqlite::open(&file).await?));
    // The first use stores the number of permits, for all processes.
    let devices = locker.semaphore("devices", DEVICES)?;
    // Each slot is a resource of its own, with its own highest fence. Real devices are outside of this process.
    let written: Arc<Vec<_>> = Arc::new((0..DEVICES).map(|_| FencedCell::new(0)).collect());

    let mut jobs: JoinSet<fencepost::Result<()>> = JoinSet::new();
    for job in 1..=6 {
        let (devices, written) = (devices.clone(), written.clone());
        jobs.spawn(async move {
            let permit = devices.acquire(1).await?;
            println!(
                "job {job}: device {}, fence {}",
                permit.slot(),
                permit.fence()
            );
            let work = tokio::time::sleep(Duration::from_millis(300));
            // An error if the permit is lost; the work is then dropped.
            let done = permit.run(work).await;
            for (slot, credential) in permit.credentials() {
                if let Some(device) = written.get(slot as usize) {
                    match device.update(credential, |value| *value = job) {
                        Ok(()) => println!("job {job}: wrote to device {slot}"),
                        Err(refused) => println!("job {job}: refused by device {slot}: {refused}"),
                    }
                }
            }
            println!("job {job}: {done:?}, {:?}", permit.release().await);
            Ok(())
        });
    }
    while let Some(job) = jobs.join_next().await {
        job??;
    }
    println!(
        "{} of {} free",
        devices.available().await?,
        devices.permits().await?
    );
    Ok(())
}
