//! The store, its clients, and what they believe.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::backend::records::StoreTime;
use crate::backend::{Release, Renewal};
use crate::claim::{Claim, LockName, OwnerId, Part};
use crate::random::SeededRandom;
use crate::shares::machine::{Asking, Capacity, Claimed, Impossible, Need, Place, Roster, Slots};

mod promises;

const TTL: Duration = Duration::from_millis(2_000);

/// What a client wants of the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aim {
    Try,
    Wait,
    Hold,
    Renew,
    Leave,
}

/// A client with one owner.
#[derive(Debug)]
struct Client {
    claim: Claim,
    aim: Aim,
    place: Option<Place>,
    /// Whether a replacement of it may still take effect.
    is_unsure: bool,
    /// What it has decided and not sent yet.
    decided: Option<Change>,
    /// What it believes to hold.
    held: Option<Held>,
    is_alive: bool,
}

#[derive(Debug, Clone)]
struct Held {
    need: Need,
    slots: Slots,
    epoch: u64,
    until: Duration,
}

/// A replacement.
#[derive(Debug, Clone)]
struct Change {
    seen: u64,
    /// The time of the store when the record was read.
    at: StoreTime,
    text: String,
    then: Then,
}

/// What a client knows when its replacement was answered.
#[derive(Debug, Clone)]
enum Then {
    Granted(Held),
    InLine(Place),
    Renewed(Duration),
    Left,
}

pub(super) struct World {
    text: Option<String>,
    version: u64,
    time: StoreTime,
    /// Time that does not start again.
    since_start: Duration,
    capacity: Capacity,
    clients: Vec<Client>,
    late: Vec<Change>,
    highest_epoch: u64,
    released: BTreeSet<OwnerId>,
    owners: SeededRandom,
}

impl World {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            text: None,
            version: 0,
            time: StoreTime {
                now: Duration::from_secs(1_000),
                era: "1".into(),
            },
            since_start: Duration::ZERO,
            capacity,
            clients: Vec::new(),
            late: Vec::new(),
            highest_epoch: 0,
            released: BTreeSet::new(),
            owners: SeededRandom::new(1),
        }
    }

    /// Returns the record as it is stored.
    pub(super) fn record(&self) -> Roster {
        let text = self.text.as_ref();
        text.map_or_else(Roster::default, |text| {
            Roster::from_text(text.as_bytes()).unwrap()
        })
    }

    pub(super) fn time_in(&self, more: Duration) -> StoreTime {
        let era = self.time.era.clone();
        StoreTime {
            now: self.time.now + more,
            era,
        }
    }

    fn settled(&self) -> Roster {
        let mut roster = self.record();
        roster.settle(&self.time);
        roster
    }

    /// The store lifts epochs to its time, so that they grow after a loss.
    fn floor(&self) -> u64 {
        1 + u64::try_from(self.since_start.as_millis()).unwrap() * 1_000
    }

    pub(super) fn arrive(&mut self, need: Need, waits: bool) {
        let part = match (need, self.capacity) {
            (Need::Permits(count), Capacity::Permits(of)) => Part::Permits { count, of },
            (Need::Write, _) => Part::Write,
            _ => Part::Read,
        };
        self.join(part, if waits { Aim::Wait } else { Aim::Try });
    }

    fn join(&mut self, part: Part, aim: Aim) {
        let name = LockName::new("a").unwrap();
        let claim = Claim::new(name, OwnerId::random(&self.owners), TTL).with_part(part);
        self.clients.push(Client {
            claim,
            aim,
            place: None,
            is_unsure: false,
            decided: None,
            held: None,
            is_alive: true,
        });
    }

    fn pick(&self, which: usize, can: impl Fn(&Client) -> bool) -> Option<usize> {
        let all = self.clients.iter().enumerate();
        let able: Vec<usize> = all
            .filter(|(_, one)| one.is_alive && can(one))
            .map(|(at, _)| at)
            .collect();
        able.get(which % able.len().max(1)).copied()
    }

    pub(super) fn step(&mut self, which: usize) {
        if let Some(at) = self.pick(which, |one| one.aim != Aim::Hold) {
            self.step_of(at);
        }
    }

    fn step_of(&mut self, at: usize) {
        match self.clients[at].decided.take() {
            Some(change) => {
                if self.replace(&change) {
                    self.learn(at, change.then);
                }
            }
            None => self.decide(at),
        }
    }

    /// Replaces the record if it is still the one that was seen.
    fn replace(&mut self, change: &Change) -> bool {
        if change.seen != self.version {
            return false;
        }
        self.version += 1;
        let mut before = self.record();
        before.settle(&change.at);
        self.text = Some(change.text.clone());
        Self::check_calls(&before, &self.record());
        if let Then::Granted(held) = &change.then {
            self.check_grant(held, &before);
        }
        true
    }

    fn decide(&mut self, at: usize) {
        let (seen, floor) = (self.version, self.floor());
        let (at_time, now) = (self.time.clone(), self.time.now);
        let mut roster = self.settled();
        let client = &mut self.clients[at];
        let owner = client.claim.owner;
        let then = match client.aim {
            Aim::Hold => return,
            Aim::Try | Aim::Wait => {
                let asking = match client.aim {
                    Aim::Wait => Asking::InLine(client.place),
                    _ => Asking::Once,
                };
                match roster.claim(&client.claim, asking, now, floor) {
                    Ok(Claimed::Granted { epoch, slots }) => Then::Granted(Held {
                        need: Need::of(client.claim.part).unwrap(),
                        slots,
                        epoch,
                        until: now + TTL,
                    }),
                    Ok(Claimed::Waits {
                        place,
                        joined: true,
                    }) => Then::InLine(place),
                    Ok(Claimed::Waits {
                        place,
                        joined: false,
                    }) => {
                        client.place = Some(place);
                        return;
                    }
                    // A replacement of it may still take effect, so it has to leave properly.
                    Ok(Claimed::Busy)
                    | Err(Impossible::TooMany { .. } | Impossible::NotWriting) => {
                        client.aim = Aim::Leave;
                        return;
                    }
                    Err(other) => panic!("{other:?}"),
                }
            }
            Aim::Renew => match roster.renew(owner, TTL, now) {
                Renewal::Extended => Then::Renewed(now + TTL),
                Renewal::Lost => {
                    (client.held, client.aim) = (None, Aim::Leave);
                    return;
                }
            },
            Aim::Leave => {
                let (release, has_changed) = roster.release(owner, now);
                assert!(has_changed || release == Release::NotHeld);
                if !has_changed && !client.is_unsure {
                    self.learn(at, Then::Left);
                    return;
                }
                Then::Left
            }
        };
        let text = roster.to_text();
        self.clients[at].decided = Some(Change {
            seen,
            at: at_time,
            text,
            then,
        });
    }

    fn learn(&mut self, at: usize, then: Then) {
        let now = self.time.now;
        let client = &mut self.clients[at];
        match then {
            Then::Granted(held) => {
                client.aim = Aim::Hold;
                client.held = Some(held);
                if let Part::ReadInPlaceOf(writer) = client.claim.part {
                    self.released.insert(writer);
                }
            }
            Then::InLine(place) => client.place = Some(place),
            Then::Renewed(until) => {
                client.aim = Aim::Hold;
                match &mut client.held {
                    // What was lost stays lost, even if an answer says otherwise.
                    Some(held) if held.until > now => held.until = held.until.max(until),
                    _ => (client.held, client.aim) = (None, Aim::Leave),
                }
            }
            Then::Left => {
                client.is_alive = false;
                self.released.insert(client.claim.owner);
            }
        }
    }

    pub(super) fn lose_answer(&mut self, which: usize) {
        if let Some(at) = self.pick(which, |one| one.decided.is_some()) {
            let client = &mut self.clients[at];
            client.is_unsure = true;
            self.late.extend(client.decided.take());
        }
    }

    pub(super) fn arrive_late(&mut self, which: usize) {
        if self.late.is_empty() {
            return;
        }
        let change = self.late.swap_remove(which % self.late.len());
        self.replace(&change);
    }

    pub(super) fn leave(&mut self, which: usize) {
        if let Some(at) = self.pick(which, |one| one.aim != Aim::Leave) {
            self.leave_now(at);
        }
    }

    /// What was decided before may be on its way.
    fn leave_now(&mut self, at: usize) {
        let client = &mut self.clients[at];
        client.is_unsure |= client.decided.is_some();
        self.late.extend(client.decided.take());
        (client.aim, client.held) = (Aim::Leave, None);
    }

    pub(super) fn renew(&mut self, which: usize) {
        if let Some(at) = self.pick(which, |one| one.aim == Aim::Hold) {
            self.clients[at].aim = Aim::Renew;
        }
    }

    /// A writer becomes a reader. It gives up its belief first, as a consumed guard does.
    pub(super) fn downgrade(&mut self, which: usize) {
        let writes = |one: &Client| {
            one.aim == Aim::Hold
                && one
                    .held
                    .as_ref()
                    .is_some_and(|held| held.need == Need::Write)
        };
        if let Some(at) = self.pick(which, writes) {
            let writer = self.clients[at].claim.owner;
            self.clients[at].held = None;
            self.clients[at].is_alive = false;
            self.join(Part::ReadInPlaceOf(writer), Aim::Try);
        }
    }

    pub(super) fn crash(&mut self, which: usize) {
        if let Some(at) = self.pick(which, |_| true) {
            let client = &mut self.clients[at];
            (client.is_alive, client.held) = (false, None);
            self.late.extend(client.decided.take());
        }
    }

    pub(super) fn resize(&mut self, permits: u32) {
        if self.capacity == Capacity::ReadWrite {
            return;
        }
        let mut roster = self.settled();
        if roster.resize(permits, self.time.now).is_ok() {
            self.version += 1;
            self.text = Some(roster.to_text());
        }
    }

    /// Whoever holds something does not know it yet. Only the fences protect the resource now, so belief is not compared any more.
    pub(super) fn lose_record(&mut self) {
        self.pass(Duration::from_millis(1));
        (self.text, self.version) = (None, self.version + 1);
        self.clients
            .iter_mut()
            .for_each(|client| client.held = None);
    }

    pub(super) fn reboot(&mut self) {
        self.pass(Duration::from_millis(1));
        let era = format!("{}+", self.time.era);
        self.time = StoreTime {
            now: Duration::from_secs(1),
            era: era.as_str().into(),
        };
        for client in &mut self.clients {
            (client.is_alive, client.held) = (false, None);
            client.decided = None;
        }
    }

    pub(super) fn pass(&mut self, time: Duration) {
        let before = self.settled();
        self.time.now += time;
        self.since_start += time;
        Self::check_calls(&before, &self.settled());
        let now = self.time.now;
        for client in &mut self.clients {
            client.held = client.held.take().filter(|held| held.until > now);
        }
    }

    /// Everybody who is alive takes its steps from now on, and gives back what it gets.
    pub(super) fn let_everybody_finish(&mut self) {
        for _ in 0..1_000 {
            let busy: Vec<usize> = (0..self.clients.len())
                .filter(|at| self.clients[*at].is_alive)
                .collect();
            if busy.is_empty() {
                return self.check_that_nothing_is_left();
            }
            for at in busy {
                // Read, send, and once more for what the replacement changed.
                for _ in 0..3 {
                    if self.clients[at].is_alive && self.clients[at].aim != Aim::Hold {
                        self.step_of(at);
                        self.check();
                    }
                }
                if self.clients[at].is_alive && self.clients[at].aim == Aim::Hold {
                    self.leave_now(at);
                }
            }
            self.pass(Duration::from_millis(50));
        }
        panic!("somebody waits for ever: {:?}", self.clients);
    }

    fn check_that_nothing_is_left(&mut self) {
        while let Some(change) = self.late.pop() {
            self.replace(&change);
            self.check();
        }
        // What crashed clients have left ends by itself.
        self.pass(TTL + TTL);
        for _ in 0..200 {
            self.pass(Duration::from_millis(100));
        }
        let left = self.settled();
        assert!(left.shares.is_empty() && left.line.is_empty(), "{left:?}");
    }
}
