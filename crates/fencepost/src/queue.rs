//! A queue whose items can also leave from the middle.
//!
//! An item that leaves is dropped at once. Its place stays as a gap, which is removed when it reaches an end of the queue or when half of
//! the queue is gaps. All operations take amortised constant time, except that finding the item that leaves takes `log n`.

use std::collections::VecDeque;

/// A place in a queue; a later place has a larger ticket.
pub(crate) type Ticket = u64;

/// Items in the order of their tickets. Neither end is ever a gap.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    places: VecDeque<(Ticket, Option<T>)>,
    gaps: usize,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            places: VecDeque::new(),
            gaps: 0,
        }
    }
}

impl<T> Queue<T> {
    /// Appends `item`. Its ticket must be larger than all tickets before it.
    pub(crate) fn push(&mut self, ticket: Ticket, item: T) {
        debug_assert!(self.places.back().is_none_or(|(last, _)| *last < ticket));
        self.places.push_back((ticket, Some(item)));
    }

    /// Removes and returns the item with this ticket, if it is still in the queue.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<T> {
        let at = self.places.binary_search_by_key(&ticket, |place| place.0);
        let item = self.places.get_mut(at.ok()?)?.1.take()?;
        self.gaps += 1;
        self.close_gaps();
        Some(item)
    }

    pub(crate) fn first(&self) -> Option<&T> {
        self.places.front()?.1.as_ref()
    }

    pub(crate) fn last(&self) -> Option<&T> {
        self.places.back()?.1.as_ref()
    }

    pub(crate) fn pop_first(&mut self) -> Option<T> {
        let (_, item) = self.places.pop_front()?;
        self.close_gaps();
        item
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns how many items are in the queue, not counting gaps.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.gaps
    }

    pub(crate) fn into_items(self) -> impl Iterator<Item = T> {
        self.places.into_iter().filter_map(|(_, item)| item)
    }

    fn close_gaps(&mut self) {
        if self.gaps == 0 {
            return;
        }
        while let Some((_, None)) = self.places.front() {
            self.places.pop_front();
            self.gaps -= 1;
        }
        while let Some((_, None)) = self.places.back() {
            self.places.pop_back();
            self.gaps -= 1;
        }
        if self.gaps > self.places.len() / 2 {
            self.places.retain(|(_, item)| item.is_some());
            self.gaps = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Debug, Clone)]
    enum Step {
        Push,
        Remove(prop::sample::Index),
        PopFirst,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => Just(Step::Push),
            3 => any::<prop::sample::Index>().prop_map(Step::Remove),
            1 => Just(Step::PopFirst),
        ]
    }

    proptest! {
        #[test]
        fn it_behaves_like_a_sorted_map_and_keeps_few_gaps(steps in prop::collection::vec(step(), 0..200)) {
            let mut queue = Queue::default();
            let mut model = BTreeMap::new();
            let mut newest = 2;
            for step in steps {
                match step {
                    Step::Push => {
                        newest += 2;
                        queue.push(newest, newest);
                        model.insert(newest, newest);
                    }
                    Step::Remove(any) => {
                        let ticket = any.index(newest as usize + 1) as Ticket;
                        prop_assert_eq!(queue.remove(ticket), model.remove(&ticket));
                    }
                    Step::PopFirst => {
                        prop_assert_eq!(queue.pop_first(), model.pop_first().map(|(_, item)| item));
                    }
                }
                prop_assert_eq!(queue.first(), model.values().next());
                prop_assert_eq!(queue.last(), model.values().last());
                prop_assert_eq!(queue.is_empty(), model.is_empty());
                prop_assert_eq!(queue.len(), model.len());
                prop_assert!(queue.places.len() <= 2 * model.len());
            }
            prop_assert!(queue.into_items().eq(model.into_values()));
        }
    }
}
