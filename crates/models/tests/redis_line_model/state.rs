//! The state of the Redis line model: the server's keys, the clients, the messages on the wire, and what an observer has
//! recorded.
//!
//! All times are relative (ages and remainders, in ticks) and capped, and fences and tickets are kept as ranks. That makes the
//! number of states finite although time and counters are unbounded.

use crate::plain_commands::Attempt;

/// Fences below this were never lifted: no clock is that early.
pub(crate) const FLOOR: u8 = 16;
/// How far the fences that are known at the start are ahead of a slow clock: further than two clients count.
pub(crate) const AHEAD: u8 = 5;

/// Ticks of model time; one tick is a heartbeat.
pub(crate) type Ticks = u8;

/// The durations of the protocol. A waiter's lease is shorter than a TTL, and liveness is no longer than that.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) ttl: Ticks,
    pub(crate) waiter_lease: Ticks,
    pub(crate) liveness: Ticks,
}

/// Identifies one wait of one client. Each wait draws a new token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) struct Token {
    pub(crate) client: u8,
    pub(crate) wait: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Owner {
    Ours(Token),
    /// A client of another library: `SET NX PX`, compare and delete, no line.
    Plain,
}

/// The lock itself: the string under the lock's name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key {
    pub(crate) owner: Owner,
    pub(crate) remaining: Ticks,
    /// Given to a waiter that has not been heard since (recorded by the observer).
    pub(crate) has_waiter_lease: bool,
    /// The epoch in the value; 0 for a plain client.
    pub(crate) fence: u8,
    /// Whether somebody may wait, so that a release must check the line.
    pub(crate) is_marked: bool,
    /// Whether the epoch was guessed.
    pub(crate) is_guessed: bool,
}

/// A channel as seen from its client: which of its connections subscribed to it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) enum Channel {
    Current,
    /// Of the previous connection; alive while the server has not closed it.
    Previous,
    Dead,
    /// Poll mode: the client may not subscribe.
    Silent,
}

/// A member of the sorted set; constant for one wait.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Entry {
    pub(crate) token: Token,
    pub(crate) ticket: u8,
    /// The time since the ticket was drawn.
    pub(crate) age: Ticks,
    /// The time since the client sent the request whose stamp is in the member.
    pub(crate) stamp_age: Ticks,
    pub(crate) channel: Channel,
}

/// A field of the `wait` hash, written by heartbeats and re-entries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) struct Record {
    pub(crate) token: Token,
    pub(crate) alive_for: Ticks,
    pub(crate) stamp_age: Ticks,
    pub(crate) channel: Channel,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Server {
    pub(crate) key: Option<Key>,
    /// Ordered by ticket.
    pub(crate) line: Vec<Entry>,
    pub(crate) records: Vec<Record>,
    /// 0 if the counter does not exist. Below `FLOOR` if it was counted up from nothing, and never lifted.
    pub(crate) fence: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Request {
    Acquire,
    Try,
    /// Three commands; this represents those that are left.
    PlainCommands(Attempt),
    BeatWaiting,
    BeatHolding,
    /// Ends a lease, or leaves the line.
    Release,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Command {
    pub(crate) request: Request,
    pub(crate) wait: u8,
    /// The time since it was sent.
    pub(crate) stamp_age: Ticks,
    /// 0 if there is none yet.
    pub(crate) ticket: u8,
    pub(crate) lift: bool,
    /// The highest epoch that the client knows; 0 if the clock is ahead of all of them.
    pub(crate) floor: u8,
    /// Whether the client has been told that it holds the lock.
    pub(crate) is_holders: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) enum Answer {
    Granted {
        fence: u8,
        lease: Ticks,
    },
    Queued {
        ticket: u8,
    },
    /// The answer to plain commands that failed. The client asks again by the script, which lifts the fence if the guess was
    /// wrong.
    Declined {
        lift: bool,
    },
    Gone,
    Busy,
    Kept,
    Lost,
    Released {
        was_held: bool,
    },
}

/// A reply, or (with `Granted`) a push.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) struct Message {
    pub(crate) answer: Answer,
    pub(crate) wait: u8,
    /// The time since the client sent the request that is answered, or whose stamp is echoed.
    pub(crate) stamp_age: Ticks,
    /// It grants a lease that the server has forgotten since (recorded by the observer).
    pub(crate) is_forgotten: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Phase {
    Idle,
    Want,
    Hold,
    Releasing,
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Health {
    Well,
    /// It takes no step, but its socket stays open.
    Frozen,
    Killed,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Link {
    Up,
    /// The server's end is gone; the client reads what had arrived, then notices.
    Cut,
    Down,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    pub(crate) health: Health,
    pub(crate) link: Link,
    /// It asks once and does not join the line.
    pub(crate) only_tries: bool,
    /// The number of its current wait, which with its index forms its token.
    pub(crate) wait: u8,
    /// The previous wait, while its RELEASE has not been answered; 0 if there is none. A guard is dropped and the next wait
    /// begins at once.
    pub(crate) unsettled: u8,
    /// The time until its own deadline; 0 if there is none, or if it is over.
    pub(crate) belief: Ticks,
    /// As reported by Queued; 0 if there is none.
    pub(crate) ticket: u8,
    /// Whether the next command is the first of this connection.
    pub(crate) lift_due: bool,
    /// The last epoch it was granted on this connection; 0 if there is none.
    pub(crate) last_epoch: u8,
    /// The highest epoch it has seen on any connection; 0 if the clock is ahead of all of them.
    pub(crate) highest_epoch: u8,
    pub(crate) commands: Vec<Command>,
    pub(crate) replies: Vec<Message>,
    /// In no particular order.
    pub(crate) pushes: Vec<Message>,
    /// Unread commands of the previous connection, while the server has not closed it. It may still execute them.
    pub(crate) previous: Option<Vec<Command>>,
    pub(crate) noted: Noted,
}

/// What the observer knows about a client's current wait. No step of the protocol reads it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Noted {
    /// The ticket of its first entry into the line; 0 if there is none.
    pub(crate) arrival: u8,
    pub(crate) has_held: bool,
    /// A RELEASE of its token found the key owned by it.
    pub(crate) let_go: bool,
    /// The server forgot its lease; only the fence protects from now on.
    pub(crate) lease_forgotten: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct State {
    pub(crate) server: Server,
    /// The data that a replica last received, if one may be promoted.
    pub(crate) replica: Option<Server>,
    pub(crate) clients: Vec<Client>,
    /// The largest fence of any grant so far.
    pub(crate) issued: u8,
    /// The largest fence of any guard so far.
    pub(crate) guarded: u8,
    /// The largest value that a fence was ever counted to, granted or not. The clock is ahead of it.
    pub(crate) drawn: u8,
    pub(crate) faults_left: u8,
    pub(crate) plain_turns_left: u8,
    /// `None` for no limit.
    pub(crate) late_ticks_left: Option<u8>,
    /// A promoted replica may remember leases and entries that their clients have released since. Every failover may cause
    /// this, and it ends with the TTL.
    pub(crate) has_failed_over: bool,
    /// A waiter that has joined the line again may read a late push from before, believe, and then learn that it has lost. Its
    /// entry remains, and costs a waiter lease when its turn comes.
    pub(crate) has_flushed: bool,
    /// A promise that the step to this state broke.
    pub(crate) broken: Option<crate::invariants::Promise>,
}

impl Client {
    fn new(only_tries: bool) -> Self {
        Self {
            phase: Phase::Idle,
            health: Health::Well,
            link: Link::Up,
            only_tries,
            wait: 1,
            unsettled: 0,
            belief: 0,
            ticket: 0,
            lift_due: true,
            last_epoch: 0,
            highest_epoch: 0,
            commands: Vec::new(),
            replies: Vec::new(),
            pushes: Vec::new(),
            previous: None,
            noted: Noted::default(),
        }
    }

    pub(crate) fn is_well(&self) -> bool {
        self.health == Health::Well
    }

    /// Returns whether it takes no further step.
    pub(crate) fn is_done(&self) -> bool {
        self.phase == Phase::Done && self.unsettled == 0
    }

    /// Returns the number of commands of the current wait whose answers the client still expects.
    pub(crate) fn unanswered(&self) -> usize {
        let sent = self.commands.iter().filter(|it| it.wait == self.wait);
        let answered = self.replies.iter().filter(|it| it.wait == self.wait);
        sent.count() + answered.count()
    }
}

impl State {
    pub(crate) fn new(setup: &crate::setup::Setup) -> Self {
        let client = |index| Client::new(index < setup.triers);
        let mut state = Self {
            server: Server::default(),
            replica: None,
            clients: (0..setup.clients).map(client).collect(),
            issued: 0,
            guarded: 0,
            drawn: 0,
            faults_left: setup.faults,
            plain_turns_left: setup.plain_turns,
            late_ticks_left: setup.late_ticks,
            has_failed_over: false,
            has_flushed: false,
            broken: None,
        };
        if setup.is_known {
            state.get_known(setup);
        }
        state
    }

    /// Sets the state as if all connections had used the name before.
    fn get_known(&mut self, setup: &crate::setup::Setup) {
        let last = FLOOR + if setup.slow_clock { AHEAD } else { 0 };
        for fence in [&mut self.issued, &mut self.guarded, &mut self.drawn] {
            *fence = last;
        }
        self.server.fence = last;
        for (index, client) in self.clients.iter_mut().enumerate() {
            client.lift_due = false;
            if index == 0 || !setup.only_one_knows {
                client.last_epoch = last;
                client.highest_epoch = if setup.slow_clock { last } else { 0 };
            }
        }
    }

    pub(crate) fn client(&mut self, token: Token) -> &mut Client {
        &mut self.clients[usize::from(token.client)]
    }

    /// Returns the client's current token.
    pub(crate) fn token(&self, client: usize) -> Token {
        Token {
            client: client as u8,
            wait: self.clients[client].wait,
        }
    }

    /// Keeps the first broken promise: the shortest story ends there.
    pub(crate) fn convict(&mut self, promise: crate::invariants::Promise) {
        self.broken.get_or_insert(promise);
    }

    /// Returns whether a message is on a working connection between a server and a client that are both awake.
    pub(crate) fn somebody_is_late(&self) -> bool {
        self.clients.iter().any(|client| {
            let has_mail = !client.replies.is_empty() || !client.pushes.is_empty();
            client.is_well() && (has_mail || !client.commands.is_empty())
        })
    }

    /// Advances time by one tick: leases expire, and everything pending gets older.
    pub(crate) fn tick(&mut self, times: &Times) {
        self.server.tick(times);
        if let Some(replica) = &mut self.replica {
            replica.tick(times);
        }
        for client in &mut self.clients {
            client.belief = client.belief.saturating_sub(1);
            let previous = client.previous.iter_mut().flatten();
            for command in client.commands.iter_mut().chain(previous) {
                grow(&mut command.stamp_age, times.ttl);
            }
            for message in client.replies.iter_mut().chain(&mut client.pushes) {
                grow(&mut message.stamp_age, times.ttl);
            }
        }
    }
}

impl Server {
    pub(crate) fn is_owned_by(&self, token: Token) -> bool {
        self.key.is_some_and(|key| key.owner == Owner::Ours(token))
    }

    pub(crate) fn entry(&self, token: Token) -> Option<&Entry> {
        self.line.iter().find(|entry| entry.token == token)
    }

    pub(crate) fn record(&self, token: Token) -> Option<&Record> {
        self.records.iter().find(|record| record.token == token)
    }

    fn tick(&mut self, times: &Times) {
        if let Some(key) = &mut self.key {
            key.remaining -= 1;
            if key.remaining == 0 {
                self.key = None;
            }
        }
        for entry in &mut self.line {
            grow(&mut entry.age, times.liveness);
            grow(&mut entry.stamp_age, times.ttl);
        }
        for record in &mut self.records {
            record.alive_for = record.alive_for.saturating_sub(1);
            grow(&mut record.stamp_age, times.ttl);
        }
    }
}

/// Ages beyond the cap make no difference.
fn grow(age: &mut Ticks, cap: Ticks) {
    *age = (*age + 1).min(cap);
}
