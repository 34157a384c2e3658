//! Turns clap's errors about the command line into our own messages.

use std::error::Error as _;

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use fencepost::stores::without_password;

use crate::command_error::CommandError;
use crate::exit;
use crate::help::{LOCK_COMMANDS, TRIAL_COMMANDS};
use crate::values::{BadValue, OutOfRange, nearest};

/// Explains what is wrong with the command line `words`.
pub(crate) fn explain(error: &Error, words: &[String]) -> CommandError {
    let line = Line::of(error, words);
    match error.kind() {
        ErrorKind::ValueValidation => line.refused(error),
        ErrorKind::UnknownArgument if line.flag().starts_with('-') => line.unknown_flag(error),
        ErrorKind::UnknownArgument => {
            line.misuse(format!("unexpected argument '{}'", line.argument))
        }
        ErrorKind::InvalidSubcommand => line.unknown_command(error),
        ErrorKind::InvalidValue => misuse(format!("{} needs a value", line.flag()))
            .at(typed(line.flag(), words))
            .try_this(line.help()),
        ErrorKind::TooManyValues => misuse(format!("{} takes no value", line.flag()))
            .at(typed(line.flag(), words))
            .try_this(line.flag()),
        ErrorKind::ArgumentConflict => line.conflict(error),
        ErrorKind::MissingRequiredArgument => line.missing_argument(),
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            line.misuse("a command is missing".into())
        }
        _ => {
            let message = error.to_string();
            let first = message.lines().next().unwrap_or_default();
            misuse(first.trim_start_matches("error: ").to_owned()).try_this(line.help())
        }
    }
}

fn misuse(what: String) -> CommandError {
    CommandError::new(exit::USAGE, what)
}

/// A command line, and the argument that is wrong with it.
struct Line<'a> {
    words: &'a [String],
    /// The argument as the parser names it, such as `--ttl <TTL>`.
    argument: String,
}

impl<'a> Line<'a> {
    fn of(error: &Error, words: &'a [String]) -> Self {
        let argument = without_password(&text(error, ContextKind::InvalidArg));
        Self { words, argument }
    }

    /// Returns the flag that is wrong, without its value.
    fn flag(&self) -> &str {
        self.argument.split([' ', '=']).next().unwrap_or_default()
    }

    /// Returns the command that prints the help.
    fn help(&self) -> String {
        help(self.words)
    }

    /// Returns the whole command line.
    fn whole(&self) -> String {
        let words = self.words.iter();
        let words: String = words
            .map(|word| format!(" {}", without_password(word)))
            .collect();
        format!("fencepost{words}")
    }

    /// Returns an error about the whole command line, with its help as advice.
    fn misuse(&self, what: String) -> CommandError {
        misuse(what).at(self.whole()).try_this(self.help())
    }

    /// Returns the error for a value that its flag does not accept.
    fn refused(&self, error: &Error) -> CommandError {
        let (what, advice) = refused_value(error, self.flag(), self.help());
        // A positional argument is shown in the whole command line.
        let place = if self.flag().starts_with('<') {
            self.whole()
        } else {
            typed(self.flag(), self.words)
        };
        misuse(what).at(place).try_this(advice)
    }

    fn unknown_flag(&self, error: &Error) -> CommandError {
        let flag = self.flag();
        let typed = typed(flag, self.words);
        let value = typed
            .strip_prefix(flag)
            .filter(|value| value.starts_with('='))
            .unwrap_or_default();
        let command = self.words.first().map_or("", String::as_str);
        let suggestion = text(error, ContextKind::SuggestedArg);
        let advice = match (command, flag) {
            ("run-all", "--lock") => {
                format!("fencepost gauntlet {typed}      (run-all takes every lock of the lab)")
            }
            ("trial", "--sorted" | "--mitigate") => {
                "fencepost deadlock --sorted      or fencepost trial deadlock-sorted".into()
            }
            ("trial", "--ttl-edge") => {
                "fencepost crash --ttl-edge      or fencepost trial ttl-edge".into()
            }
            _ if suggestion.is_empty() => self.help(),
            _ => format!("{suggestion}{value}"),
        };
        misuse(format!("there is no flag '{flag}'"))
            .at(&typed)
            .try_this(advice)
    }

    fn unknown_command(&self, error: &Error) -> CommandError {
        let commands = || {
            TRIAL_COMMANDS
                .iter()
                .chain(&LOCK_COMMANDS)
                .map(|(name, _)| *name)
                .collect()
        };
        let (before, names) = match self.words.first().map(String::as_str) {
            Some("locks") => ("locks ", vec!["list", "show", "release"]),
            Some("help") => ("help ", commands()),
            _ => ("", commands()),
        };
        // `help` itself is no command of the parser; the word after it is the one that is unknown.
        let word = match help_topic(self.words) {
            Some(topic) => without_password(topic),
            None => without_password(&text(error, ContextKind::InvalidSubcommand)),
        };
        let advice = nearest(&word, &names);
        let advice = advice.map_or_else(|| self.help(), |name| format!("fencepost {before}{name}"));
        misuse(format!("there is no command '{word}'"))
            .at(self.whole())
            .try_this(advice)
    }

    fn conflict(&self, error: &Error) -> CommandError {
        let flag = self.flag();
        let other = text(error, ContextKind::PriorArg);
        let other = other.split(' ').next().unwrap_or_default();
        self.misuse(if other == flag {
            format!("{flag} is given twice")
        } else {
            format!("{flag} and {other} exclude each other")
        })
    }

    fn missing_argument(&self) -> CommandError {
        let missing = match self.argument.split_once(' ') {
            Some((flag, _)) => flag.to_owned(),
            None if self.argument.starts_with("--") => self.argument.clone(),
            None => format!(
                "a {}",
                self.argument.trim_matches(['<', '>']).to_lowercase()
            ),
        };
        self.misuse(format!("{missing} is missing"))
    }
}

/// Returns the first word that `fencepost help` was asked about, if that is the command line.
fn help_topic(words: &[String]) -> Option<&str> {
    let (first, rest) = words.split_first()?;
    let mut topics = rest.iter().filter(|word| !word.starts_with('-'));
    topics
        .next()
        .filter(|_| first == "help")
        .map(String::as_str)
}

/// Returns the command that prints the help of the command in question.
fn help(words: &[String]) -> String {
    let command = match words.first().map(String::as_str) {
        // An alias that the lists do not show.
        Some("http-server") => Some("serve"),
        Some(command) => {
            let mut names = TRIAL_COMMANDS
                .iter()
                .chain(&LOCK_COMMANDS)
                .map(|(name, _)| *name);
            names.find(|name| *name == command)
        }
        None => None,
    };
    command.map_or_else(
        || "fencepost --help".to_owned(),
        |command| format!("fencepost {command} --help"),
    )
}

/// Returns what is wrong with the value of a flag, and what to try.
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

/// Returns a flag with its value as typed, or the name of the variable if the value comes from the environment.
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
        None if flag == "--store" => store_variable(words).into(),
        None => flag.to_owned(),
    }
}

/// Returns the variable in which the command looks for its store.
fn store_variable(words: &[String]) -> &'static str {
    let is_trial = |command: &String| TRIAL_COMMANDS.iter().any(|(name, _)| name == command);
    if words.first().is_some_and(is_trial) {
        "FENCEPOST_TRIAL_STORE"
    } else {
        "FENCEPOST_STORE"
    }
}
