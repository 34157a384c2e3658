//! What there is: the record, the clients, and what is on its way.

use std::collections::BTreeSet;
use std::time::Duration;

use fencepost::backend::Part;
use fencepost::backend::records::StoreTime;
use fencepost::random::SeededRandom;
use fencepost::shares::machine::{Need, Place, Roster, Slots};
use fencepost::{Claim, LockName, OwnerId};

use crate::setup::Setup;

pub(crate) const TTL: Duration = Duration::from_secs(2);

#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) record: Option<Roster>,
    pub(crate) now: Duration,
    pub(crate) clients: Vec<Client>,
    /// Replacements whose answers were lost.
    pub(crate) late: Vec<Change>,
    /// The highest epoch that was ever granted.
    pub(crate) highest: u64,
    /// The lowest epoch that the store offers.
    pub(crate) floor: u64,
    /// The owners that were released.
    pub(crate) released: BTreeSet<OwnerId>,
    pub(crate) losses: u8,
    pub(crate) crashes: u8,
    pub(crate) renewals: u8,
    pub(crate) ticks: u8,
    pub(crate) disasters: u8,
}

/// What a client wants of the record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Aim {
    Try,
    Wait,
    Hold,
    Renew,
    Leave,
    Gone,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) owner: OwnerId,
    pub(crate) part: Part,
    pub(crate) aim: Aim,
    pub(crate) may_downgrade: bool,
    /// The owner that wrote, while the client is becoming a reader.
    pub(crate) writer: Option<OwnerId>,
    /// Whether somebody else was let in to write meanwhile.
    pub(crate) somebody_wrote: bool,
    pub(crate) place: Option<Place>,
    /// Whether a replacement of it may still take effect.
    pub(crate) is_unsure: bool,
    pub(crate) decided: Option<Change>,
    /// What it believes to hold, and until when.
    pub(crate) held: Option<Held>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Held {
    pub(crate) need: Need,
    pub(crate) slots: Slots,
    pub(crate) until: Duration,
}

/// A replacement.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Change {
    pub(crate) of: usize,
    /// Whether the record is still the one that was read.
    pub(crate) is_fresh: bool,
    /// The time of the store when it was read.
    pub(crate) at: Duration,
    pub(crate) roster: Roster,
    pub(crate) then: Then,
}

/// What its sender knows when it was answered.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Then {
    Granted { epoch: u64, held: Held },
    InLine(Place),
    Renewed(Duration),
    Left,
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        let owners = SeededRandom::new(1);
        let clients = setup.clients.iter().map(|client| Client {
            owner: OwnerId::random(&owners),
            part: client.part,
            aim: if client.waits { Aim::Wait } else { Aim::Try },
            may_downgrade: client.downgrades,
            writer: None,
            somebody_wrote: false,
            place: None,
            is_unsure: false,
            decided: None,
            held: None,
        });
        Self {
            record: None,
            now: Duration::from_secs(1),
            clients: clients.collect(),
            late: Vec::new(),
            highest: 0,
            floor: 1,
            released: BTreeSet::new(),
            losses: setup.losses,
            crashes: setup.crashes,
            renewals: setup.renewals,
            ticks: setup.ticks,
            disasters: setup.disasters,
        }
    }

    /// Returns the record as whoever reads it at this time sees it.
    pub(crate) fn settled_at(&self, now: Duration) -> Roster {
        let mut roster = self.record.clone().unwrap_or_default();
        let era = "".into();
        roster.settle(&StoreTime { now, era });
        roster
    }

    pub(crate) fn settled(&self) -> Roster {
        self.settled_at(self.now)
    }
}

impl Client {
    pub(crate) fn claim(&self) -> Claim {
        let name = LockName::new("a").expect("a valid name");
        Claim::new(name, self.owner, TTL).with_part(self.part)
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.aim != Aim::Gone
    }

    pub(crate) fn is_becoming_a_reader(&self) -> bool {
        self.writer.is_some() && !matches!(self.aim, Aim::Leave | Aim::Gone)
    }

    /// Returns whether the record has something of it, even if that has ended.
    pub(crate) fn is_stored(&self, record: Option<&Roster>) -> bool {
        record.is_some_and(|record| {
            let shares = record.shares.iter().map(|share| share.owner);
            let mut owners = shares.chain(record.line.iter().map(|waiting| waiting.owner));
            owners.any(|owner| owner == self.owner)
        })
    }

    pub(crate) fn need(&self) -> Need {
        Need::of(self.part).expect("a part of a semaphore or read-write lock")
    }

    /// Gives up what it believes to hold, and wants to leave. What it has decided may be on its way.
    pub(crate) fn leave(&mut self) -> Option<Change> {
        let sent = self.decided.take();
        self.is_unsure |= sent.is_some();
        (self.aim, self.held) = (Aim::Leave, None);
        sent
    }
}
