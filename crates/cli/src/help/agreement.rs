//! Tests that the help texts and the parser of the command line name the same commands, flags, defaults and ranges.

use std::collections::BTreeSet;

use clap::{Arg, Command, CommandFactory, Parser};
use fencepost_trial::holds::{self, Scenario, Trial};
use fencepost_trial::matrix::{Cell, cells};
use fencepost_trial::store::TrialStore;

use super::{LOCK_COMMANDS, TRIAL_COMMANDS, requested};
use crate::Arguments;

/// Flags that a help text names although its command does not have them.
const OF_OTHERS: [(&str, &str); 2] = [
    // It writes the files that `check` reads.
    ("check", "--history"),
    // A flag of cargo.
    ("*", "--features"),
];

/// Defaults that the parser does not know, because they are chosen later: by chance, by the store, or from another flag.
const CHOSEN_LATER: [&str; 10] = [
    "seed",
    "ttl",
    "work",
    "store",
    "wait",
    "grace",
    "for",
    "processes",
    "names",
    "faults",
];

/// Defaults that the list of possible values already shows first.
const SHOWN_BY_VALUES: [&str; 1] = ["color"];

fn text(command: &str) -> String {
    requested(&[command.to_owned(), "-h".to_owned()]).unwrap()
}

/// Returns the names of all commands that the overview lists.
fn listed() -> impl Iterator<Item = &'static str> {
    TRIAL_COMMANDS
        .iter()
        .chain(&LOCK_COMMANDS)
        .map(|(name, _)| *name)
}

fn parser(name: &str) -> Command {
    let all = Arguments::command();
    all.find_subcommand(name).unwrap().clone()
}

/// Returns the arguments of a command and of its subcommands.
fn arguments(command: &Command) -> Vec<Arg> {
    let nested = command.get_subcommands().flat_map(arguments);
    let own = command.get_arguments().cloned();
    own.chain(nested).filter(|arg| !arg.is_hide_set()).collect()
}

/// Returns the flags that a text names, short and long.
fn flags(text: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let words = text.split(|c| !is_part(c));
    let is_flag = |word: &&str| {
        let name = word.trim_start_matches('-');
        let dashes = word.len() - name.len();
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic());
        is_name && (dashes == 2 || dashes == 1 && name.len() == 1)
    };
    words.filter(is_flag).collect()
}

/// Returns each flag that begins a line, with its description up to the next flag.
fn described(text: &str) -> Vec<(&str, String)> {
    let mut all: Vec<(&str, String)> = Vec::new();
    for line in text.lines() {
        let entry = line.strip_prefix("  -").filter(|_| line.contains("--"));
        if entry.is_some() {
            let long = line.split("--").nth(1).unwrap_or_default();
            let end = long.find([' ', ',', '=']).unwrap_or(long.len());
            all.push((&long[..end], line.to_owned()));
        } else if let Some((_, description)) = all.last_mut().filter(|_| line.starts_with("     "))
        {
            description.push('\n');
            description.push_str(line);
        }
    }
    all
}

fn default_in(description: &str) -> Option<&str> {
    let (_, rest) = description.split_once("[default: ")?;
    rest.split_once(']').map(|(default, _)| default)
}

#[test]
fn the_parser_is_consistent() {
    Arguments::command().debug_assert();
}

#[test]
fn the_overview_lists_every_command_and_no_other() {
    let parser = Arguments::command();
    let visible = parser.get_subcommands().filter(|one| !one.is_hide_set());
    let visible: BTreeSet<&str> = visible.map(Command::get_name).collect();
    assert_eq!(visible, listed().collect());
}

#[test]
fn the_help_names_every_flag_and_no_other() {
    for name in listed() {
        let (text, arguments) = (text(name), arguments(&parser(name)));
        let long = arguments.iter().filter_map(Arg::get_long);
        let short = arguments.iter().filter_map(Arg::get_short);
        let parsed: BTreeSet<String> = long
            .map(|long| format!("--{long}"))
            .chain(short.map(|short| format!("-{short}")))
            .collect();
        let is_of_others =
            |flag: &str| OF_OTHERS.contains(&(name, flag)) || OF_OTHERS.contains(&("*", flag));
        let named = flags(&text).into_iter().filter(|flag| !is_of_others(flag));
        let named: BTreeSet<String> = named.map(str::to_owned).collect();
        let missing: Vec<_> = parsed.difference(&named).collect();
        let invented: Vec<_> = named.difference(&parsed).collect();
        assert!(missing.is_empty(), "{name} --help leaves out {missing:?}");
        assert!(invented.is_empty(), "{name} has no {invented:?}");
    }
}

#[test]
fn the_help_names_what_a_command_takes_without_a_flag() {
    for name in listed() {
        let text = text(name);
        let usage = text
            .lines()
            .find(|line| line.starts_with("Usage:"))
            .unwrap();
        for arg in arguments(&parser(name))
            .iter()
            .filter(|arg| arg.is_positional())
        {
            let word = arg.get_id().as_str().to_uppercase();
            assert!(usage.contains(&word), "{name}: {word} is not in {usage}");
        }
    }
}

#[test]
fn defaults_in_the_help_are_those_of_the_parser() {
    for name in listed() {
        let text = text(name);
        let described = described(&text);
        for arg in arguments(&parser(name)) {
            let Some(long) = arg.get_long() else { continue };
            let parsed = arg.get_default_values().first();
            let parsed = parsed
                .filter(|_| arg.get_action().takes_values() && !SHOWN_BY_VALUES.contains(&long));
            let parsed = parsed.map(|value| value.to_str().unwrap());
            let described = described.iter().find(|(flag, _)| *flag == long);
            let written = described.and_then(|(_, description)| default_in(description));
            match (parsed, written) {
                (None, Some(_)) if CHOSEN_LATER.contains(&long) => {}
                _ => assert_eq!(parsed, written, "{name} --{long}"),
            }
        }
    }
}

#[test]
fn the_help_of_crash_and_trial_knows_how_long_the_work_takes() {
    let chosen = Trial::work_ms_at(&TrialStore::default()).to_string();
    for text in ["crash", "trial"].map(text) {
        let described = described(&text);
        let (_, work) = described.iter().find(|(flag, _)| *flag == "work").unwrap();
        assert_eq!(default_in(work), Some(&*chosen));
    }
}

#[test]
fn the_help_of_each_trial_with_times_says_that_they_may_have_a_unit() {
    let is_time = |arg: &Arg| {
        let long = arg.get_long().unwrap_or_default();
        ["ttl", "wait", "work", "budget", "delay"].contains(&long)
    };
    for (name, _) in TRIAL_COMMANDS {
        let has_times = arguments(&parser(name)).iter().any(is_time);
        assert_eq!(text(name).contains(": 500ms, 2s"), has_times, "{name}");
    }
}

#[test]
fn the_help_of_trial_knows_the_settings_of_a_storm() {
    let text = text("trial");
    let described = described(&text);
    let written = |flag: &str| {
        let found = described.iter().find(|(named, _)| *named == flag);
        found.and_then(|(_, description)| default_in(description))
    };
    let chosen = holds::storm::DEFAULT;
    let lasts = format!("{}s", chosen.for_ms / 1_000);
    assert_eq!(written("for"), Some(&*lasts));
    assert_eq!(written("processes"), Some(&*chosen.processes.to_string()));
    assert_eq!(written("names"), Some(&*chosen.names.to_string()));
}

#[test]
fn ranges_in_the_help_are_those_of_the_parser() {
    let mut ranges = 0;
    for name in listed() {
        let text = text(name);
        for (flag, description) in described(&text) {
            let words: Vec<&str> = description.split_whitespace().collect();
            let number = |word: &str| word.replace(',', "").parse::<u64>().ok();
            let range = words.windows(3).find_map(|words| match *words {
                [least, "to", most] => number(least).zip(number(most.trim_end_matches([',', ';']))),
                _ => None,
            });
            let Some((least, most)) = range else { continue };
            ranges += 1;
            let accepts = |value: i128| {
                let value = format!("--{flag}={value}");
                let parsed = Arguments::try_parse_from(["fencepost", name, &value]);
                parsed.is_ok()
            };
            let (least, most) = (i128::from(least), i128::from(most));
            assert!(accepts(least) && accepts(most), "{name} --{flag}");
            assert!(!accepts(least - 1) && !accepts(most + 1), "{name} --{flag}");
        }
    }
    assert!(ranges >= 4, "{ranges} ranges were found");
}

#[test]
fn the_help_of_gauntlet_knows_which_trials_keep_their_ttl() {
    let text = text("gauntlet");
    let described = described(&text);
    let (_, ttl) = described.iter().find(|(flag, _)| *flag == "ttl").unwrap();
    let (_, groups) = ttl.split_once("does not change these:").unwrap();
    let of_group = |group: &str| {
        let (names, ttl_ms) = group.split_once(':').unwrap();
        let ttl_ms: u64 = ttl_ms.trim().parse().unwrap();
        let names: Vec<String> = names
            .split(',')
            .map(|name| name.trim().to_owned())
            .collect();
        names.into_iter().map(move |name| (name, ttl_ms))
    };
    let written: BTreeSet<(String, u64)> = groups.split(';').flat_map(of_group).collect();
    let kept = Scenario::ALL.into_iter().filter(|one| one.keeps_its_ttl());
    let kept = kept.map(|one| (one.name().to_owned(), one.ttl_ms()));
    assert_eq!(written, kept.collect());
}

#[test]
fn flags_of_all_trials_are_flags_of_each_trial() {
    let overview = requested(&["help".to_owned()]).unwrap();
    let (_, options) = overview.split_once("Options of trials").unwrap();
    let (options, _) = options.split_once("Exit codes").unwrap();
    // `-h` and `-V` are answered before the command line is parsed.
    let general = ["--features", "-h", "-V"];
    for flag in flags(options) {
        for name in ["oversell", "deadlock", "crash", "trial", "retry", "run-all"] {
            let (long, short) = (flag.strip_prefix("--"), flag.chars().nth(1));
            let has = arguments(&parser(name)).iter().any(|arg| match long {
                Some(long) => arg.get_long() == Some(long),
                None => arg.get_short() == short,
            });
            assert!(has || general.contains(&flag), "{name} has no {flag}");
        }
    }
}

/// Returns the commands in the examples of a text, up to a pipe, a semicolon or a comment.
#[cfg(feature = "full")]
fn examples(text: &str) -> Vec<Vec<String>> {
    let (_, examples) = text.split_once("Examples\n").unwrap();
    let lines = examples
        .lines()
        .filter(|line| line.starts_with("  fencepost "));
    let commands = lines.map(|line| {
        let command = line.trim().split("  ").next().unwrap_or_default();
        let mut words = shlex::split(command).unwrap();
        if let Some(at) = words.iter().position(|word| word.starts_with('|')) {
            words.truncate(at);
        }
        if let Some(at) = words.iter().position(|word| word.ends_with(';')) {
            words.truncate(at + 1);
            words[at].pop();
        }
        words
    });
    commands.collect()
}

#[cfg(feature = "full")]
#[test]
fn every_example_can_be_typed() {
    for name in listed() {
        let text = requested(&[name.to_owned(), "--help".to_owned()]).unwrap();
        for example in examples(&text) {
            let parsed = Arguments::try_parse_from(&example);
            assert!(parsed.is_ok(), "{example:?}: {}", parsed.unwrap_err());
        }
    }
}

#[test]
fn the_help_of_run_all_names_what_it_leaves_out() {
    let cells = cells(&TrialStore::sqlite(), 1);
    let run: BTreeSet<&str> = cells
        .iter()
        .filter(|cell| !matches!(cell, Cell::Retry(_)))
        .map(Cell::scenario)
        .collect();
    assert_eq!(run.len(), 7, "{run:?}");
    let text = text("run-all");
    assert!(text.starts_with("Seven scenarios "), "{text}");
    for scenario in Scenario::ALL.map(Scenario::name) {
        assert_ne!(
            text.contains(scenario),
            run.contains(scenario),
            "{scenario}"
        );
    }
}
