//! [`Slots`]: the numbers of the permits that one holder has.

use std::fmt;
use std::str::FromStr;

/// A set of numbers, kept and written as ranges: `0-2,7`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Slots(Vec<Range>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Range {
    first: u32,
    last: u32,
}

impl Slots {
    /// Returns the lowest `count` numbers below `end` that are in none of the sets, or fewer if there are not as many.
    pub fn lowest_free<'a>(
        count: u32,
        end: u32,
        taken: impl IntoIterator<Item = &'a Slots>,
    ) -> Self {
        let mut taken: Vec<Range> = taken
            .into_iter()
            .flat_map(|slots| &slots.0)
            .copied()
            .collect();
        taken.sort_unstable();
        let mut free = Self::default();
        let mut missing = count;
        // The lowest number that may still be free.
        let mut next = 0;
        for range in taken {
            free.add(next, range.first.min(end), &mut missing);
            next = next.max(range.last.saturating_add(1));
        }
        free.add(next, end, &mut missing);
        free
    }

    /// Adds the first numbers from `first` to `end`, which is not among them, as long as some are missing.
    fn add(&mut self, first: u32, end: u32, missing: &mut u32) {
        let count = end.saturating_sub(first).min(*missing);
        if count > 0 {
            let last = first + (count - 1);
            self.0.push(Range { first, last });
            *missing -= count;
        }
    }

    /// Returns how many numbers there are.
    pub fn count(&self) -> u32 {
        let counts = self.0.iter().map(|range| range.last - range.first + 1);
        counts.fold(0, u32::saturating_add)
    }

    /// Returns the numbers, the lowest first.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().flat_map(|range| range.first..=range.last)
    }
}

impl fmt::Display for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, range) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            if range.first == range.last {
                write!(f, "{comma}{}", range.first)?;
            } else {
                write!(f, "{comma}{}-{}", range.first, range.last)?;
            }
        }
        Ok(())
    }
}

impl FromStr for Slots {
    type Err = ();

    /// Parses what [`Display`](fmt::Display) writes: ranges that grow and do not touch.
    fn from_str(text: &str) -> Result<Self, ()> {
        // The parser of numbers would accept a plus sign.
        if text.contains('+') {
            return Err(());
        }
        let mut slots = Self::default();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range = Range {
                first: first.parse().map_err(drop)?,
                last: last.parse().map_err(drop)?,
            };
            let follows = slots
                .0
                .last()
                .is_none_or(|before| before.last < range.first);
            // A range up to the largest number could not be counted.
            if range.first > range.last || range.last == u32::MAX || !follows {
                return Err(());
            }
            slots.0.push(range);
        }
        Ok(slots)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set(numbers: &[u32]) -> Slots {
        let mut slots = Slots::default();
        for number in BTreeSet::from_iter(numbers) {
            match slots.0.last_mut() {
                Some(range) if range.last + 1 == *number => range.last = *number,
                _ => slots.0.push(Range {
                    first: *number,
                    last: *number,
                }),
            }
        }
        slots
    }

    #[test]
    fn the_lowest_free_numbers_fill_the_gaps() {
        let taken = [set(&[0, 1, 4]), set(&[2, 9])];
        let lowest = |count, end| Slots::lowest_free(count, end, &taken).to_string();
        assert_eq!(lowest(1, 10), "3");
        assert_eq!(lowest(4, 10), "3,5-7");
        assert_eq!(lowest(9, 10), "3,5-8", "only five are left");
        assert_eq!(lowest(2, 4), "3", "9 is beyond the end");
        assert_eq!(Slots::lowest_free(u32::MAX, u32::MAX, []).count(), u32::MAX);
    }

    #[test]
    fn what_is_not_a_set_is_refused() {
        for text in [
            "",
            "a",
            "1-",
            "-1",
            "2-1",
            "1,1",
            "1-3,2",
            "3,1",
            "0-4294967295",
            "1, 2",
            "+1",
        ] {
            assert_eq!(text.parse::<Slots>(), Err(()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn slots_are_what_a_search_one_by_one_finds(
            taken in prop::collection::vec(prop::collection::vec(0u32..40, 0..8), 0..5),
            count in 0u32..40,
            end in 0u32..50,
        ) {
            let held: BTreeSet<u32> = taken.iter().flatten().copied().collect();
            let sets: Vec<Slots> = taken.iter().map(|numbers| set(numbers)).collect();
            let found = Slots::lowest_free(count, end, &sets);
            let expected = (0..end).filter(|slot| !held.contains(slot)).take(count as usize);
            let expected: Vec<u32> = expected.collect();
            prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected.clone());
            prop_assert_eq!(found.count() as usize, expected.len());
            if !expected.is_empty() {
                prop_assert_eq!(found.to_string().parse::<Slots>(), Ok(found));
            }
        }
    }
}
