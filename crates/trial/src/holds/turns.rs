//! The figures of `trial turns`.

/// How many processes take turns.
pub(crate) const PROCESSES: usize = 4;
/// How many lives each process has.
pub(crate) const LIVES: usize = 3;
/// How many turns each life has.
pub(crate) const TURNS: usize = 25;

/// How many turns there must have been for an acquittal. Numbers of one byte are used up in fewer than all, and so are two digits.
pub(crate) const TURNS_MIN: usize = 270;
