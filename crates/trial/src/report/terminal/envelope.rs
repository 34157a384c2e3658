//! The terminal report of `gauntlet --envelope`: one line per scenario with the edge that was found.

use crate::gauntlet::Gauntlet;
use crate::gauntlet::envelope::Search;
use crate::text::ink::Ink;
use crate::text::numbers::count;

/// Returns the title with the settings.
pub fn title(gauntlet: &Gauntlet) -> String {
    format!(
        "envelope   how long a fault may last before the lock breaks\n  lock {}   TTL {} ms   store {}   seed {}\n  its kind: {}\n",
        gauntlet.strategy.name,
        count(gauntlet.lease_ms() as i64),
        gauntlet.store.title(),
        gauntlet.seed,
        gauntlet.kind.in_words(),
    )
}

/// Returns the result of a search, under the name of its scenario.
pub fn result(search: &Search, ink: Ink) -> String {
    let name = search.scenario.name();
    format!("  {name}\n{}", ink.sentence("", &search.in_words()))
}

/// Returns what the results mean.
pub fn limits(ink: Ink) -> String {
    ink.sentence(
        "limits",
        "each length was tried once: this is what was seen, and another run may find another edge",
    )
}
