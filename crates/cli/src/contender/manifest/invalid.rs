//! What is wrong with a manifest, in which line and field, and what is allowed there.

use fencepost_trial::text::harmless;

use crate::values::BadValue;

/// A fault in a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Invalid {
    message: String,
    place: Place,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// This far into the file, in bytes.
    Offset(usize),
    /// At this field, with its tables: `kind.hold`.
    Field(&'static str),
}

impl Invalid {
    /// Creates the error for a file that is not TOML, or has other fields or values than a manifest.
    pub(super) fn of(error: &toml::de::Error) -> Self {
        Self {
            message: error.message().to_owned(),
            place: Place::Offset(error.span().map_or(0, |span| span.start)),
        }
    }

    /// Creates the error for a field that contradicts another one.
    pub(super) fn field(field: &'static str, message: &str) -> Self {
        Self {
            message: message.to_owned(),
            place: Place::Field(field),
        }
    }

    /// Returns the error for the user. `source` is the text of the file at `path`.
    pub(super) fn explain(&self, path: &str, source: &str) -> BadValue {
        let (line, field) = match self.place {
            Place::Offset(offset) => (line_of(source, offset), field_at(source, offset)),
            Place::Field(field) => (line_with(source, field), Some(field.to_owned())),
        };
        let field = field.unwrap_or_default();
        let colon = if field.is_empty() { "" } else { ": " };
        let message = harmless(&self.message);
        BadValue {
            what: format!("{path}:{line}: {field}{colon}{message}"),
            advice: self.advice(&field),
        }
    }

    fn advice(&self, field: &str) -> String {
        let own = field.rsplit('.').next().unwrap_or_default();
        let example = example(self.missing().unwrap_or(own));
        let page = "docs/lab.md#the-manifest lists all fields";
        example.map_or_else(
            || page.to_owned(),
            |example| format!("{example}      ({page})"),
        )
    }

    /// Returns the name of the field that is missing.
    fn missing(&self) -> Option<&str> {
        let rest = self.message.strip_prefix("missing field `")?;
        rest.strip_suffix('`')
    }
}

/// Returns what a field looks like.
fn example(field: &str) -> Option<&'static str> {
    Some(match field {
        "name" => "name = \"my lock\"",
        "version" => "version = \"1.0.0\"",
        "language" => "language = \"Python\"",
        "install" => "install = \"apt-get install python3\"",
        "start" => "start = [\"python3\", \"my_lock.py\"]",
        "stores" => "stores = [\"sqlite\"]",
        "kind" => "[kind] with hold = \"lease\", \"session\" or \"untimed\"",
        "hold" => "hold = \"lease\", \"session\" or \"untimed\"",
        "renewed" | "stops_itself" | "fenced" => "true or false",
        "value" | "recovery_ms" => {
            "[claims.recovery_ms] with value = 1500 and where = { quote = …, place = … }"
        }
        "where" | "quote" | "place" => {
            "where = { quote = \"its documentation, word for word\", place = \"README.md, Fences\" }"
        }
        _ => return None,
    })
}

fn line_of(source: &str, offset: usize) -> usize {
    let before = source.get(..offset).unwrap_or(source);
    before.matches('\n').count() + 1
}

/// Returns the fields of the file with their lines, in order. A table is a field, too.
fn fields(source: &str) -> impl Iterator<Item = (usize, String)> + '_ {
    let mut table = String::new();
    source.lines().enumerate().filter_map(move |(index, line)| {
        let line = line.trim();
        if let Some(header) = line
            .strip_prefix('[')
            .and_then(|rest| rest.split(']').next())
            && !header.is_empty()
            && header.chars().all(is_of_name)
        {
            table = header.to_owned();
            return Some((index + 1, table.clone()));
        }
        let (name, _) = line.split_once('=')?;
        let name = name.trim();
        if name.is_empty() || !name.chars().all(is_of_name) {
            return None;
        }
        let dot = if table.is_empty() { "" } else { "." };
        Some((index + 1, format!("{table}{dot}{name}")))
    })
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "_-.".contains(letter)
}

/// Returns the last field that begins in the line of this offset or before it.
fn field_at(source: &str, offset: usize) -> Option<String> {
    let line = line_of(source, offset);
    let before = fields(source).take_while(|(number, _)| *number <= line);
    before.last().map(|(_, field)| field)
}

/// Returns the line in which this field or its table begins.
fn line_with(source: &str, field: &str) -> usize {
    let inside = format!("{field}.");
    let found = fields(source).find(|(_, name)| name == field || name.starts_with(&inside));
    match (found, field.rsplit_once('.')) {
        (Some((line, _)), _) => line,
        (None, Some((table, _))) => line_with(source, table),
        (None, None) => 1,
    }
}
