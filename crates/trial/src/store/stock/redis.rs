//! The stock as a plain key on a Redis server.

use redis::{Cmd, cmd};

use super::{QueuedRequest, Settled, Stock, Ticket, Version};
use crate::protocol::Failure;
use crate::store::redis::{Connection, StoreError};

const IF_ENOUGH: &str = "
    local left = tonumber(redis.call('GET', KEYS[1])) - tonumber(ARGV[1])
    if left < 0 then return false end
    redis.call('SET', KEYS[1], left, 'KEEPTTL')
    return left";

/// The error code with which the script refuses.
const BELOW_ZERO: &str = "BELOWZERO";

/// Redis has no constraints. A script that refuses is the closest equivalent.
const CONSTRAINED: &str = "
    local left = redis.call('DECRBY', KEYS[1], ARGV[1])
    if left >= 0 then return left end
    redis.call('INCRBY', KEYS[1], ARGV[1])
    return redis.error_reply('BELOWZERO a stock is never below zero')";

/// A connection to the stock on a Redis server.
pub(crate) struct RedisStock(Connection);

impl RedisStock {
    /// Connects to the server of an endpoint, `redis://…`.
    ///
    /// # Errors
    /// Returns an error if the server cannot be reached.
    pub(crate) fn open(endpoint: &str) -> Result<Self, Failure> {
        Ok(Self(Connection::open(endpoint)?))
    }

    fn units(&self, product: &str) -> String {
        self.0.key("stock", product)
    }

    fn set(&self, product: &str, units: i64) -> Cmd {
        let mut set = cmd("SET");
        set.arg(self.units(product)).arg(units);
        if let Some(lasts_ms) = self.0.lasts_ms() {
            set.arg("PX").arg(lasts_ms);
        }
        set
    }

    fn queue(&self, product: &str) -> String {
        self.0.key("queue", product)
    }

    fn slip(&self, product: &str, ticket: Ticket) -> String {
        self.0.key("answer", &format!("{product}:{}", ticket.0))
    }
}

fn there<T>(product: &str, found: Option<T>) -> Result<T, Failure> {
    found.ok_or_else(|| Failure::definite(format!("there is no {product}")))
}

impl Stock for RedisStock {
    fn read(&mut self, product: &str) -> Result<i64, Failure> {
        let units = self.units(product);
        let found = self
            .0
            .ask(cmd("GET").arg(units))
            .map_err(StoreError::into_read_failure)?;
        there(product, found)
    }

    fn write(&mut self, product: &str, units: i64) -> Result<(), Failure> {
        let set = self.set(product, units);
        self.0.ask(&set).map_err(StoreError::into_write_failure)
    }

    fn decrement(&mut self, product: &str, quantity: i64) -> Result<i64, Failure> {
        let key = self.units(product);
        let left = self.0.ask(cmd("DECRBY").arg(key).arg(quantity));
        left.map_err(StoreError::into_write_failure)
    }

    fn decrement_if_enough(
        &mut self,
        product: &str,
        quantity: i64,
    ) -> Result<Option<i64>, Failure> {
        let key = self.units(product);
        let left = self.0.run(IF_ENOUGH, &[&key], &[&quantity.to_string()]);
        left.map_err(StoreError::into_write_failure)
    }

    fn decrement_constrained(
        &mut self,
        product: &str,
        quantity: i64,
    ) -> Result<Option<i64>, Failure> {
        let key = self.units(product);
        match self.0.run(CONSTRAINED, &[&key], &[&quantity.to_string()]) {
            Err(error) if error.code() == Some(BELOW_ZERO) => Ok(None),
            left => left.map(Some).map_err(StoreError::into_write_failure),
        }
    }

    /// The server watches the key (`WATCH`) as long as the connection lasts.
    fn read_version(&mut self, product: &str) -> Result<(i64, Version), Failure> {
        let key = self.units(product);
        let mut read = || -> Result<Option<i64>, StoreError> {
            let () = self.0.ask(&cmd("UNWATCH"))?;
            let () = self.0.ask(cmd("WATCH").arg(&key))?;
            self.0.ask(cmd("GET").arg(&key))
        };
        let units = there(product, read().map_err(StoreError::into_read_failure)?)?;
        Ok((units, Version(self.0.generation())))
    }

    fn write_version(
        &mut self,
        product: &str,
        units: i64,
        version: Version,
    ) -> Result<bool, Failure> {
        // A new connection watches nothing.
        if version != Version(self.0.generation()) {
            return Ok(false);
        }
        let mut write = redis::pipe();
        write.atomic().add_command(self.set(product, units));
        let done: Option<Vec<String>> = self
            .0
            .ask_all(&write)
            .map_err(StoreError::into_write_failure)?;
        Ok(done.is_some())
    }

    fn enqueue(&mut self, product: &str, quantity: i64) -> Result<Ticket, Failure> {
        let tickets = self.0.key("tickets", product);
        let ticket: i64 = self
            .0
            .ask(cmd("INCR").arg(tickets))
            .map_err(StoreError::into_read_failure)?;
        let queue = self.queue(product);
        let request = format!("{ticket} {quantity}");
        let _: i64 = self
            .0
            .ask(cmd("RPUSH").arg(queue).arg(request))
            .map_err(StoreError::into_write_failure)?;
        Ok(Ticket(ticket))
    }

    fn next_request(&mut self, product: &str) -> Result<Option<QueuedRequest>, Failure> {
        let queue = self.queue(product);
        let oldest: Option<String> = self
            .0
            .ask(cmd("LINDEX").arg(queue).arg(0))
            .map_err(StoreError::into_read_failure)?;
        let Some(oldest) = oldest else {
            return Ok(None);
        };
        let numbers = oldest
            .split_once(' ')
            .and_then(|(ticket, quantity)| Some((ticket.parse().ok()?, quantity.parse().ok()?)));
        let (ticket, quantity) = numbers
            .ok_or_else(|| Failure::definite(format!("no request in the queue: {oldest}")))?;
        Ok(Some(QueuedRequest {
            ticket: Ticket(ticket),
            quantity,
        }))
    }

    fn settle(&mut self, product: &str, ticket: Ticket, answer: Settled) -> Result<(), Failure> {
        let mut all = redis::pipe();
        all.atomic();
        if let Some(units) = answer.after {
            all.add_command(self.set(product, units)).ignore();
        }
        let after = answer.after.map(|after| after.to_string());
        let slip = format!("{} {}", answer.before, after.unwrap_or_default());
        all.cmd("SET")
            .arg(self.slip(product, ticket))
            .arg(slip)
            .ignore();
        all.cmd("LPOP").arg(self.queue(product)).ignore();
        self.0.ask_all(&all).map_err(StoreError::into_write_failure)
    }

    fn answer(&mut self, product: &str, ticket: Ticket) -> Result<Option<Settled>, Failure> {
        let slip = self.slip(product, ticket);
        let slip: Option<String> = self
            .0
            .ask(cmd("GET").arg(slip))
            .map_err(StoreError::into_read_failure)?;
        let Some(slip) = slip else {
            return Ok(None);
        };
        let unreadable = || Failure::definite(format!("not an answer: {slip}"));
        let (before, after) = slip.split_once(' ').ok_or_else(unreadable)?;
        Ok(Some(Settled {
            before: before.parse().map_err(|_| unreadable())?,
            after: match after {
                "" => None,
                units => Some(units.parse().map_err(|_| unreadable())?),
            },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_stock() {
        let Some(server) = crate::store::tests::redis() else {
            return;
        };
        let open = || RedisStock::open(&format!("{}#a", server.url())).unwrap();
        super::super::tests::keeps_its_promises(&mut open(), &mut open());
        let mut elsewhere = RedisStock::open(&format!("{}#b", server.url())).unwrap();
        assert!(elsewhere.read("product_A").is_err(), "another space");
    }

    #[test]
    fn what_was_watched_on_a_lost_connection_is_not_written() {
        let Some(server) = crate::store::tests::redis() else {
            return;
        };
        let mut stock = RedisStock::open(&server.url()).unwrap();
        stock.write("product_A", 5).unwrap();
        let (_, version) = stock.read_version("product_A").unwrap();
        let mut other = Connection::open(&server.url()).ok().unwrap();
        let killed: i64 = other
            .ask(cmd("CLIENT").arg("KILL").arg("SKIPME").arg("yes"))
            .ok()
            .unwrap();
        assert!(killed >= 1);
        let lost = stock.write_version("product_A", 4, version).unwrap_err();
        assert!(!lost.definite, "{lost}");
        assert!(!stock.write_version("product_A", 4, version).unwrap());
        assert_eq!(stock.read("product_A").unwrap(), 5);
    }
}
