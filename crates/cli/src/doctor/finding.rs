//! The findings of an examination, their severity, and the conclusion and exit code that follow from a list of them.

use serde_json::{Map, Value};

/// How much a finding matters. The variants are in the order in which findings are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    /// Locks fail, or a lock can have two holders, in ordinary operation.
    Danger,
    /// A fault or an accident can cost a lock.
    Caution,
    Fine,
    /// The doctor could not find it out.
    Unknown,
}

impl Severity {
    pub(super) const ALL: [Self; 4] = [Self::Danger, Self::Caution, Self::Fine, Self::Unknown];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Danger => "danger",
            Self::Caution => "caution",
            Self::Fine => "fine",
            Self::Unknown => "unknown",
        }
    }
}

/// What a danger or a caution does to locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Harm {
    /// No lock can be taken.
    NoLocks,
    /// A lock can disappear, or have two holders, at any time.
    Vanishes,
    /// A restart or a failover can forget a lock.
    Forgotten,
    #[cfg(any(feature = "postgres", feature = "redlock"))]
    /// The fence of a lock can fall below what resources have seen.
    FenceFalls,
    #[cfg(any(feature = "etcd", feature = "zookeeper"))]
    /// The loss of one machine, or of its disk, forgets all locks.
    OneMachine,
    /// Locks work, but not as well as they could.
    Hampered,
}

/// What the doctor found out about one topic.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    pub(super) topic: &'static str,
    /// The state that was found, with figures.
    pub(super) what: String,
    /// What the state means for locks; may be empty.
    pub(super) means: String,
    /// What to do; may be empty.
    pub(super) advice: String,
    pub(super) harm: Option<Harm>,
    /// The figures for the JSON document.
    pub(super) figures: Map<String, Value>,
}

#[cfg(feature = "redlock")]
impl Finding {
    /// Returns whether this is a danger or a caution.
    pub(super) fn is_trouble(&self) -> bool {
        self.harm.is_some()
    }

    pub(super) fn means(mut self, means: impl Into<String>) -> Self {
        self.means = means.into();
        self
    }

    /// Lowers this finding to a caution that does less harm.
    pub(super) fn only(mut self, harm: Harm) -> Self {
        self.severity = Severity::Caution;
        self.harm = Some(harm);
        self
    }

    /// Replaces the sentence that describes the state.
    pub(super) fn saying(mut self, what: String) -> Self {
        self.what = what;
        self
    }
}

#[cfg(test)]
impl Finding {
    fn new(severity: Severity, topic: &'static str, what: &str) -> Self {
        Self {
            severity,
            topic,
            what: what.to_owned(),
            means: String::new(),
            advice: String::new(),
            harm: None,
            figures: Map::new(),
        }
    }

    pub(super) fn danger(topic: &'static str, harm: Harm, what: &str) -> Self {
        Self {
            harm: Some(harm),
            ..Self::new(Severity::Danger, topic, what)
        }
    }

    fn caution(topic: &'static str, harm: Harm) -> Self {
        Self {
            harm: Some(harm),
            ..Self::new(Severity::Caution, topic, "")
        }
    }

    pub(super) fn fine(topic: &'static str, what: &str) -> Self {
        Self::new(Severity::Fine, topic, what)
    }

    pub(super) fn unknown(topic: &'static str, what: &str) -> Self {
        Self::new(Severity::Unknown, topic, what)
    }

    pub(super) fn figure(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.figures.insert(name.to_owned(), value.into());
        self
    }
}

pub(super) fn count(findings: &[Finding], severity: Severity) -> usize {
    let alike = findings.iter().filter(|found| found.severity == severity);
    alike.count()
}

/// Returns 0 if all is fine, 1 for cautions, 2 for dangers. Unknown findings do not count.
pub(super) fn exit_code(findings: &[Finding]) -> u8 {
    match findings.iter().map(|finding| finding.severity).min() {
        Some(Severity::Danger) => 2,
        Some(Severity::Caution) => 1,
        _ => 0,
    }
}

/// Sums up all findings in a sentence: the worst harm among the findings of the worst severity.
pub(super) fn conclusion(findings: &[Finding]) -> &'static str {
    let worst = findings.iter().filter(|finding| finding.harm.is_some());
    let worst = worst.min_by_key(|finding| (finding.severity, finding.harm));
    match worst.and_then(|finding| finding.harm) {
        Some(Harm::NoLocks) => "no lock can be taken here.",
        Some(Harm::Vanishes) => "a lock here can vanish while it is held.",
        Some(Harm::Forgotten) => "a restart or a failover can forget locks that are held.",
        #[cfg(any(feature = "postgres", feature = "redlock"))]
        Some(Harm::FenceFalls) => "a crash or a failover can make fences fall here.",
        #[cfg(any(feature = "etcd", feature = "zookeeper"))]
        Some(Harm::OneMachine) => "locks here do not outlive the loss of one machine.",
        Some(Harm::Hampered) => "locks work here, but not as well as they could.",
        None => "nothing was found that endangers locks here.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_decides() {
        let fine = Finding::fine("version", "7.0");
        let unknown = Finding::unknown("snapshots", "");
        let caution = Finding::caution("replica", Harm::Forgotten);
        let slow = Finding::caution("round trip", Harm::Hampered);
        let danger = Finding::danger("eviction", Harm::Vanishes, "");
        let judged = |findings: &[&Finding]| {
            let findings: Vec<Finding> = findings.iter().copied().cloned().collect();
            (exit_code(&findings), conclusion(&findings))
        };
        assert_eq!(judged(&[&fine, &unknown]).0, 0);
        assert!(judged(&[&fine]).1.starts_with("nothing"));
        assert_eq!(judged(&[&slow, &fine]).0, 1);
        assert!(judged(&[&slow, &caution]).1.starts_with("a restart"));
        assert_eq!(judged(&[&caution, &danger]).0, 2);
        assert!(judged(&[&caution, &danger]).1.contains("vanish"));
    }
}
