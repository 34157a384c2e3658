//! A fenced stock on a Redis server whose keys expire: the units, and the gate beside them.
//!
//! The library's register keeps both forever, as its users want. Here the process may be killed before it can remove them.

use fencepost::resource::{Credential, REDIS_ADMIT, Refused};

use super::fenced::late;
use crate::protocol::Failure;
use crate::store::redis::{Connection, StoreError};

/// KEYS: units gate. ARGV: epoch seq owner lifetime, and the new units for a write. Answers like the library's register.
const ACCESS: &str = "
    local highest = admit(KEYS[2], ARGV[1], ARGV[2], ARGV[3])
    redis.call('PEXPIRE', KEYS[2], ARGV[4])
    if highest then return {0, highest} end
    if ARGV[5] then redis.call('SET', KEYS[1], ARGV[5], 'PX', ARGV[4]) end
    return {1, redis.call('GET', KEYS[1])}";

/// Returns the key of the gate for these units.
pub(crate) fn gate_of(units: &str) -> String {
    format!("{units}:gate")
}

/// A connection to such a stock.
pub(crate) struct PerishableStock(Connection);

impl PerishableStock {
    pub(crate) fn open(endpoint: &str) -> Result<Self, Failure> {
        Ok(Self(Connection::open(endpoint)?))
    }

    pub(crate) fn read(&mut self, product: &str, credential: Credential) -> Result<i64, Failure> {
        let found = self.access(product, credential, None);
        let units = found.map_err(StoreError::into_read_failure)??;
        let units = units.and_then(|units| units.parse().ok());
        units.ok_or_else(|| Failure::definite(format!("there is no {product}")))
    }

    pub(crate) fn write(
        &mut self,
        product: &str,
        units: i64,
        credential: Credential,
    ) -> Result<(), Failure> {
        let written = self.access(product, credential, Some(units));
        written.map_err(StoreError::into_write_failure)?.map(drop)
    }

    /// Executes the access and returns the resulting units, unless the credential is outdated.
    fn access(
        &mut self,
        product: &str,
        credential: Credential,
        units: Option<i64>,
    ) -> Result<Result<Option<String>, Failure>, StoreError> {
        let key = self.0.key("stock", product);
        let mut arguments = vec![
            credential.fence.epoch().to_string(),
            credential.fence.seq().to_string(),
            credential.owner.to_string(),
            self.0.lasts_ms().unwrap_or(u64::MAX).to_string(),
        ];
        arguments.extend(units.map(|units| units.to_string()));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let script = format!("{REDIS_ADMIT}{ACCESS}");
        let keys = [key.as_str(), &gate_of(&key)];
        let (is_admitted, said): (bool, Option<String>) = self.0.run(&script, &keys, &arguments)?;
        if is_admitted {
            return Ok(Ok(said));
        }
        Ok(Err(match said.unwrap_or_default().parse() {
            Ok(highest) => late(Refused {
                offered: credential.fence,
                highest,
            }),
            Err(_) => Failure::definite("the stock answered with no fence"),
        }))
    }
}
