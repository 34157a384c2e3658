//! What a search is about: how many clients, which faults, and which flaw, if any, the protocol has.

use crate::state::{CLIENTS_MAX, NODES};

/// The kinds of trouble that may come; each occurrence costs one of `Setup::faults`. That a node is slow, or silent for ever, is no
/// fault here: every request may stay on its way for as long as it likes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Troubles {
    /// A connection breaks, with what was on its way.
    pub(crate) cut: bool,
    /// A node comes back with its data.
    pub(crate) restart: bool,
    /// A node comes back without any key.
    pub(crate) restart_empty: bool,
    /// A node loses all its keys and goes on.
    pub(crate) flushed: bool,
    /// A node loses the lock's key and keeps its counter: its clock was set, or somebody deleted the key.
    pub(crate) key_lost: bool,
    /// A client dies, and what it has sent stays on its way.
    pub(crate) die: bool,
}

impl Troubles {
    pub(crate) const NONE: Self = Self {
        cut: false,
        restart: false,
        restart_empty: false,
        flushed: false,
        key_lost: false,
        die: false,
    };
    /// Everything under which a majority stays exclusive.
    pub(crate) const HONEST: Self = Self {
        cut: true,
        restart: true,
        die: true,
        ..Self::NONE
    };
}

/// A mistake that looks harmless.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flaw {
    /// A node takes whatever epoch it is told.
    AcceptsAnything,
    /// The maximum of the counts is the epoch, and nobody writes it back.
    NoWriteBack,
    /// One node that accepts is enough.
    MinorityAccepts,
    /// Nobody looks at the time again once the epoch is agreed.
    NoLookAtTheTime,
    /// Belief is counted from the answers, not from before the requests.
    ValidityFromTheAnswer,
    /// Only nodes that said yes are released.
    ReleasesOnlyWhereGranted,
    /// A release that is sent again does not say which attempt it is about.
    OwedReleaseTakesAnything,
    /// Who asks after a release that may not have been carried out takes a key from before for a new one.
    OldKeyCounts,
    /// One node that extends is enough.
    MinorityExtends,
    /// Who asks again while it holds keeps its epoch where a majority has a key of it, whatever its count.
    KeepsByKeysAlone,
    /// One node that still has the key with the epoch is enough to keep it.
    MinorityKeeps,
    /// A key that an extension takes counts for that extension.
    TakenKeyVotesAtOnce,
    /// A key that an extension took counts for the next one, whether or not the first succeeded.
    TakenKeyVotesUnconfirmed,
    /// Once a lease is found lost, nothing is known of it: every key of it votes in a later extension.
    ForgetsTheLoss,
    /// The release of keys that were taken in vain goes down with its connection.
    ReleasesTakenKeysOnce,
    /// An extension takes a key whatever the counter says.
    TakesPastTheCounter,
    /// An extension that takes a key on a node without a counter makes the epoch its counter, however late it is.
    TakingDoesNotLift,
    /// An extension that waits for a connection takes keys although its owner has given the lock back.
    TakesAfterTheRelease,
    /// A key that an extension took looks newer than the release that follows it.
    TakenKeyEscapesTheRelease,
    /// A counter that is gone does not pass the last epoch that the asker has seen.
    NothingIsSeen,
    /// An extension takes a key on a node that may have forgotten whose the lock is.
    TakesOnAYoungNode,
}

#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) clients: usize,
    /// How often each client asks.
    pub(crate) attempts: [u8; CLIENTS_MAX],
    /// Ticks from the moment a key is set to its end, and from asking to the end of belief.
    pub(crate) ttl: u8,
    pub(crate) faults: u8,
    pub(crate) troubles: Troubles,
    /// Counters at the start. They differ where an attempt got no further than a minority.
    pub(crate) counters: [u8; NODES],
    /// Equal counts of a majority are an epoch without a second round.
    pub(crate) shortcut: bool,
    /// A node accepts an epoch only while the client's key is there.
    pub(crate) accept_needs_key: bool,
    /// A client may go on with the claim of an attempt that was dropped, without releasing it.
    pub(crate) asks_again: bool,
    /// A holder that does not know it is one, because the answer was lost, may ask again.
    pub(crate) holder_asks_again: bool,
    /// A holder that has found its lease lost may ask for another one without giving it back. Leases that were asked for are
    /// not extended then: what a late request for the key does to an extension is a limit of its own.
    pub(crate) asks_after_a_loss: bool,
    /// A client may give up at any time, and not only when it was refused or its time is over.
    pub(crate) cancels: bool,
    /// How often a holder may extend.
    pub(crate) extends: u8,
    /// The first client begins as the holder, on a bare majority.
    pub(crate) begins_held: bool,
    /// For how many ticks a node that came back empty gives no keys.
    pub(crate) restart_delay: u8,
    /// How many ticks may pass; `None`: any number.
    pub(crate) ticks_max: Option<u8>,
    /// New counters, and the first count over a connection, are at least the server's time. Needs counted ticks.
    pub(crate) lifts: bool,
    /// By how many ticks the first node's clock is ahead of the others'.
    pub(crate) first_is_ahead: u8,
    /// A node that has lost its counter has a clock that is behind when an extension takes the key there.
    pub(crate) takers_clock_is_behind: bool,
    pub(crate) flaw: Option<Flaw>,
}

impl Setup {
    /// Two clients that ask once, after an attempt that reached one node only; nothing goes wrong.
    pub(crate) const CALM: Self = Self {
        clients: 2,
        attempts: [1; CLIENTS_MAX],
        ttl: 1,
        faults: 0,
        troubles: Troubles::NONE,
        counters: [10, 9, 9],
        shortcut: true,
        accept_needs_key: true,
        asks_again: false,
        holder_asks_again: false,
        asks_after_a_loss: false,
        cancels: false,
        extends: 0,
        begins_held: false,
        restart_delay: 0,
        ticks_max: None,
        lifts: false,
        first_is_ahead: 0,
        takers_clock_is_behind: false,
        flaw: None,
    };

    /// A client may have a lease when it asks.
    pub(crate) fn holds_while_it_asks(&self) -> bool {
        self.holder_asks_again || self.asks_after_a_loss
    }

    pub(crate) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }
}
