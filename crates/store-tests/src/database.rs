//! A Postgres database for one test, on the server named by `FENCEPOST_SHARED_POSTGRES` or on a private one.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio_postgres::NoTls;

/// A database that is dropped with this value.
pub struct Database {
    url: String,
    shared: Option<Shared>,
    // Dropped after everything that uses it.
    _server: Option<fencepost_rig::Postgres>,
}

/// The server on which it was created, and its name.
struct Shared {
    server: String,
    name: String,
}

impl Database {
    /// Creates a new, empty database.
    ///
    /// Call this from a thread that lives as long as the database is needed.
    pub async fn make() -> Self {
        let Ok(server) = std::env::var("FENCEPOST_SHARED_POSTGRES") else {
            let server = fencepost_rig::Postgres::start().expect("a private server");
            return Self {
                url: server.url(),
                shared: None,
                _server: Some(server),
            };
        };
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("trial_{}_{count}", std::process::id());
        tell(&server, &format!("CREATE DATABASE {name}")).await;
        let (base, _database) = server.rsplit_once('/').expect("an address with a database");
        Self {
            url: format!("{base}/{name}"),
            shared: Some(Shared { server, name }),
            _server: None,
        }
    }

    /// Returns its address.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let Some(Shared { server, name }) = self.shared.take() else {
            return;
        };
        // Its connections may still be closing.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            let statement = format!("DROP DATABASE {name} WITH (FORCE)");
            runtime.block_on(tell(&server, &statement));
        });
        if dropped.join().is_err() && !std::thread::panicking() {
            panic!("the test's database could not be dropped");
        }
    }
}

async fn tell(server: &str, statement: &str) {
    let (client, connection) = tokio_postgres::connect(server, NoTls)
        .await
        .expect("the shared server");
    let driver = tokio::spawn(connection);
    client.batch_execute(statement).await.expect(statement);
    drop(client);
    let _closed = driver.await;
}
