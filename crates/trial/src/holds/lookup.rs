//! Searches in long lists that do not look at every entry, so that a long history is judged in a time that grows with its length.

use std::collections::HashMap;

/// A list that finds its last entry below a bound, whether or not the list is sorted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LastBelow<T> {
    /// For each place, the smallest entry from there to the end. These never decrease, so the last entry below a bound is found by
    /// bisection. At its place, the smallest is that entry itself.
    minima: Vec<T>,
}

impl<T: Ord + Copy> LastBelow<T> {
    pub(super) fn of(mut entries: Vec<T>) -> Self {
        for at in (1..entries.len()).rev() {
            entries[at - 1] = entries[at - 1].min(entries[at]);
        }
        Self { minima: entries }
    }

    /// Returns the last entry for which this is true, and its place. If it is true of an entry, it must be true of all smaller ones.
    pub(super) fn last(&self, is_below: impl Fn(&T) -> bool) -> Option<(usize, T)> {
        let place = self.minima.partition_point(is_below).checked_sub(1)?;
        Some((place, self.minima[place]))
    }
}

/// Finds, among the entries that began before a given time, the largest value of another owner.
#[derive(Debug)]
pub(super) struct LargestBefore<O, V> {
    began_ns: Vec<u64>,
    /// For each entry, the largest value up to there, and the largest of another owner than that one's.
    largest: Vec<[Option<(V, O)>; 2]>,
}

impl<O: PartialEq + Copy, V: Ord + Copy> LargestBefore<O, V> {
    /// Takes entries of a time, an owner and a value.
    pub(super) fn of(mut entries: Vec<(u64, O, V)>) -> Self {
        entries.sort_by_key(|(began_ns, ..)| *began_ns);
        let mut so_far = [None, None];
        let mut added = |(_, owner, value): &(u64, O, V)| {
            so_far = with(so_far, *value, *owner);
            so_far
        };
        Self {
            largest: entries.iter().map(&mut added).collect(),
            began_ns: entries.iter().map(|(began_ns, ..)| *began_ns).collect(),
        }
    }

    /// Returns the largest value of anybody but `owner` among the entries that began before this time.
    pub(super) fn of_others(&self, before_ns: u64, owner: O) -> Option<V> {
        let place = self.began_ns.partition_point(|began| *began < before_ns);
        let [first, second] = self.largest[place.checked_sub(1)?];
        let others = first.filter(|(_, of)| *of != owner).or(second);
        others.map(|(value, _)| value)
    }
}

/// Adds a value to the two largest ones of different owners.
fn with<O: PartialEq + Copy, V: Ord + Copy>(
    [first, second]: [Option<(V, O)>; 2],
    value: V,
    owner: O,
) -> [Option<(V, O)>; 2] {
    let new = Some((value, owner));
    match first {
        None => [new, None],
        Some((largest, of)) if of == owner => [new.filter(|_| value > largest).or(first), second],
        Some((largest, _)) if value > largest => [new, first],
        Some(_) if second.is_none_or(|(other, _)| value > other) => [first, new],
        Some(_) => [first, second],
    }
}

/// A map whose keys are a process and its name for a hold.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ByHold<V>(HashMap<String, HashMap<u64, V>>);

impl<V> Default for ByHold<V> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<V> ByHold<V> {
    pub(super) fn get(&self, who: &str, hold: u64) -> Option<&V> {
        self.0.get(who)?.get(&hold)
    }

    /// Returns the value of this hold, after adding an empty one if there was none.
    pub(super) fn or_default(&mut self, who: &str, hold: u64) -> &mut V
    where
        V: Default,
    {
        let holds = self.0.entry(who.to_owned()).or_default();
        holds.entry(hold).or_default()
    }

    /// Converts every value.
    pub(super) fn map<W>(self, convert: impl Fn(V) -> W) -> ByHold<W> {
        let process = |(who, holds): (String, HashMap<u64, V>)| {
            let holds = holds.into_iter();
            let holds = holds.map(|(hold, value)| (hold, convert(value)));
            (who, holds.collect())
        };
        ByHold(self.0.into_iter().map(process).collect())
    }
}

#[cfg(test)]
mod tests {
    use fencepost::random::{Random as _, SeededRandom};

    use super::*;

    fn below(random: &SeededRandom, bound: u64) -> u64 {
        random.next_u64() % bound
    }

    #[test]
    fn the_last_entry_below_a_bound_is_that_of_a_search_from_the_end() {
        let random = SeededRandom::new(7041);
        for _ in 0..2_000 {
            let length = below(&random, 9);
            let entries: Vec<u64> = (0..length).map(|_| below(&random, 6)).collect();
            let list = LastBelow::of(entries.clone());
            for bound in 0..7 {
                let place = entries.iter().rposition(|entry| *entry < bound);
                let expected = place.map(|place| (place, entries[place]));
                assert_eq!(list.last(|entry| *entry < bound), expected, "{entries:?}");
            }
        }
    }

    #[test]
    fn the_largest_of_others_is_that_of_a_search_of_all() {
        let random = SeededRandom::new(7041);
        for _ in 0..2_000 {
            let length = below(&random, 9);
            let entry = |_| (below(&random, 5), below(&random, 3), below(&random, 6));
            let entries: Vec<(u64, u64, u64)> = (0..length).map(entry).collect();
            let list = LargestBefore::of(entries.clone());
            for (before_ns, owner) in (0..6).flat_map(|ns| (0..4).map(move |owner| (ns, owner))) {
                let others = entries.iter();
                let others = others.filter(|(began, of, _)| *began < before_ns && *of != owner);
                let expected = others.map(|(.., value)| *value).max();
                assert_eq!(list.of_others(before_ns, owner), expected, "{entries:?}");
            }
        }
    }
}
