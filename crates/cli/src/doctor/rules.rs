//! The rule engine of the doctor: checks, their rules, and how a rule becomes a finding.
//!
//! Each store has a reader, which collects readings and judges nothing, and a list of [`Check`]s that judge these readings. The tables in
//! `docs/doctor.md` are generated from the same checks.

use serde_json::Value;

use super::finding::{Finding, Harm, Severity};

/// Everything that can be said about one topic.
pub(super) struct Check<R: 'static> {
    pub(super) topic: &'static str,
    /// The source of the readings, for the tables in `docs/doctor.md`.
    #[allow(dead_code, reason = "only the test that generates the page reads it")]
    pub(super) reads: &'static str,
    /// The first rule that applies becomes a finding. If no rule applies, the topic is not reported.
    pub(super) rules: &'static [Rule<R>],
    /// The figures for the JSON document; they do not depend on which rule applies.
    pub(super) figures: fn(&R) -> Figures,
}

pub(super) type Figures = Vec<(&'static str, Value)>;

pub(super) fn no_figures<R>(_: &R) -> Figures {
    Vec::new()
}

/// One possible state of a topic, with its severity and its words.
pub(super) struct Rule<R> {
    pub(super) severity: Severity,
    harm: Option<Harm>,
    /// When the rule applies, as `docs/doctor.md` puts it; empty for rules with severity fine or unknown.
    #[allow(dead_code, reason = "only the test that generates the page reads it")]
    pub(super) page: &'static str,
    when: fn(&R) -> bool,
    what: What<R>,
    means: Words<R>,
    advice: Words<R>,
}

/// The sentence that describes the state.
enum What<R> {
    Always(Words<R>),
    /// The rule applies only if the function returns a sentence.
    If(fn(&R) -> Option<String>),
}

enum Words<R> {
    Fixed(&'static str),
    With(fn(&R) -> String),
}

impl<R> Words<R> {
    fn of(&self, readings: &R) -> String {
        match self {
            Self::Fixed(words) => (*words).to_owned(),
            Self::With(words) => words(readings),
        }
    }
}

impl<R> Rule<R> {
    /// Creates a rule for a danger: locks fail, or a lock can have two holders, in ordinary operation.
    pub(super) const fn danger(harm: Harm, page: &'static str) -> Self {
        Self::new(Severity::Danger, Some(harm), page)
    }

    /// Creates a rule for a caution: a fault or an accident can cost a lock.
    pub(super) const fn caution(harm: Harm, page: &'static str) -> Self {
        Self::new(Severity::Caution, Some(harm), page)
    }

    /// Creates a rule for what the doctor could not find out.
    pub(super) const fn unknown() -> Self {
        Self::new(Severity::Unknown, None, "")
    }

    /// Creates a rule for what is fine. Applies unless [`Rule::when`] says otherwise, so it is the last rule of most checks.
    pub(super) const fn fine() -> Self {
        Self::new(Severity::Fine, None, "")
    }

    const fn new(severity: Severity, harm: Option<Harm>, page: &'static str) -> Self {
        Self {
            severity,
            harm,
            page,
            when: always,
            what: What::Always(Words::Fixed("")),
            means: Words::Fixed(""),
            advice: Words::Fixed(""),
        }
    }

    /// Sets the condition under which the rule applies.
    pub(super) const fn when(self, when: fn(&R) -> bool) -> Self {
        Self { when, ..self }
    }

    /// Sets the sentence that describes the state.
    pub(super) const fn say(self, what: &'static str) -> Self {
        let what = What::Always(Words::Fixed(what));
        Self { what, ..self }
    }

    /// Sets a sentence that contains figures from the readings.
    pub(super) const fn say_with(self, what: fn(&R) -> String) -> Self {
        let what = What::Always(Words::With(what));
        Self { what, ..self }
    }

    /// Sets condition and sentence in one: the rule applies if `what` returns a sentence.
    pub(super) const fn finds(self, what: fn(&R) -> Option<String>) -> Self {
        let what = What::If(what);
        Self { what, ..self }
    }

    /// Returns the sentence that describes the state, or `None` if the rule does not apply.
    fn found(&self, readings: &R) -> Option<String> {
        if !(self.when)(readings) {
            return None;
        }
        match &self.what {
            What::Always(words) => Some(words.of(readings)),
            What::If(what) => what(readings),
        }
    }

    /// Sets the sentence on what the state means for locks.
    pub(super) const fn means(self, means: &'static str) -> Self {
        let means = Words::Fixed(means);
        Self { means, ..self }
    }

    /// Sets what the finding means, like [`Rule::means`], but with figures from the readings.
    pub(super) const fn means_with(self, means: fn(&R) -> String) -> Self {
        let means = Words::With(means);
        Self { means, ..self }
    }

    /// Sets the advice.
    pub(super) const fn advise(self, advice: &'static str) -> Self {
        let advice = Words::Fixed(advice);
        Self { advice, ..self }
    }

    /// Sets the advice, like [`Rule::advise`], but with names and figures from the readings.
    pub(super) const fn advise_with(self, advice: fn(&R) -> String) -> Self {
        let advice = Words::With(advice);
        Self { advice, ..self }
    }
}

fn always<R>(_: &R) -> bool {
    true
}

/// Applies all checks in order and returns their findings.
pub(super) fn apply<R>(checks: &[Check<R>], readings: &R) -> Vec<Finding> {
    let findings = checks.iter().filter_map(|check| check.apply(readings));
    findings.collect()
}

impl<R> Check<R> {
    /// Returns the finding of the first rule that applies, or `None` if no rule applies.
    pub(super) fn apply(&self, readings: &R) -> Option<Finding> {
        let mut rules = self.rules.iter();
        let found = |rule: &'static Rule<R>| Some((rule, rule.found(readings)?));
        let (rule, what) = rules.find_map(found)?;
        let figures = (self.figures)(readings).into_iter();
        Some(Finding {
            severity: rule.severity,
            topic: self.topic,
            what,
            means: rule.means.of(readings),
            advice: rule.advice.of(readings),
            harm: rule.harm,
            figures: figures
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rule = super::Rule<i64>;

    const CHECKS: &[Check<i64>] = &[
        Check {
            topic: "size",
            reads: "`SIZE`",
            rules: &[
                Rule::danger(Harm::NoLocks, "100 or more")
                    .when(|size| *size >= 100)
                    .say_with(|size| format!("{size} is too much"))
                    .advise("less"),
                Rule::caution(Harm::Hampered, "50 or more").when(|size| *size >= 50),
                Rule::fine().say("small"),
            ],
            figures: |size| vec![("size", (*size).into())],
        },
        Check {
            topic: "sign",
            reads: "`SIZE`",
            rules: &[Rule::unknown().when(|size| *size < 0)],
            figures: no_figures,
        },
    ];

    #[test]
    fn the_first_rule_that_applies_is_told() {
        let findings = |size| apply(CHECKS, &size);
        let severities = [120, 60, 7].map(|size| findings(size)[0].severity);
        let expected = [Severity::Danger, Severity::Caution, Severity::Fine];
        assert_eq!(severities, expected);
        let worst = &findings(120)[0];
        assert_eq!(
            (worst.what.as_str(), worst.advice.as_str()),
            ("120 is too much", "less")
        );
        assert_eq!(worst.figures["size"], 120);
    }

    #[test]
    fn where_no_rule_applies_nothing_is_said() {
        assert_eq!(apply(CHECKS, &7).len(), 1);
        assert_eq!(apply(CHECKS, &-7).len(), 2);
    }
}
