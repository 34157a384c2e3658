//! Parses the answer to Redis' `INFO`.

use std::collections::HashMap;

/// The fields of `INFO`, by name.
#[derive(Debug, Default)]
pub(super) struct Info(HashMap<String, String>);

impl Info {
    pub(super) fn parse(text: &str) -> Self {
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        let owned = fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
        Self(owned.collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}
