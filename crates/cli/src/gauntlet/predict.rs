//! `fencepost gauntlet --predict`: asks for the verdict on each scenario before any is run, for courses.

use std::io::{self, BufRead, IsTerminal};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use fencepost_rig::Interrupt;
use fencepost_trial::gauntlet::{Gauntlet, Prediction};
use fencepost_trial::matrix::Cell;
use fencepost_trial::report::terminal::gauntlet::{HOW_TO_PREDICT, question};
use fencepost_trial::verdict::Outcome;

use crate::command_error::CommandError;
use crate::exit;
use crate::screen::Screen;

/// How often to look for Ctrl-C while the user thinks.
const LOOK_UP: Duration = Duration::from_millis(50);

/// Refuses to ask if nobody can answer.
pub(super) fn can_ask() -> Result<(), CommandError> {
    let place = if !io::stdin().is_terminal() {
        "standard input"
    } else if !io::stdout().is_terminal() {
        "standard output"
    } else {
        return Ok(());
    };
    Err(CommandError::new(exit::USAGE, "cannot ask for predictions")
        .at(format_args!("--predict: {place} is not a terminal"))
        .effect("none: no process was started")
        .try_this("run it in a terminal, or leave out --predict"))
}

/// Asks for the verdict on the scenario of each cell.
pub(super) fn ask(
    gauntlet: &Gauntlet,
    cells: &[Cell],
    screen: &mut Screen,
    interrupt: Interrupt,
) -> Result<Vec<Prediction>, CommandError> {
    let lines = lines();
    let mut predictions = Vec::new();
    screen.print(HOW_TO_PREDICT);
    for runs in cells.chunk_by(|one, other| one.scenario() == other.scenario()) {
        screen.print(&question(gauntlet, &runs[0], screen.ink));
        let outcome = loop {
            screen.print("  predict   ");
            let answer = next(&lines, interrupt).inspect_err(|_| screen.print("\n"))?;
            match answer.map(|answer| parse(&answer)) {
                None => break None,
                Some(Ok(outcome)) => break outcome,
                Some(Err(advice)) => screen.print(&format!("            {advice}\n")),
            }
        };
        predictions.extend(outcome.map(|outcome| Prediction {
            scenario: runs[0].scenario(),
            outcome,
        }));
    }
    screen.print("\n");
    Ok(predictions)
}

/// Returns the verdict that a word or its first letter names; `None` if the line is empty.
fn parse(answer: &str) -> Result<Option<Outcome>, &'static str> {
    let answer = answer.trim().to_uppercase();
    if answer.is_empty() {
        return Ok(None);
    }
    let names = |outcome: &Outcome| outcome.to_string().starts_with(&answer);
    let named = Outcome::WORST_FIRST.into_iter().find(names);
    named
        .map(Some)
        .ok_or("a verdict: held, broken, stuck or inconclusive; Enter for none")
}

/// Returns the lines that the user types. The thread that reads them ends with the program.
fn lines() -> Receiver<String> {
    let (tell, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let is_over = line.map_or(true, |line| tell.send(line).is_err());
            if is_over {
                return;
            }
        }
    });
    lines
}

/// Returns the next line, or `None` at the end of the input.
fn next(lines: &Receiver<String>, interrupt: Interrupt) -> Result<Option<String>, CommandError> {
    loop {
        if let Some(signal) = interrupt.requested() {
            let what = "no trial had begun.";
            return Err(CommandError::interrupted(exit::interrupted(signal), what));
        }
        match lines.recv_timeout(LOOK_UP) {
            Ok(line) => return Ok(Some(line)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_named_by_its_word_or_its_letter() {
        for (answer, expected) in [
            ("h\n", Some(Outcome::Held)),
            (" Broken ", Some(Outcome::Broken)),
            ("STUCK", Some(Outcome::Stuck)),
            ("inc", Some(Outcome::Inconclusive)),
            ("", None),
            ("  ", None),
        ] {
            assert_eq!(parse(answer), Ok(expected), "{answer}");
        }
        for nonsense in ["yes", "heldd", "?"] {
            assert!(parse(nonsense).is_err(), "{nonsense}");
        }
    }
}
