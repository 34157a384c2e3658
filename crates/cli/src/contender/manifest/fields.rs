//! The fields of `subject.toml`, and what each may contain.

use std::fmt;

use fencepost_trial::gauntlet::Kind;
use fencepost_trial::store::private_names;
use fencepost_trial::text::harmless;
use serde::Deserialize;

use super::claims::Promises;
use super::invalid::Invalid;
use super::kind::contradiction;
use super::limits::Limits;

/// The longest text that the lab shows in a line of its own.
const CHARS_MAX: usize = 300;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fields {
    pub(super) name: Text,
    pub(super) version: Text,
    pub(super) language: Text,
    pub(super) start: Start,
    pub(super) install: Option<Text>,
    pub(super) stores: StoreNames,
    pub(super) kind: Kind,
    #[serde(default)]
    pub(super) claims: Promises,
    #[serde(default)]
    pub(super) limits: Limits,
}

impl Fields {
    /// Parses the file, and checks that the claims are possible for a lock of this kind.
    pub(super) fn parse(source: &str) -> Result<Self, Invalid> {
        let fields: Self = toml::from_str(source).map_err(|error| Invalid::of(&error))?;
        match contradiction(fields.kind, fields.claims.claims(fields.kind)) {
            Some((field, message)) => Err(Invalid::field(field, message)),
            None => Ok(fields),
        }
    }
}

/// Text that can be shown in one line.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Text(String);

impl TryFrom<String> for Text {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let length = text.chars().count();
        if text.trim().is_empty() {
            Err("is empty, expected a text".into())
        } else if length > CHARS_MAX {
            Err(format!(
                "has {length} characters, expected at most {CHARS_MAX}"
            ))
        } else if harmless(&text) != text {
            Err("contains a line break or an invisible character, expected one line".into())
        } else {
            Ok(Self(text.trim().to_owned()))
        }
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The program and its arguments, as words.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub(super) struct Start {
    program: String,
    arguments: Vec<String>,
}

impl TryFrom<Vec<String>> for Start {
    type Error = &'static str;

    fn try_from(words: Vec<String>) -> Result<Self, &'static str> {
        // The words are shown in errors.
        if words.iter().any(|word| harmless(word) != *word) {
            return Err("contains a line break or an invisible character, expected plain words");
        }
        let mut words = words.into_iter();
        match words.next() {
            Some(program) if !program.is_empty() => Ok(Self {
                program,
                arguments: words.collect(),
            }),
            _ => Err("names no program, expected the words of a command"),
        }
    }
}

impl Start {
    pub(super) fn program(&self) -> &str {
        &self.program
    }

    pub(super) fn arguments(&self) -> &[String] {
        &self.arguments
    }
}

/// The stores on which the lock works, by their `--store` names.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub(super) struct StoreNames(Vec<&'static str>);

impl TryFrom<Vec<String>> for StoreNames {
    type Error = String;

    fn try_from(names: Vec<String>) -> Result<Self, String> {
        let known = private_names();
        let expected = || format!("expected one or more of {}", known.join(", "));
        if names.is_empty() {
            return Err(format!("is empty, {}", expected()));
        }
        let found = names.iter().map(|name| {
            let found = known.iter().find(|known| *known == name);
            found
                .copied()
                .ok_or_else(|| format!("unknown store `{}`, {}", harmless(name), expected()))
        });
        found.collect::<Result<_, _>>().map(Self)
    }
}

impl StoreNames {
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.iter().copied()
    }
}
