//! The document of `fencepost once --json`. Keys name the unit of their value.

use std::time::SystemTime;

use fencepost::LockName;
use fencepost::kinds::once::{Run, Skipped};
use serde_json::{Map, Value, json};

use crate::store::LockStore;

/// What became of a run.
#[derive(Debug, Clone)]
pub(super) struct Document(Map<String, Value>);

impl Document {
    /// Begins the document of a run that began.
    pub(super) fn of(run: &Run) -> Self {
        Self(Map::new())
            .with("fence", json!(run.fence().to_string()))
            .with(
                "slots_may_be_forgotten",
                json!(run.slot().map(|_| run.slots_may_be_forgotten())),
            )
    }

    pub(super) fn skipped(skipped: &Skipped, code: u8) -> Self {
        Self(Map::new())
            .state("skipped")
            .with("why", json!(skipped.why.as_str()))
            .with("by", json!(skipped.by.as_deref()))
            .with("since", json!(skipped.since.and_then(timestamp)))
            .with("until", json!(skipped.until.and_then(timestamp)))
            .with_exit_code(code)
    }

    pub(super) fn state(self, state: &str) -> Self {
        self.with("state", json!(state))
    }

    pub(super) fn with_exit_code(self, code: u8) -> Self {
        self.with("exit_code", json!(code))
    }

    fn with(mut self, key: &str, value: Value) -> Self {
        self.0.insert(key.to_owned(), value);
        self
    }

    /// Completes the document with what all of them begin with.
    pub(super) fn of_job(self, name: &LockName, store: &LockStore, slot: Option<&str>) -> Value {
        let Self(fields) = self;
        let mut all = Map::new();
        all.insert("schema".into(), json!("fencepost/once/1"));
        all.insert("version".into(), json!(env!("CARGO_PKG_VERSION")));
        all.insert("store".into(), json!(store.place()));
        all.insert("name".into(), json!(name.as_str()));
        all.insert("slot".into(), json!(slot));
        let keys = [
            "state",
            "why",
            "by",
            "since",
            "until",
            "fence",
            "slots_may_be_forgotten",
            "exit_code",
        ];
        for key in keys {
            let value = fields.get(key).cloned().unwrap_or(Value::Null);
            all.insert(key.into(), value);
        }
        Value::Object(all)
    }
}

fn timestamp(time: SystemTime) -> Option<String> {
    let time = jiff::Timestamp::try_from(time).ok()?;
    Some(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}
