//! Turns clap's errors about the command line into our own messages.

use std::error::Error as _;

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use fencepost::stores::without_password;

use crate::command_error::CommandError;
use crate::exit;
use crate::help::{COMMANDS, USE};
use crate::values::{BadValue, OutOfRange, nearest};

/// Explains what is wrong with the command line `words`.
pub(crate) fn explain(error: &Error, words: &[String]) -> CommandError {
    let misuse = |what: String| CommandError::new(exit::USAGE, what);
    let argument = without_password(&text(error, ContextKind::InvalidArg));
    let flag = argument.split([' ', '=']).next().unwrap_or_default();
    let help = help(words);
    let line: String = words
        .iter()
        .map(|word| format!(" {}", without_password(word)))
        .collect();
    let line = format!("fencepost{line}");
    match error.kind() {
        ErrorKind::ValueValidation => {
            let (what, advice) = refused_value(error, flag, help);
            // A positional argument is shown in the whole command line.
            let place = if flag.starts_with('<') {
                line
            } else {
                typed(flag, words)
            };
            misuse(what).at(place).try_this(advice)
        }
        ErrorKind::UnknownArgument if flag.starts_with('-') => {
            let typed = typed(flag, words);
            let value = typed
                .strip_prefix(flag)
                .filter(|value| value.starts_with('='))
                .unwrap_or_default();
            let advice = match text(error, ContextKind::SuggestedArg) {
                suggestion if suggestion.is_empty() => help,
                suggestion => format!("{suggestion}{value}"),
            };
            misuse(format!("there is no flag '{flag}'"))
                .at(&typed)
                .try_this(advice)
        }
        ErrorKind::UnknownArgument => misuse(format!("unexpected argument '{argument}'"))
            .at(&line)
            .try_this(help),
        ErrorKind::InvalidSubcommand => {
            let word = without_password(&text(error, ContextKind::InvalidSubcommand));
            let (before, names) = match words.first().map(String::as_str) {
                Some("locks") => ("locks ", vec!["list", "show", "release"]),
                _ => (
                    "",
                    COMMANDS.iter().chain(&USE).map(|(name, _)| *name).collect(),
                ),
            };
            let advice = nearest(&word, &names);
            let advice = advice.map_or(help, |name| format!("fencepost {before}{name}"));
            misuse(format!("there is no command '{word}'"))
                .at(&line)
                .try_this(advice)
        }
        ErrorKind::InvalidValue => misuse(format!("{flag} needs a value"))
            .at(typed(flag, words))
            .try_this(help),
        ErrorKind::TooManyValues => misuse(format!("{flag} takes no value"))
            .at(typed(flag, words))
            .try_this(flag),
        ErrorKind::ArgumentConflict => {
            let other = text(error, ContextKind::PriorArg);
            let other = other.split(' ').next().unwrap_or_default();
            let what = if other == flag {
                format!("{flag} is given twice")
            } else {
                format!("{flag} and {other} exclude each other")
            };
            misuse(what).at(&line).try_this(help)
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = without_password(&text(error, ContextKind::InvalidArg));
            let missing = match missing.split_once(' ') {
                Some((flag, _)) => flag.to_owned(),
                None => format!("a {}", missing.trim_matches(['<', '>']).to_lowercase()),
            };
            misuse(format!("{missing} is missing"))
                .at(&line)
                .try_this(help)
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            misuse("a command is missing".into())
                .at(&line)
                .try_this(help)
        }
        _ => {
            let message = error.to_string();
            let first = message.lines().next().unwrap_or_default();
            misuse(first.trim_start_matches("error: ").to_owned()).try_this(help)
        }
    }
}

/// The command that prints the help of the command in question.
fn help(words: &[String]) -> String {
    let command = match words.first().map(String::as_str) {
        // An alias that the lists do not show.
        Some("http-server") => Some("serve"),
        Some(command) => {
            let mut names = COMMANDS.iter().chain(&USE).map(|(name, _)| *name);
            names.find(|name| *name == command)
        }
        None => None,
    };
    command.map_or_else(
        || "fencepost --help".to_owned(),
        |command| format!("fencepost {command} --help"),
    )
}

/// What is wrong with the value of a flag, and what to try.
fn refused_value(error: &Error, flag: &str, help: String) -> (String, String) {
    let source = error.source();
    if let Some(value) = source.and_then(|source| source.downcast_ref::<BadValue>()) {
        return (value.what.clone(), value.advice.clone());
    }
    match source.and_then(|source| source.downcast_ref::<OutOfRange>()) {
        Some(number) => (number.what.clone(), format!("{} · {help}", number.range)),
        None => (format!("invalid value for {flag}"), help),
    }
}

fn text(error: &Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.first().cloned().unwrap_or_default(),
        _ => String::new(),
    }
}

/// A flag with its value as typed, or the name of the variable if the value comes from the environment.
fn typed(flag: &str, words: &[String]) -> String {
    let with_value = format!("{flag}=");
    let at = words
        .iter()
        .position(|word| word == flag || word.starts_with(&with_value));
    match at {
        Some(at) if words[at] == flag => {
            let value = words.get(at + 1).filter(|next| !next.starts_with("--"));
            value.map_or_else(
                || flag.to_owned(),
                |value| format!("{flag} {}", without_password(value)),
            )
        }
        Some(at) => format!(
            "{with_value}{}",
            without_password(&words[at][with_value.len()..])
        ),
        None if flag == "--store" => "FENCEPOST_STORE".into(),
        None => flag.to_owned(),
    }
}
