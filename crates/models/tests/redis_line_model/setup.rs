//! The settings of a search of the Redis line: clients, faults, and the flaw, if any.

use crate::state::Times;
use crate::variants::Flaw;

/// The kinds of faults that may occur. Each occurrence costs one of `Setup::faults`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Troubles {
    pub(crate) cancel: bool,
    pub(crate) disconnect: bool,
    pub(crate) freeze: bool,
    pub(crate) kill: bool,
    pub(crate) drop_push: bool,
    pub(crate) duplicate_push: bool,
    /// The server comes back without any key.
    pub(crate) restart_empty: bool,
    /// A replica that has missed the latest writes takes over.
    pub(crate) failover: bool,
    /// All keys are removed; connections stay.
    pub(crate) flush: bool,
}

impl Troubles {
    pub(crate) const NONE: Self = Self {
        cancel: false,
        disconnect: false,
        freeze: false,
        kill: false,
        drop_push: false,
        duplicate_push: false,
        restart_empty: false,
        failover: false,
        flush: false,
    };

    /// Everything that can happen to clients and connections while the server is unaffected.
    pub(crate) const CLIENTS: Self = Self {
        cancel: true,
        disconnect: true,
        freeze: true,
        kill: true,
        drop_push: true,
        duplicate_push: true,
        ..Self::NONE
    };
}

#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) times: Times,
    pub(crate) clients: usize,
    /// How many of the clients only try.
    pub(crate) triers: usize,
    /// How often each client wants the lock.
    pub(crate) waits: u8,
    pub(crate) faults: u8,
    pub(crate) troubles: Troubles,
    /// How many ticks may pass while a command or a message is on its way; `None` for no limit.
    pub(crate) late_ticks: Option<u8>,
    /// How often a plain client takes the key when it finds it free.
    pub(crate) plain_turns: u8,
    /// How many commands of one wait may be pending before a timer may send another one.
    pub(crate) pipeline: usize,
    /// The next wait may begin before the RELEASE of the previous one is answered.
    pub(crate) eager: bool,
    /// No client may subscribe.
    pub(crate) poll_mode: bool,
    /// A monitor has subscribed to every channel.
    pub(crate) monitor: bool,
    /// Clients may use plain commands if they know the last epoch.
    pub(crate) plain_commands: bool,
    /// Clients know the last epoch from the start.
    pub(crate) is_known: bool,
    /// Only the first client does; the others have been in line before, and were never served.
    pub(crate) only_one_knows: bool,
    /// The name has changed hands more often than the server's clock has units, so lifting it to the clock does not exceed what
    /// was lost.
    pub(crate) slow_clock: bool,
    /// A holder may ask again with the same token, as the contract of a backend allows.
    pub(crate) asks_again: bool,
    pub(crate) flaw: Option<Flaw>,
}

impl Setup {
    /// Two clients with one wait each. Nothing goes wrong.
    pub(crate) const CALM: Self = Self {
        times: Times {
            ttl: 3,
            waiter_lease: 2,
            liveness: 2,
        },
        clients: 2,
        triers: 0,
        waits: 1,
        faults: 0,
        troubles: Troubles::NONE,
        late_ticks: Some(3),
        plain_turns: 0,
        pipeline: 1,
        eager: false,
        poll_mode: false,
        monitor: false,
        plain_commands: false,
        is_known: false,
        only_one_knows: false,
        slow_clock: false,
        asks_again: false,
        flaw: None,
    };

    pub(crate) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }
}
