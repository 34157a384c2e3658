//! The storm: its settings, and the names of its processes and locks.

use crate::history::StormSettings;

/// The settings of `fencepost trial storm` by default.
pub const DEFAULT: StormSettings = StormSettings {
    for_ms: 60_000,
    processes: 5,
    names: 3,
};

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

/// Returns the flags for settings that differ from the default.
pub(super) fn flags(settings: StormSettings) -> String {
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
        assert_eq!(flags(DEFAULT), "");
        let other = StormSettings {
            for_ms: 1_500,
            processes: 8,
            names: 1,
        };
        assert_eq!(flags(other), " --processes 8 --names 1 --for 1500ms");
        let minutes = StormSettings {
            for_ms: 600_000,
            ..DEFAULT
        };
        assert_eq!(flags(minutes), " --for 600s");
    }
}
