//! The subject's side of the protocol: a process that buys or holds locks with one of our own strategies.

use std::io::{self, BufRead, Write};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::protocol::{Claims, Reply, Request, Resource, Retry};
use crate::store::Ground;

use crate::processes::start;
use crate::strategy::{Buyer, Failure, Order, Setup, Strategy};

mod holder;
mod retrying;

use holder::{Holder, Pause};

/// Answers requests until it receives a shutdown or the input ends.
///
/// # Errors
/// Returns an error if requests cannot be read or answers cannot be written.
pub fn serve(
    strategy: &Strategy,
    input: impl BufRead,
    output: impl Write + Send,
) -> io::Result<()> {
    serve_and_stop(strategy, input, output, fencepost_rig::stop_self)
}

/// Does the same; `stop` is called where the lab wants the process to stop.
fn serve_and_stop(
    strategy: &Strategy,
    input: impl BufRead,
    mut output: impl Write + Send,
    stop: fn(),
) -> io::Result<()> {
    // One worker thread keeps the library's background tasks running while this thread reads or sleeps.
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let mut subject = Subject {
        strategy,
        runtime,
        buyer: None,
        start: None,
        holder: None,
    };
    for line in input.lines() {
        let mut pause = Pause {
            output: &mut output,
            stop,
        };
        let Some(reply) = subject.answer(&line?, &mut pause) else {
            return Ok(());
        };
        say(&mut output, &reply)?;
    }
    Ok(())
}

fn say(output: &mut dyn Write, reply: &Reply) -> io::Result<()> {
    let mut text = serde_json::to_vec(reply)?;
    text.push(b'\n');
    output.write_all(&text)?;
    output.flush()
}

struct Subject<'a> {
    strategy: &'a Strategy,
    runtime: Runtime,
    buyer: Option<Box<dyn Buyer>>,
    /// The starting line to wait at before the first purchase.
    start: Option<String>,
    holder: Option<Holder>,
}

impl Subject<'_> {
    /// Answers a request. Returns `None` for a shutdown.
    fn answer(&mut self, line: &str, pause: &mut Pause<'_>) -> Option<Reply> {
        let request = match serde_json::from_str(line) {
            Ok(request) => request,
            Err(error) => {
                return Some(refuse(
                    None,
                    Failure::definite(format!("not a request: {error}: {line}")),
                ));
            }
        };
        Some(match request {
            Request::Init {
                ttl_ms,
                endpoints,
                resource,
                start,
                ..
            } => {
                self.start = start;
                match self.init(ttl_ms, &endpoints, resource) {
                    Ok(()) => Reply::InitOk {
                        claims: Some(self.claims()),
                    },
                    Err(failure) => refuse(None, failure),
                }
            }
            Request::Purchase {
                op,
                product,
                quantity,
                wait_ms,
                delay_us,
                retry,
            } => {
                let (wait, delay) = (
                    Duration::from_millis(wait_ms),
                    Duration::from_micros(delay_us),
                );
                self.purchase(
                    op,
                    &Order {
                        product,
                        quantity,
                        wait,
                        in_line: false,
                        delay,
                    },
                    retry,
                )
            }
            Request::Acquire { op, .. }
            | Request::Step { op, .. }
            | Request::Release { op, .. } => {
                let Some(holder) = &mut self.holder else {
                    let reason = "holds are not asked of this subject";
                    return Some(refuse(Some(op), Failure::definite(reason)));
                };
                let answer = self.runtime.block_on(holder.answer(request, pause));
                answer.unwrap_or_else(|failure| refuse(Some(op), failure))
            }
            Request::Shutdown => return None,
        })
    }

    fn claims(&self) -> Claims {
        let known = self.strategy.claims;
        let holder = self.holder.as_ref();
        holder.map_or(known, |holder| holder.claims(known))
    }

    fn init(
        &mut self,
        ttl_ms: u64,
        endpoints: &[String],
        resource: Resource,
    ) -> Result<(), Failure> {
        let setup = Setup {
            ground: Ground::among(endpoints)?,
            ttl: Duration::from_millis(ttl_ms),
        };
        match (resource, self.strategy.lock) {
            (Resource::Stock, _) => {
                self.buyer = Some(self.runtime.block_on((self.strategy.open)(setup))?);
            }
            (Resource::Register, Some(lock)) => {
                self.holder = Some(Holder::new(self.runtime.block_on(lock(setup))?));
            }
            (Resource::Register, None) => {
                let reason = format!("{} has no lock to hold", self.strategy.name);
                return Err(Failure::definite(reason));
            }
        }
        Ok(())
    }

    fn purchase(&mut self, op: u64, order: &Order, retry: Option<Retry>) -> Reply {
        let Some(buyer) = &mut self.buyer else {
            return refuse(Some(op), Failure::definite("asked to buy before init"));
        };
        if let Some(line) = self.start.take() {
            start::wait_at(&line);
        }
        let bought = match retry {
            None => self.runtime.block_on(buyer.purchase(order)),
            Some(retry) => self
                .runtime
                .block_on(retrying::buy(buyer.as_mut(), order, retry)),
        };
        match bought {
            Ok(purchase) => Reply::Purchased { op, purchase },
            Err(failure) => refuse(Some(op), failure),
        }
    }
}

fn refuse(op: Option<u64>, failure: Failure) -> Reply {
    Reply::Error {
        op,
        definite: failure.definite,
        message: failure.message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::TrialStore;
    use crate::strategy::exhibit::none;

    fn converse(requests: &str) -> Vec<serde_json::Value> {
        let mut output = Vec::new();
        serve(&none::STRATEGY, requests.as_bytes(), &mut output).unwrap();
        String::from_utf8(output)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn a_subject_buys_until_it_is_told_to_stop() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stock.db");
        let ground = Ground::Sqlite(file.clone());
        ground.prepare().unwrap();
        ground.stock().unwrap().write("product_A", 1).unwrap();
        let init = format!(
            r#"{{"type":"init","id":"proc_0","keys":["product_A"],"ttl_ms":1000,"endpoints":["sqlite:{}"]}}"#,
            file.display()
        );
        let buy = r#"{"type":"purchase","op":1,"product":"product_A","quantity":1,"wait_ms":0,"delay_us":0}"#;
        let replies = converse(&format!(
            "{init}\n{buy}\n{buy}\n{{\"type\":\"shutdown\"}}\n{buy}\n"
        ));
        let said: Vec<_> = replies
            .iter()
            .map(|reply| (&reply["type"], &reply["outcome"]))
            .collect();
        assert_eq!(
            serde_json::to_string(&said).unwrap(),
            r#"[["init_ok",null],["purchased","sold"],["purchased","no_stock"]]"#
        );
    }

    #[test]
    fn nonsense_and_disorder_are_refused_for_certain() {
        let buy = r#"{"type":"purchase","op":9,"product":"product_A","quantity":1,"wait_ms":0,"delay_us":0}"#;
        let init =
            r#"{"type":"init","id":"proc_0","keys":[],"ttl_ms":1,"endpoints":["mysql://x"]}"#;
        let replies = converse(&format!("hello\n{buy}\n{init}\n"));
        for (reply, part) in replies.iter().zip(["hello", "before init", "mysql://x"]) {
            assert_eq!(
                (&reply["type"], &reply["definite"]),
                (&"error".into(), &true.into())
            );
            assert!(reply["message"].as_str().unwrap().contains(part), "{reply}");
        }
        assert_eq!(replies.len(), 3);
    }

    fn hold(strategy: &Strategy, requests: &str, stop: fn()) -> Vec<serde_json::Value> {
        let folder = tempfile::tempdir().unwrap();
        let ground = TrialStore::sqlite().ground(folder.path());
        ground.prepare().unwrap();
        let init = format!(
            r#"{{"type":"init","id":"A","keys":["k"],"ttl_ms":60000,"endpoints":["{ground}"],"resource":"number"}}"#
        );
        let mut output = Vec::new();
        let input = format!("{init}\n{requests}");
        serve_and_stop(strategy, input.as_bytes(), &mut output, stop).unwrap();
        let text = String::from_utf8(output).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    const HOLD: &str = r#"{"type":"acquire","op":1,"key":"k","wait_ms":0}
{"type":"acquire","op":2,"key":"k","wait_ms":0}
{"type":"step","op":3,"hold":1,"action":"read"}
{"type":"step","op":4,"hold":9,"action":"read"}
{"type":"release","op":5,"hold":1}
{"type":"step","op":6,"hold":1,"action":"write"}
"#;

    #[test]
    fn a_subject_holds_steps_and_gives_back() {
        let safe = crate::strategy::find("safe").unwrap();
        let replies = hold(safe, HOLD, || panic!("nobody asked it to stop"));
        let types: Vec<&str> = replies
            .iter()
            .map(|reply| reply["type"].as_str().unwrap())
            .collect();
        assert_eq!(
            types,
            [
                "init_ok", "acquired", "refused", "stepped", "error", "released", "error"
            ]
        );
        assert_eq!(replies[1]["fence"], replies[3]["fence"]);
        assert_eq!(replies[5]["outcome"], "released");
    }

    #[test]
    fn a_subject_stops_between_two_steps_and_nowhere_else() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static STOPS: AtomicUsize = AtomicUsize::new(0);
        let stepwise = r#"{"type":"acquire","op":1,"key":"k","wait_ms":0,"halt_after":1}"#;
        let stop = || {
            STOPS.fetch_add(1, Ordering::Relaxed);
        };
        let said = |name| {
            let strategy = crate::strategy::find(name).unwrap();
            let replies = hold(strategy, stepwise, stop);
            let types = replies.iter().map(|reply| reply["type"].to_string());
            types.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(said("naive"), r#""init_ok" "reached" "acquired""#);
        assert_eq!(STOPS.load(Ordering::Relaxed), 1);
        assert_eq!(said("safe"), r#""init_ok" "acquired""#);
        assert_eq!(STOPS.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_strategy_without_a_lock_has_nothing_to_hold() {
        let replies = hold(&none::STRATEGY, "", || ());
        assert_eq!(replies[0]["message"], "none has no lock to hold");
    }
}
