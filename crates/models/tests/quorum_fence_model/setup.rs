//! The settings of a search of the quorum fence: clients, faults, and the flaw, if any.

use crate::state::{CLIENTS_MAX, NODES};

/// The kinds of faults that may occur. Each occurrence costs one of `Setup::faults`. A slow or silent node is not a fault here:
/// every request may be delayed for any time.
#[derive(Clone, Copy, Default)]
pub(crate) struct Troubles {
    /// A connection breaks, and its pending requests are lost.
    pub(crate) cut: bool,
    /// A node comes back with its data.
    pub(crate) restart: bool,
    /// A node comes back without any key.
    pub(crate) restart_empty: bool,
    /// A node loses all its keys and goes on.
    pub(crate) flushed: bool,
    /// A node loses the lock's key but keeps its counter, because its clock was changed or somebody deleted the key.
    pub(crate) key_lost: bool,
    /// A client dies, but the requests it has sent stay on their way.
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
    /// All faults under which a majority stays exclusive.
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
    /// A node accepts any epoch.
    AcceptsAnything,
    /// The maximum of the counts is the epoch, and nobody writes it back.
    NoWriteBack,
    /// One node that accepts is enough.
    MinorityAccepts,
    /// Nobody checks the time again once the epoch is agreed.
    NoLookAtTheTime,
    /// Belief is counted from the answers, not from before the requests.
    ValidityFromTheAnswer,
    /// Only nodes that granted the key are released.
    ReleasesOnlyWhereGranted,
    /// A release that is sent again does not name its attempt.
    OwedReleaseTakesAnything,
    /// A client that asks after a release that may not have been executed mistakes an old key for a new one.
    OldKeyCounts,
    /// One node that extends is enough.
    MinorityExtends,
    /// A client that asks again while it holds keeps its epoch if a majority has one of its keys, whatever the count.
    KeepsByKeysAlone,
    /// One node that still has the key with the epoch is enough to keep it.
    MinorityKeeps,
    /// A key that an extension sets counts for that extension.
    TakenKeyVotesAtOnce,
    /// A key that an extension set counts for the next one, whether or not the first succeeded.
    TakenKeyVotesUnconfirmed,
    /// A lost lease is forgotten, so all its keys vote in a later extension.
    ForgetsTheLoss,
    /// The release of keys that were set in vain is lost with its connection.
    ReleasesTakenKeysOnce,
    /// An extension sets a key whatever the counter says.
    TakesPastTheCounter,
    /// An extension that sets a key on a node without a counter makes the epoch its counter, however late it is.
    TakingDoesNotLift,
    /// An extension that waits for a connection sets keys although its owner has released the lock.
    TakesAfterTheRelease,
    /// A key that an extension set looks newer than the release that follows it.
    TakenKeyEscapesTheRelease,
    /// A missing counter is not raised past the last epoch that the client has seen.
    NothingIsSeen,
    /// An extension sets a key on a node that may have forgotten the owner of the lock.
    TakesOnAYoungNode,
}

#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) clients: usize,
    /// How often each client asks.
    pub(crate) attempts: [u8; CLIENTS_MAX],
    /// Ticks from setting a key to its expiry, and from a request to the end of belief.
    pub(crate) ttl: u8,
    pub(crate) faults: u8,
    pub(crate) troubles: Troubles,
    /// The counters at the start. They differ if an attempt reached only a minority.
    pub(crate) counters: [u8; NODES],
    /// Equal counts of a majority are an epoch without a second round.
    pub(crate) shortcut: bool,
    /// A node accepts an epoch only while the client's key exists.
    pub(crate) accept_needs_key: bool,
    /// A client may continue with the claim of an attempt that was dropped, without releasing it.
    pub(crate) asks_again: bool,
    /// A holder that does not know that it is one, because the answer was lost, may ask again.
    pub(crate) holder_asks_again: bool,
    /// A holder that has found its lease lost may ask for another one without releasing it. Requested leases are then not
    /// extended, because the effect of a late request on an extension is a separate limit.
    pub(crate) asks_after_a_loss: bool,
    /// A client may give up at any time, and not only when it was refused or is out of time.
    pub(crate) cancels: bool,
    /// How often a holder may extend.
    pub(crate) extends: u8,
    /// The first client begins as the holder, on a bare majority.
    pub(crate) begins_held: bool,
    /// For how many ticks a node that came back empty grants no keys.
    pub(crate) restart_delay: u8,
    /// How many ticks may pass; `None` for no limit.
    pub(crate) ticks_max: Option<u8>,
    /// New counters, and the first count over a connection, are at least the server's time. Requires counted ticks.
    pub(crate) lifts: bool,
    /// By how many ticks the first node's clock is ahead of the others.
    pub(crate) first_is_ahead: u8,
    /// A node that has lost its counter has a clock that is behind when an extension sets the key there.
    pub(crate) takers_clock_is_behind: bool,
    pub(crate) flaw: Option<Flaw>,
}

impl Setup {
    /// Two clients that ask once, after an attempt that reached only one node. Nothing goes wrong.
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

    /// Returns whether a client may have a lease when it asks.
    pub(crate) fn holds_while_it_asks(&self) -> bool {
        self.holder_asks_again || self.asks_after_a_loss
    }

    pub(crate) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }
}
