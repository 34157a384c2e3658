//! The storm: its settings, the plan of its faults, and the names of its processes and locks.

use crate::history::{FaultKinds, StormSettings};
use crate::store::TrialStore;

mod kinds;
mod plan;
mod shrink;

pub use kinds::{Applies, applies, by_default, lacking};
pub use plan::{Plan, Planned, PlannedFault};
pub use shrink::{RUNS, Runner, Shrunk, Tried, shrink};

/// The settings of `fencepost trial storm` by default, with the faults that every store allows.
pub const DEFAULT: StormSettings = StormSettings {
    for_ms: 60_000,
    processes: 5,
    names: 3,
    faults: FaultKinds::of_processes(),
};

/// Returns the default settings on this store.
pub fn default_at(store: &TrialStore) -> StormSettings {
    StormSettings {
        faults: by_default(store),
        ..DEFAULT
    }
}

/// How many processes a storm has at least. With fewer, one pause leaves nobody who could meet another.
pub const PROCESSES_MIN: usize = 3;

/// The names of the processes. In its second life, `A` is called `A.2`.
pub const PROCESSES: [&str; 8] = ["A", "B", "C", "D", "E", "F", "G", "H"];

/// The names of the locks. They share prefixes and differ in one letter, in its case, or in a character that a lock may use to join
/// names.
pub const LOCKS: [&str; 6] = [
    "product_A",
    "product_A1",
    "product_A10",
    "product_a",
    "product_A:1",
    "product_B",
];

/// Returns the name of a process in one of its lives, which count from 1.
pub fn name_of(process: &str, life: u64) -> String {
    match life {
        1 => process.to_owned(),
        life => format!("{process}.{life}"),
    }
}

/// Returns the process and the number of its life that a name belongs to.
pub fn process_of(name: &str) -> (&str, u64) {
    let later = name.split_once('.');
    let later = later.and_then(|(process, life)| Some((process, life.parse().ok()?)));
    later.unwrap_or((name, 1))
}

/// Returns the flags for settings that differ from the default on this store.
pub(super) fn flags(settings: StormSettings, store: &TrialStore) -> String {
    let mut text = String::new();
    if settings.processes != DEFAULT.processes {
        text.push_str(&format!(" --processes {}", settings.processes));
    }
    if settings.names != DEFAULT.names {
        text.push_str(&format!(" --names {}", settings.names));
    }
    if settings.for_ms != DEFAULT.for_ms {
        text.push_str(&format!(" --for {}", duration(settings.for_ms)));
    }
    if settings.faults != by_default(store) {
        text.push_str(&format!(" --faults {}", settings.faults.listed(",")));
    }
    text
}

fn duration(ms: u64) -> String {
    if ms.is_multiple_of(1_000) {
        format!("{}s", ms / 1_000)
    } else {
        format!("{ms}ms")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_life_has_a_name_of_its_own() {
        for (process, life, name) in [("A", 1, "A"), ("A", 2, "A.2"), ("B", 13, "B.13")] {
            assert_eq!(name_of(process, life), name);
            assert_eq!(process_of(name), (process, life));
        }
    }

    #[test]
    fn a_command_names_the_settings_that_differ() {
        let redis = &TrialStore::named("redis").unwrap();
        let default = default_at(redis);
        assert_eq!(flags(default, redis), "");
        let other = StormSettings {
            for_ms: 1_500,
            processes: 8,
            names: 1,
            ..default
        };
        assert_eq!(flags(other, redis), " --processes 8 --names 1 --for 1500ms");
        let minutes = StormSettings {
            for_ms: 600_000,
            ..default
        };
        assert_eq!(flags(minutes, redis), " --for 600s");
        assert_eq!(flags(DEFAULT, redis), " --faults kill,pause");
    }
}
