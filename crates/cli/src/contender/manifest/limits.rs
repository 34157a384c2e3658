//! The limits in a manifest: scenarios that the lock does not withstand, as its own documentation says.

use std::collections::BTreeMap;

use fencepost_trial::gauntlet::{Limit, SCENARIOS};
use fencepost_trial::text::harmless;
use serde::Deserialize;

use super::claims::Promise;

/// The limits, by the name of the scenario.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "BTreeMap<String, Promise>")]
pub(super) struct Limits(Vec<Limit>);

impl TryFrom<BTreeMap<String, Promise>> for Limits {
    type Error = String;

    fn try_from(limits: BTreeMap<String, Promise>) -> Result<Self, String> {
        let limit = |(scenario, said): (String, Promise)| {
            if SCENARIOS.iter().all(|known| known.name() != scenario) {
                let scenario = harmless(&scenario);
                return Err(format!(
                    "names an unknown scenario `{scenario}`, expected one of fencepost gauntlet --list"
                ));
            }
            Ok(Limit {
                scenario,
                quote: said.quote(),
                place: said.place(),
            })
        };
        let limits = limits.into_iter().map(limit);
        limits.collect::<Result<_, _>>().map(Self)
    }
}

impl Limits {
    pub(super) fn all(&self) -> &[Limit] {
        &self.0
    }
}
