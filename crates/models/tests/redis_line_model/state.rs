//! What the model remembers: the server's keys, the clients, what is on the wire, and what an onlooker has noted.
//!
//! All times are relative (ages and remainders, in ticks) and capped, fences and tickets are kept as ranks: that makes
//! the number of states finite although time and counters never end.

use crate::native::Attempt;

/// Fences below were never lifted: no clock is that early.
pub(crate) const FLOOR: u8 = 16;
/// How far ahead of a slow clock the fences are that are known from the start: further than two clients count.
pub(crate) const AHEAD: u8 = 5;

/// Ticks of model time; one tick is a heartbeat.
pub(crate) type Ticks = u8;

/// The lengths the protocol is set up with. A claim shorter than a TTL, a liveness no longer than a claim.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) ttl: Ticks,
    pub(crate) claim: Ticks,
    pub(crate) liveness: Ticks,
}

/// Names one wait of one client. Each wait draws a new token.
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
    /// Given to a waiter that has not been heard since (noted by the onlooker).
    pub(crate) is_claim: bool,
    /// The epoch in the value; 0: a plain client's.
    pub(crate) fence: u8,
    /// Somebody may wait: whoever releases looks at the line.
    pub(crate) is_flagged: bool,
    /// The epoch was guessed.
    pub(crate) is_provisional: bool,
}

/// A channel as seen from its client: which of its connections subscribed to it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) enum Channel {
    Current,
    /// Of the connection before; alive while the server has not closed that one.
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
    /// Since the ticket was drawn.
    pub(crate) age: Ticks,
    /// Since the client sent the request whose stamp stands in the member.
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
    /// By ticket.
    pub(crate) line: Vec<Entry>,
    pub(crate) records: Vec<Record>,
    /// 0: the counter does not exist. Below `FLOOR`: it was counted up from nothing, and never lifted.
    pub(crate) fence: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Request {
    Acquire,
    Try,
    /// Three commands; this one stands for those that are left.
    Native(Attempt),
    BeatWaiting,
    BeatHolding,
    /// RELEASE and LEAVE are one script.
    Leave,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Command {
    pub(crate) request: Request,
    pub(crate) wait: u8,
    /// Since it was sent.
    pub(crate) stamp_age: Ticks,
    /// 0: none yet.
    pub(crate) ticket: u8,
    pub(crate) lift: bool,
    /// The highest epoch that the client knows; 0 where the clock is ahead of all of them.
    pub(crate) floor: u8,
    /// The client has been told that it holds the lock.
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
    /// To a native acquire: not like this. Ask by the script, which lifts the fence if the guess was wrong.
    Declined {
        lift: bool,
    },
    Gone,
    Busy,
    Kept,
    Lost,
    Left {
        released: bool,
    },
}

/// A reply, or (with `Granted`) a push.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) struct Message {
    pub(crate) answer: Answer,
    pub(crate) wait: u8,
    /// Since the client sent the request that is answered, or whose stamp is echoed.
    pub(crate) stamp_age: Ticks,
    /// It grants what the server has forgotten since (noted by the onlooker).
    pub(crate) is_forgotten: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Phase {
    Idle,
    Want,
    Hold,
    Leaving,
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Health {
    Well,
    /// Takes no step; its socket stays open.
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
    /// Asks once and does not stand in line.
    pub(crate) only_tries: bool,
    /// The number of its present wait: with its index, its token.
    pub(crate) wait: u8,
    /// The wait before, while its LEAVE has not been answered; 0: none. A guard is dropped and the next wait begins at once.
    pub(crate) unsettled: u8,
    /// Until its own deadline; 0: none, or over.
    pub(crate) belief: Ticks,
    /// As told by Queued; 0: none.
    pub(crate) ticket: u8,
    /// The next command is the first of this connection.
    pub(crate) lift_due: bool,
    /// The last epoch it was granted on this connection; 0: none.
    pub(crate) remembers: u8,
    /// The highest epoch it has heard of, on any connection; 0 where the clock is ahead of all of them.
    pub(crate) knows: u8,
    pub(crate) commands: Vec<Command>,
    pub(crate) replies: Vec<Message>,
    /// In no order.
    pub(crate) pushes: Vec<Message>,
    /// Unread commands of the connection before, while the server has not closed it: it may still execute them.
    pub(crate) previous: Option<Vec<Command>>,
    pub(crate) noted: Noted,
}

/// What the onlooker knows about a client's present wait. No step of the protocol reads it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Noted {
    /// The ticket of its first entry into the line; 0: none.
    pub(crate) arrival: u8,
    pub(crate) has_held: bool,
    /// A LEAVE of its token found the key owned by it.
    pub(crate) let_go: bool,
    /// The server forgot its lease: only the fence protects from now on.
    pub(crate) lease_forgotten: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct State {
    pub(crate) server: Server,
    /// What a replica had received when it was last heard, if one is promoted some day.
    pub(crate) replica: Option<Server>,
    pub(crate) clients: Vec<Client>,
    /// The largest fence of any grant, ever.
    pub(crate) issued: u8,
    /// The largest fence of any guard, ever.
    pub(crate) guarded: u8,
    /// The largest that a fence was ever counted to, granted or not. The clock is ahead of it.
    pub(crate) drawn: u8,
    pub(crate) faults_left: u8,
    pub(crate) plain_turns_left: u8,
    /// `None`: without bounds.
    pub(crate) late_ticks_left: Option<u8>,
    /// A promoted replica may remember leases and entries that their clients have given back since: a loss that every
    /// failover brings, and that ends with the TTL.
    pub(crate) has_failed_over: bool,
    /// A waiter that has entered the line anew may read a late push of before, believe, and be told that it has lost: its
    /// entry stays, and costs a claim when its turn comes.
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
            remembers: 0,
            knows: 0,
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

    /// Nothing more will come from it.
    pub(crate) fn is_done(&self) -> bool {
        self.phase == Phase::Done && self.unsettled == 0
    }

    /// Commands of the present wait that the client still expects an answer to.
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

    /// The name has been used before, by all connections there are.
    fn get_known(&mut self, setup: &crate::setup::Setup) {
        let last = FLOOR + if setup.slow_clock { AHEAD } else { 0 };
        for fence in [&mut self.issued, &mut self.guarded, &mut self.drawn] {
            *fence = last;
        }
        self.server.fence = last;
        for (index, client) in self.clients.iter_mut().enumerate() {
            client.lift_due = false;
            if index == 0 || !setup.only_one_knows {
                client.remembers = last;
                client.knows = if setup.slow_clock { last } else { 0 };
            }
        }
    }

    pub(crate) fn client(&mut self, token: Token) -> &mut Client {
        &mut self.clients[usize::from(token.client)]
    }

    /// The client's present token.
    pub(crate) fn token(&self, client: usize) -> Token {
        Token {
            client: client as u8,
            wait: self.clients[client].wait,
        }
    }

    /// The first promise broken stays: the shortest story ends there.
    pub(crate) fn convict(&mut self, promise: crate::invariants::Promise) {
        self.broken.get_or_insert(promise);
    }

    /// Whether something lies on a wire that works, between a server and a client that are both awake.
    pub(crate) fn somebody_is_late(&self) -> bool {
        self.clients.iter().any(|client| {
            let has_mail = !client.replies.is_empty() || !client.pushes.is_empty();
            client.is_well() && (has_mail || !client.commands.is_empty())
        })
    }

    /// One tick: leases run out, everything on the way gets older.
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

/// An age beyond the cap makes no difference to anybody.
fn grow(age: &mut Ticks, cap: Ticks) {
    *age = (*age + 1).min(cap);
}
