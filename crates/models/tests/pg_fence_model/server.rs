//! The server: two sequences as Postgres keeps them, the one lock, and what would survive.

/// Units of the fence for each tick of the clock.
pub(crate) const UNITS: u8 = 4;
/// Fewer fences are drawn in a tick than it has units: in truth 128,000 a second.
pub(crate) const DRAWS_PER_TICK: u8 = UNITS - 1;
/// How many numbers ahead of those drawn the log says are gone: in truth 32.
const AHEAD: u8 = 1;

/// The sequences as the log has them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Logged {
    pub(crate) lift: u8,
    pub(crate) count: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Server {
    pub(crate) lift: u8,
    pub(crate) count: u8,
    /// What the end of the log says, on the disk or not.
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

    /// A standby receives what is on the disk.
    pub(crate) fn replicate(&mut self) {
        self.standby = self.disk;
    }

    /// The server comes back with this; everybody's sessions and locks are gone.
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
