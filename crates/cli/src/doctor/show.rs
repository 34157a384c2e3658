//! Prints the findings of the doctor as text or JSON.

use fencepost_trial::text::ink::{Ink, Role};
use fencepost_trial::text::numbers::plural;
use serde_json::{Value, json};

use super::Examination;
use super::finding::{Finding, Severity, conclusion, count, exit_code};
use super::pace::ROUND_TRIP;

/// The columns in which the topic and its text begin.
const TOPIC: usize = 14;
const SAID: usize = 28;
/// Topics that are measured; among what is fine they have their own paragraph.
const MEASURED: [&str; 2] = [ROUND_TRIP, "clock"];

/// Formats the findings as text; `quiet` leaves out what is fine.
pub(super) fn text(examination: &Examination, quiet: bool, ink: Ink) -> String {
    let mut text = format!(
        "doctor   {}   {}\n\n",
        examination.address, examination.server
    );
    for severity in Severity::ALL {
        let alike = examination.findings.iter();
        let alike: Vec<&Finding> = alike.filter(|found| found.severity == severity).collect();
        match severity {
            Severity::Fine if quiet => {}
            Severity::Fine => text.push_str(&all_fine(&alike, ink)),
            _ => alike
                .iter()
                .for_each(|found| text.push_str(&entry(found, ink))),
        }
    }
    text.push_str(&format!("\n{}\n", summary(&examination.findings)));
    text
}

fn entry(finding: &Finding, ink: Ink) -> String {
    let mut paragraphs = vec![finding.what.clone(), finding.means.clone()];
    if !finding.advice.is_empty() {
        paragraphs.push(format!("do: {}", finding.advice));
    }
    let lines = paragraphs.iter().filter(|said| !said.is_empty());
    let lines: Vec<String> = lines.flat_map(|said| ink.fold(said, SAID)).collect();
    let topic = format!("{:<1$}", finding.topic, SAID - TOPIC);
    beside(finding.severity, &topic, &lines, ink)
}

/// Formats what is fine, in as few lines as possible.
fn all_fine(findings: &[&Finding], ink: Ink) -> String {
    let mut text = String::new();
    for is_measured in [false, true] {
        let alike = findings.iter();
        let alike = alike.filter(|found| MEASURED.contains(&found.topic) == is_measured);
        let said: Vec<&str> = alike.map(|found| found.what.as_str()).collect();
        if !said.is_empty() {
            let lines = ink.fold(&said.join("; "), TOPIC);
            text.push_str(&beside(Severity::Fine, "", &lines, ink));
        }
    }
    text
}

/// Formats lines of text beside the word for their severity.
fn beside(severity: Severity, topic: &str, lines: &[String], ink: Ink) -> String {
    let (glyph, role) = match severity {
        Severity::Danger => ('✗', Role::Bad),
        Severity::Caution => ('!', Role::Unsure),
        Severity::Fine => ('✓', Role::Good),
        Severity::Unknown => ('?', Role::Unsure),
    };
    let word = ink.paint(role, format_args!("{glyph} {:<10}", severity.as_str()));
    let margin = TOPIC + topic.len();
    let mut text = format!("  {word}{topic}{}\n", lines.first().map_or("", |line| line));
    for line in lines.iter().skip(1) {
        text.push_str(&format!("{:margin$}{line}\n", ""));
    }
    text
}

/// Formats the last line: how many findings of each severity, and the conclusion.
fn summary(findings: &[Finding]) -> String {
    let of = |severity, one, many| match count(findings, severity) {
        0 => None,
        number => Some(plural(number, one, many)),
    };
    let counts = [
        of(Severity::Danger, "danger", "dangers"),
        of(Severity::Caution, "caution", "cautions"),
        of(Severity::Unknown, "unknown", "unknown"),
    ];
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    match counts.as_slice() {
        [] => format!("all fine: {}", conclusion(findings)),
        counts => format!("{}: {}", counts.join(", "), conclusion(findings)),
    }
}

/// Returns the JSON document, as described by `docs/schema/doctor.json`.
pub(super) fn document(examination: &Examination) -> Value {
    let findings = &examination.findings;
    let finding = |found: &Finding| {
        json!({
            "severity": found.severity.as_str(),
            "topic": found.topic,
            "what": found.what,
            "means": found.means,
            "do": found.advice,
            "figures": found.figures,
        })
    };
    json!({
        "schema": "fencepost/doctor/1",
        "version": env!("CARGO_PKG_VERSION"),
        "store": examination.address,
        "patient": examination.server,
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
        "danger": count(findings, Severity::Danger),
        "caution": count(findings, Severity::Caution),
        "fine": count(findings, Severity::Fine),
        "unknown": count(findings, Severity::Unknown),
        "conclusion": conclusion(findings),
        "exit_code": exit_code(findings),
    })
}
