//! A private database for one test, and the operations that tests perform on it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fencepost::random::SystemRandom;
use fencepost::resource::Credential;
use fencepost::{Fence, OwnerId};
use fencepost_checkout::id::Id;
use fencepost_checkout::order::{Basket, Order};
use fencepost_checkout::product::Product;
use fencepost_checkout::storage::sqlite::SqliteStorage;
use fencepost_checkout::storage::{
    Guarding, Key, Placed, Placement, Storage, StorageError, StorageFuture,
};
use fencepost_rig::TempDir;
use serde_json::json;
use tokio::runtime::Runtime;

pub(crate) struct Stage {
    runtime: Runtime,
    pub(crate) shop: Shop,
    keeper: Keeper,
}

enum Keeper {
    Folder {
        _folder: TempDir,
    },
    #[cfg(feature = "postgres")]
    Server {
        _server: Option<Box<fencepost_rig::Postgres>>,
    },
}

impl Stage {
    pub(crate) fn sqlite() -> Self {
        let folder = fencepost_rig::folder().unwrap();
        let storage = SqliteStorage::open(&folder.path().join("shop.db")).unwrap();
        Self {
            runtime: Runtime::new().unwrap(),
            shop: Shop(Arc::new(storage)),
            keeper: Keeper::Folder { _folder: folder },
        }
    }

    #[cfg(not(feature = "postgres"))]
    pub(crate) fn postgres() -> Self {
        unreachable!("ignored without Postgres")
    }

    /// Creates a private schema on the server that all tests share, or on a private server.
    #[cfg(feature = "postgres")]
    pub(crate) fn postgres() -> Self {
        use fencepost::random::Random;
        use fencepost_checkout::storage::postgres::PostgresStorage;
        let runtime = Runtime::new().unwrap();
        let shared = std::env::var("FENCEPOST_SHARED_POSTGRES").ok();
        let server = match shared {
            Some(_) => None,
            None => Some(fencepost_rig::Postgres::start_with(&["fsync=off"]).unwrap()),
        };
        let url = shared.unwrap_or_else(|| server.as_ref().unwrap().url());
        let schema = format!("checkout_{:016x}", SystemRandom.next_u64());
        let storage = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
                .await
                .unwrap();
            let connection = tokio::spawn(connection);
            let create = format!("CREATE SCHEMA {schema}");
            client.batch_execute(&create).await.unwrap();
            drop(client);
            connection.await.unwrap().unwrap();
            let address = format!("{url}?options=-csearch_path%3D{schema}");
            PostgresStorage::open(&address).await.unwrap()
        });
        Self {
            runtime,
            shop: Shop(Arc::new(storage)),
            keeper: Keeper::Server {
                _server: server.map(Box::new),
            },
        }
    }

    pub(crate) fn is_sqlite(&self) -> bool {
        matches!(self.keeper, Keeper::Folder { .. })
    }

    pub(crate) fn play<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(async {
            let played = tokio::time::timeout(Duration::from_secs(120), work).await;
            played.expect("it hangs")
        })
    }
}

/// Returns how often a race is repeated.
pub(crate) fn times(usual: usize) -> usize {
    if fencepost_rig::is_soak() {
        usual * 10
    } else {
        usual
    }
}

#[derive(Clone)]
pub(crate) struct Shop(pub(crate) Arc<dyn Storage>);

pub(crate) fn id(text: &str) -> Id {
    Id::new(text).unwrap()
}

/// Returns a credential of a new owner.
pub(crate) fn credential(epoch: u64) -> Credential {
    Credential::new(
        Fence::new(epoch, 0).unwrap(),
        OwnerId::random(&SystemRandom),
    )
}

pub(crate) fn basket(lines: &[(&str, i64)]) -> Basket {
    let items: Vec<_> = lines
        .iter()
        .map(|(product, quantity)| json!({"product_id": product, "quantity": quantity}))
        .collect();
    let request = json!({"cart_id": "cart", "user_id": "user",
        "shop_orders": [{"shop_id": "shop", "item_products": items}]});
    Basket::new(serde_json::from_value(request).unwrap()).unwrap()
}

pub(crate) fn key(name: &str, fingerprint: &str) -> Key {
    Key {
        key: name.into(),
        fingerprint: fingerprint.into(),
    }
}

impl Shop {
    pub(crate) async fn put_in(&self, product: &str, stock: i64) {
        let new = json!({"shop_id": "shop", "name": product, "price_cents": 100, "stock": stock});
        let new = serde_json::from_value(new).unwrap();
        assert!(
            self.0
                .add_product(new, id(product))
                .await
                .unwrap()
                .is_some()
        );
    }

    pub(crate) async fn product(&self, product: &str) -> Product {
        self.0.product(&id(product)).await.unwrap().unwrap()
    }

    pub(crate) async fn place(&self, lines: &[(&str, i64)], guarding: Guarding) -> Placed {
        self.place_as(lines, guarding, None, Duration::from_secs(600))
            .await
    }

    pub(crate) async fn place_as(
        &self,
        lines: &[(&str, i64)],
        guarding: Guarding,
        key: Option<Key>,
        reserve_for: Duration,
    ) -> Placed {
        let placement = Placement {
            order_id: Id::random(1_700_000_000_000).unwrap(),
            key,
            basket: basket(lines),
            reserve_for,
            guarding,
        };
        patiently(|| self.0.place(placement.clone())).await
    }

    pub(crate) async fn must_place(&self, lines: &[(&str, i64)], reserve_for: Duration) -> Order {
        match self
            .place_as(lines, Guarding::Rows, None, reserve_for)
            .await
        {
            Placed::Created(order) => order,
            other => panic!("{other:?}"),
        }
    }

    /// Checks that no unit was created or lost.
    pub(crate) async fn adds_up(&self) {
        for balance in self.0.balances().await.unwrap() {
            assert!(balance.holds(), "{balance:?}");
        }
    }
}

/// Retries the work: on a busy machine the database's own timeouts may expire, but a retry is eventually served.
pub(crate) async fn patiently<'a, T>(work: impl Fn() -> StorageFuture<'a, T>) -> T {
    loop {
        match work().await {
            Err(StorageError::Unavailable(why)) if why.contains("timeout") => {
                println!("again: {why}");
            }
            done => return done.unwrap(),
        }
    }
}
