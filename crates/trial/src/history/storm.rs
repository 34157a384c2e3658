//! The settings that only storms have, and the kinds of faults in them.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The settings that only storms have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StormSettings {
    /// How long processes take locks while faults are injected.
    pub for_ms: u64,
    /// How many processes take part.
    pub processes: usize,
    /// How many locks there are.
    pub names: usize,
    /// The kinds of faults that are injected. Earlier versions had only kills and pauses, and did not say so.
    #[serde(default = "FaultKinds::of_processes")]
    pub faults: FaultKinds,
}

/// A kind of faults in a storm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A process is killed and started again.
    Kill,
    /// A process is stopped for a while.
    Pause,
    /// A process is cut off from its store for a while.
    Cut,
    /// Every message between a process and its store travels for longer, for a while.
    Delay,
    /// A server is stopped for a while, or killed and started again with its data.
    Server,
    /// The time of day of a process jumps for a while.
    Clock,
}

impl FaultKind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::Kill,
        Self::Pause,
        Self::Cut,
        Self::Delay,
        Self::Server,
        Self::Clock,
    ];

    /// Returns its name, as in `--faults`.
    pub fn name(self) -> &'static str {
        self.forms()[0]
    }

    /// Returns the noun for one such fault.
    pub fn one(self) -> &'static str {
        self.forms()[1]
    }

    /// Returns the noun for several such faults.
    pub fn plural(self) -> &'static str {
        self.forms()[2]
    }

    fn forms(self) -> [&'static str; 3] {
        match self {
            Self::Kill => ["kill", "kill", "kills"],
            Self::Pause => ["pause", "pause", "pauses"],
            Self::Cut => ["cut", "cut", "cuts"],
            Self::Delay => ["delay", "delay", "delays"],
            Self::Server => ["server", "server fault", "server faults"],
            Self::Clock => ["clock", "clock jump", "clock jumps"],
        }
    }

    /// Returns the kind with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Some of the kinds of faults. A history has them as a list of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultKinds(u8);

impl FaultKinds {
    /// Returns the kinds that every store allows, because they concern nothing but processes.
    pub const fn of_processes() -> Self {
        Self(1 << FaultKind::Kill as u8 | 1 << FaultKind::Pause as u8)
    }

    /// Returns whether this kind is one of them.
    pub fn has(self, kind: FaultKind) -> bool {
        self.0 & kind.bit() != 0
    }

    /// Returns whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns them in a fixed order.
    pub fn iter(self) -> impl Iterator<Item = FaultKind> {
        FaultKind::ALL
            .into_iter()
            .filter(move |kind| self.has(*kind))
    }

    /// Returns the others, without this kind.
    #[must_use]
    pub fn without(self, kind: FaultKind) -> Self {
        Self(self.0 & !kind.bit())
    }

    /// Returns them as `--faults` takes them: "kill,pause".
    pub fn listed(self, separator: &str) -> String {
        let names: Vec<&str> = self.iter().map(FaultKind::name).collect();
        names.join(separator)
    }
}

impl FromIterator<FaultKind> for FaultKinds {
    fn from_iter<I: IntoIterator<Item = FaultKind>>(kinds: I) -> Self {
        Self(kinds.into_iter().fold(0, |bits, kind| bits | kind.bit()))
    }
}

impl Serialize for FaultKinds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for FaultKinds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let kinds = Vec::<FaultKind>::deserialize(deserializer)?;
        Ok(kinds.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_an_earlier_version_have_kills_and_pauses() {
        let text = r#"{"for_ms":60000,"processes":5,"names":3}"#;
        let settings: StormSettings = serde_json::from_str(text).unwrap();
        assert_eq!(settings.faults, FaultKinds::of_processes());
        let text = serde_json::to_string(&settings).unwrap();
        assert!(text.ends_with(r#""faults":["kill","pause"]}"#), "{text}");
        assert_eq!(
            serde_json::from_str::<StormSettings>(&text).unwrap(),
            settings
        );
    }

    #[test]
    fn kinds_are_found_by_their_names() {
        for kind in FaultKind::ALL {
            assert_eq!(FaultKind::named(kind.name()), Some(kind));
            let alone: FaultKinds = [kind].into_iter().collect();
            assert!(alone.has(kind) && alone.without(kind).is_empty());
            assert_eq!(alone.iter().count(), 1);
        }
        assert_eq!(FaultKind::named("kills"), None);
        let all: FaultKinds = FaultKind::ALL.into_iter().collect();
        assert_eq!(all.listed(","), "kill,pause,cut,delay,server,clock");
    }
}
