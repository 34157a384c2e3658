//! A stock that requires a credential for every read and write, and refuses outdated ones.

use std::str::FromStr;

use fencepost::resource::{Credential, FencedError, RedisRegister, Refused};
use fencepost::stores::redis::Redis;
use fencepost::{Effect, Error};

use super::perishable::PerishableStock;
#[cfg(feature = "postgres")]
use super::postgres::PostgresStock;
use super::sqlite::SqliteStock;
use crate::protocol::Failure;
use crate::store::{Ground, redis};

/// A connection to a fenced stock. It is separate from the lock: a resource knows about locks only through the credentials it
/// is shown.
pub(crate) enum FencedStock {
    /// Checks and accesses the stock in one transaction.
    Sqlite(SqliteStock),
    /// Checks and accesses the stock in one script, on the key that all other strategies use.
    Redis { server: Redis, endpoint: String },
    /// Does the same on keys that expire.
    Perishable(Box<PerishableStock>),
    /// Checks and accesses the stock in one transaction.
    #[cfg(feature = "postgres")]
    Postgres(Box<PostgresStock>),
}

impl FencedStock {
    pub(crate) async fn open(ground: &Ground) -> Result<Self, Failure> {
        Ok(match ground {
            Ground::Sqlite(path) => Self::Sqlite(SqliteStock::open(path)?),
            Ground::Redis(endpoint) if redis::is_scratch(endpoint) => {
                Self::Perishable(Box::new(PerishableStock::open(endpoint)?))
            }
            Ground::Redis(endpoint) => Self::Redis {
                server: redis::library(endpoint).await?,
                endpoint: endpoint.clone(),
            },
            Ground::Locks(servers) => Self::Sqlite(SqliteStock::open(&servers.stock_file)?),
            #[cfg(feature = "postgres")]
            Ground::Postgres(endpoint) => Self::Postgres(Box::new(PostgresStock::open(endpoint)?)),
            #[cfg(not(feature = "postgres"))]
            Ground::Postgres(_) => {
                return Err(Failure::definite("the lab was built without Postgres"));
            }
        })
    }

    /// Returns the units left, for the holder of a credential.
    pub(crate) async fn read(
        &mut self,
        product: &str,
        credential: Credential,
    ) -> Result<i64, Failure> {
        let (server, endpoint) = match self {
            Self::Sqlite(stock) => return stock.read_fenced(product, credential),
            Self::Perishable(stock) => return stock.read(product, credential),
            #[cfg(feature = "postgres")]
            Self::Postgres(stock) => return stock.read_fenced(product, credential),
            Self::Redis { server, endpoint } => (server, endpoint),
        };
        let found = register(server, endpoint, product).read(credential).await;
        let found = found.map_err(|error| failure(error, |_| true))?;
        let text = found.as_deref().map(String::from_utf8_lossy);
        let units = text.and_then(|text| i64::from_str(&text).ok());
        units.ok_or_else(|| Failure::definite(format!("there is no {product}")))
    }

    /// Sets the units left, for the holder of a credential.
    pub(crate) async fn write(
        &mut self,
        product: &str,
        units: i64,
        credential: Credential,
    ) -> Result<(), Failure> {
        let (server, endpoint) = match self {
            Self::Sqlite(stock) => return stock.write_fenced(product, units, credential),
            Self::Perishable(stock) => return stock.write(product, units, credential),
            #[cfg(feature = "postgres")]
            Self::Postgres(stock) => return stock.write_fenced(product, units, credential),
            Self::Redis { server, endpoint } => (server, endpoint),
        };
        let register = register(server, endpoint, product);
        let written = register.write(credential, units.to_string()).await;
        written.map_err(|error| failure(error, |error| error.effect() == Effect::None))
    }
}

fn register(server: &Redis, endpoint: &str, product: &str) -> RedisRegister {
    RedisRegister::new(server, &redis::key(endpoint, "stock", product))
}

/// Returns the failure of a late write. A refusal is definite: nothing was changed.
pub(super) fn late(refused: Refused) -> Failure {
    Failure::definite(format!("the stock refused a late holder: {refused}"))
}

/// Converts an error. `is_definite` says whether it means that certainly nothing was changed.
fn failure(error: FencedError, is_definite: fn(&Error) -> bool) -> Failure {
    match error {
        FencedError::Refused(refused) => late(refused),
        FencedError::Failed(error) if is_definite(&error) => Failure::definite(error),
        error => Failure::indefinite(error),
    }
}

#[cfg(test)]
mod tests {
    use fencepost::random::SystemRandom;
    use fencepost::{Fence, OwnerId};

    use super::*;
    use crate::store::tests::grounds;

    fn credential(epoch: u64) -> Credential {
        Credential::new(
            Fence::new(epoch, 0).unwrap(),
            OwnerId::random(&SystemRandom),
        )
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn it_is_the_same_stock_and_refuses_who_is_late() {
        let (_keeper, mut grounds) = grounds();
        let scratch = crate::store::tests::redis();
        grounds.extend(scratch.iter().map(|server| {
            let store = crate::store::TrialStore::private(&fencepost::stores::kinds::REDIS);
            store.at(server.url()).scratch(std::path::Path::new(""))
        }));
        for ground in grounds {
            let (early, late) = (credential(1), credential(2));
            let mut plain = ground.stock().unwrap();
            plain.write("product_A", 5).unwrap();
            let mut fenced = FencedStock::open(&ground).await.unwrap();
            assert!(fenced.read("product_B", early).await.is_err());
            assert_eq!(fenced.read("product_A", early).await, Ok(5));
            fenced.write("product_A", 4, early).await.unwrap();
            assert_eq!(plain.read("product_A").unwrap(), 4);
            // Even a read makes the stock refuse older credentials.
            assert_eq!(fenced.read("product_A", late).await, Ok(4));
            for refused in [
                fenced.write("product_A", 3, early).await.unwrap_err(),
                fenced.read("product_A", early).await.unwrap_err(),
            ] {
                assert!(refused.definite, "{refused}");
                assert!(refused.message.contains("refused a late holder"));
            }
            assert_eq!(plain.read("product_A").unwrap(), 4, "{ground}");
        }
    }
}
