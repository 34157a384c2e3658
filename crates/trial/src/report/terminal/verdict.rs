//! A verdict on the terminal, with its grounds in a fixed order; and many verdicts, counted.

use crate::matrix::Summary;
use crate::text::ink::{Ink, Role};
use crate::text::numbers::ms;
use crate::verdict::{Cited, Evidence, Next, Outcome, Verdict};

/// The column at which the text of a labelled line begins.
const LABELLED: usize = 12;

/// Returns the verdict with its grounds and, unless `quiet`, with its explanation and suggested commands.
pub fn text(verdict: &Verdict, quiet: bool, ink: Ink) -> String {
    let mut text = headline(verdict.outcome, &verdict.because, ink);
    let mut lines = |label: &str, said: &[String], line: fn(Ink, &str, &str) -> String| {
        for (index, said) in said.iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            text.push_str(&line(ink, label, said));
        }
    };
    let one = |said: &Option<String>| said.iter().cloned().collect::<Vec<_>>();
    lines("measured", &verdict.measured, Ink::sentence);
    lines("proof", &proof(&verdict.evidence, ink), Ink::labelled);
    lines("witness", &verdict.witness, Ink::sentence);
    let missing = verdict.missing.as_ref();
    lines(
        "missing",
        &one(&missing.map(|missing| missing.advice.to_owned())),
        Ink::sentence,
    );
    lines("belief", &one(&verdict.belief.text), Ink::sentence);
    lines("damage", &one(&verdict.damage.text), Ink::sentence);
    lines("found", &verdict.found, Ink::sentence);
    if !quiet {
        lines("why", &one(&verdict.why), Ink::sentence);
    }
    lines("limits", &one(&verdict.limits), Ink::sentence);
    lines("note", &verdict.notes, Ink::sentence);
    if !quiet {
        lines("next", &next(&verdict.next, ink), Ink::labelled);
    }
    text
}

/// Returns the line that readers and `grep` look for.
pub fn headline(outcome: Outcome, because: &str, ink: Ink) -> String {
    let word = outcome.to_string();
    let margin = word.len() + 3;
    let lines = ink.fold(because, margin);
    let text = lines.join(&format!("\n{:margin$}", ""));
    format!("{}   {text}\n", ink.paint(role(outcome), word))
}

/// Returns the colour of a verdict.
pub(super) fn role(outcome: Outcome) -> Role {
    match outcome {
        Outcome::Held => Role::Good,
        Outcome::Broken => Role::Bad,
        Outcome::Stuck => Role::Stuck,
        Outcome::Inconclusive => Role::Unsure,
    }
}

/// Returns the glyph of a verdict.
pub(super) fn glyph(outcome: Outcome) -> char {
    match outcome {
        Outcome::Held => '✓',
        Outcome::Broken => '✗',
        Outcome::Stuck => '■',
        Outcome::Inconclusive => '?',
    }
}

/// Returns how many verdicts are as expected, and each surprise with the command that reproduces it.
pub(super) fn summary(lines: &[Summary], took: &str, ink: Ink) -> String {
    let expected = lines.iter().filter(|line| line.as_expected()).count();
    let mut text = format!(
        "{expected} of {} as expected   {}{took}\n",
        lines.len(),
        counts(lines, " ")
    );
    for line in lines.iter().filter(|line| !line.as_expected()) {
        let command = ink.paint(Role::Command, &line.reproduce);
        text.push_str(&ink.labelled("surprise", &format!("{}: {command}", line.outcome)));
    }
    text
}

/// Returns how many verdicts of each kind there are.
pub(super) fn counts(lines: &[Summary], between: &str) -> String {
    let outcomes = [
        Outcome::Held,
        Outcome::Broken,
        Outcome::Stuck,
        Outcome::Inconclusive,
    ];
    let number = |outcome| lines.iter().filter(|line| line.outcome == outcome).count();
    let counts: Vec<String> = outcomes
        .into_iter()
        .filter(|outcome| number(*outcome) > 0)
        .map(|outcome| format!("{}{between}{outcome}", number(outcome)))
        .collect();
    counts.join(", ")
}

fn proof(evidence: &[Evidence], ink: Ink) -> Vec<String> {
    let timed = || {
        evidence
            .iter()
            .filter(|e| !matches!(e.cited, Cited::Ops(..)))
    };
    let place_width = timed().map(|e| place(e).len()).max().unwrap_or(0);
    let gap = if timed().any(|e| e.cited != Cited::Event) {
        1
    } else {
        2
    };
    let time_width = timed().map(|e| ms(e.at_ns).len()).max().unwrap_or(0).max(5);
    let said_width = evidence.iter().map(|e| e.sentence.chars().count());
    let said_width = said_width.max().unwrap_or(0).max(31);
    let line = |e: &Evidence| {
        let when = match e.cited {
            Cited::Ops(..) => {
                let width = place_width + gap + time_width + 3;
                ink.paint(Role::Label, format_args!("{:<width$}", place(e)))
            }
            _ => {
                let place = ink.paint(Role::Label, format_args!("{:<place_width$}", place(e)));
                format!("{place}{:gap$}{:>time_width$} ms", "", ms(e.at_ns))
            }
        };
        let line = format!("{:<said_width$}  {}", e.sentence, e.shows);
        (when, line.trim_end().to_owned())
    };
    let margin = place_width + gap + time_width + 5;
    let lines: Vec<(String, String)> = evidence.iter().map(line).collect();
    let widest = lines.iter().map(|(_, line)| line.chars().count()).max();
    if LABELLED + margin + widest.unwrap_or(0) <= ink.columns {
        let line = |(when, line)| format!("{when}  {line}");
        return lines.into_iter().map(line).collect();
    }
    let mut folded = Vec::new();
    for ((when, _), e) in lines.iter().zip(evidence) {
        let said = match e.shows.as_str() {
            "" => e.sentence.clone(),
            shows => format!("{}; {shows}", e.sentence),
        };
        for (index, line) in ink.fold(&said, LABELLED + margin).iter().enumerate() {
            folded.push(match index {
                0 => format!("{when}  {line}"),
                _ => format!("{:margin$}{line}", ""),
            });
        }
    }
    folded
}

fn place(evidence: &Evidence) -> String {
    match evidence.cited {
        Cited::Event => format!("#{}", evidence.event),
        Cited::Op(op) => format!("op {op}"),
        Cited::Ops(first, last) => format!("op {first}–{last}"),
    }
}

/// Returns the commands in a column, each with its remark if it fits the screen.
fn next(commands: &[Next], ink: Ink) -> Vec<String> {
    if commands.iter().all(|next| next.remark.is_empty()) && !commands.is_empty() {
        let one_line: Vec<_> = commands.iter().map(|next| next.command.as_str()).collect();
        if LABELLED + one_line.join(" · ").chars().count() <= ink.columns {
            let painted = one_line
                .iter()
                .map(|command| ink.paint(Role::Command, command));
            return vec![painted.collect::<Vec<_>>().join(" · ")];
        }
    }
    // A command that is longer than the others must not cost them their remarks.
    let longest_remark = commands.iter().map(|next| next.remark.len()).max();
    let room = LABELLED + 3 + longest_remark.unwrap_or(0);
    let widths = commands.iter().map(|next| next.command.len());
    let width = widths.filter(|width| room + width <= ink.columns).max();
    let line = |Next { command, remark }: &Next| {
        let painted = ink.paint(Role::Command, command);
        let gap = width.unwrap_or(0).saturating_sub(command.len()) + 3;
        let fits = LABELLED + command.len() + gap + remark.len() <= ink.columns;
        if fits && !remark.is_empty() {
            format!("{painted}{:gap$}{remark}", "")
        } else {
            painted
        }
    };
    commands.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_does_not_cost_the_others_their_remarks() {
        let command = |length: usize, remark| Next {
            command: "c".repeat(length),
            remark,
        };
        let commands = [command(54, "one"), command(50, "two"), command(86, "three")];
        let lines = next(&commands, Ink::PLAIN);
        assert_eq!(lines[0], format!("{}   one", "c".repeat(54)));
        assert_eq!(lines[1], format!("{}       two", "c".repeat(50)));
        assert_eq!(lines[2], "c".repeat(86));
    }
}
