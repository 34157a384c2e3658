//! One thing that was found, and what a list of them comes to.

use serde_json::{Map, Value};

/// How much it matters; in the order in which findings are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    /// Locks fail here, or two can hold one, without anything out of the ordinary happening.
    Danger,
    /// It takes a fault or an accident.
    Caution,
    Fine,
    /// It could not be found out.
    Unknown,
}

impl Severity {
    pub(super) const ALL: [Self; 4] = [Self::Danger, Self::Caution, Self::Fine, Self::Unknown];

    pub(super) fn word(self) -> &'static str {
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
    /// None can be taken.
    NoLocks,
    /// One can go away, or have two holders, any time.
    Vanishes,
    /// One can be forgotten by a restart or a failover.
    Forgotten,
    #[cfg(any(feature = "postgres", feature = "redlock"))]
    /// Its fence can fall behind what resources have seen.
    FenceFalls,
    #[cfg(any(feature = "etcd", feature = "zookeeper"))]
    /// All are forgotten with one machine, or its disk.
    OneMachine,
    /// They work, less well than they could.
    Hampered,
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    pub(super) topic: &'static str,
    /// What is so, with figures.
    pub(super) what: String,
    /// What that means for locks; may be empty.
    pub(super) means: String,
    /// What to do; may be empty.
    pub(super) advice: String,
    pub(super) harm: Option<Harm>,
    /// The figures for programs.
    pub(super) figures: Map<String, Value>,
}

#[cfg(feature = "redlock")]
impl Finding {
    /// Whether it is neither fine nor unknown.
    pub(super) fn is_trouble(&self) -> bool {
        self.harm.is_some()
    }

    pub(super) fn means(mut self, means: impl Into<String>) -> Self {
        self.means = means.into();
        self
    }

    /// The same, where it takes more than this to do that harm.
    pub(super) fn only(mut self, harm: Harm) -> Self {
        self.severity = Severity::Caution;
        self.harm = Some(harm);
        self
    }

    /// The same in other words.
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

/// 0 fine, 1 caution, 2 danger. What is unknown is no more than that.
pub(super) fn exit_code(findings: &[Finding]) -> u8 {
    match findings.iter().map(|finding| finding.severity).min() {
        Some(Severity::Danger) => 2,
        Some(Severity::Caution) => 1,
        _ => 0,
    }
}

/// What all of it means, in a sentence: the worst of what the worst findings do.
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
        let told = |findings: &[&Finding]| {
            let findings: Vec<Finding> = findings.iter().copied().cloned().collect();
            (exit_code(&findings), conclusion(&findings))
        };
        assert_eq!(told(&[&fine, &unknown]).0, 0);
        assert!(told(&[&fine]).1.starts_with("nothing"));
        assert_eq!(told(&[&slow, &fine]).0, 1);
        assert!(told(&[&slow, &caution]).1.starts_with("a restart"));
        assert_eq!(told(&[&caution, &danger]).0, 2);
        assert!(told(&[&caution, &danger]).1.contains("vanish"));
    }
}
