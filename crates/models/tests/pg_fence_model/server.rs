//! The Postgres server of the model: two sequences, the lock, and what survives a crash.

/// Units of the fence per tick of the clock.
pub(crate) const UNITS: u8 = 4;
/// Fewer fences are drawn in a tick than it has units. In reality there are 128,000 units per second.
pub(crate) const DRAWS_PER_TICK: u8 = UNITS - 1;
/// How many numbers the log is ahead of those drawn. In reality 32.
const AHEAD: u8 = 1;

/// The sequences as recorded in the log.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Logged {
    pub(crate) lift: u8,
    pub(crate) count: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Server {
    pub(crate) lift: u8,
    pub(crate) count: u8,
    /// The end of the log, whether or not it is on disk.
    pub(crate) log: Logged,
    pub(crate) disk: Logged,
    pub(crate) standby: Logged,
    /// The session that has the lock.
    pub(crate) holder: Option<u8>,
    /// The session that is lifting.
    pub(crate) lifter: Option<u8>,
}

impl Server {
    /// `nextval`.
    pub(crate) fn draw(&mut self) -> u8 {
        self.count += 1;
        if self.count > self.log.count {
            self.log.count = self.count + AHEAD;
        }
        self.count
    }

    /// `setval` of the lift.
    pub(crate) fn set_lift(&mut self, lift: u8) {
        self.lift = lift;
        self.log.lift = lift;
    }

    /// `setval` of the count: the flaw of a single sequence.
    pub(crate) fn set_count(&mut self, count: u8) {
        self.count = count;
        self.log.count = count;
    }

    pub(crate) fn flush(&mut self) {
        self.disk = self.log;
    }

    /// A standby receives what is on disk.
    pub(crate) fn replicate(&mut self) {
        self.standby = self.disk;
    }

    /// The server comes back with this state. All sessions and locks are gone.
    pub(crate) fn comes_back_with(&mut self, kept: Logged) {
        *self = Self {
            lift: kept.lift,
            count: kept.count,
            log: kept,
            disk: kept,
            standby: self.standby,
            holder: None,
            lifter: None,
        };
    }
}
