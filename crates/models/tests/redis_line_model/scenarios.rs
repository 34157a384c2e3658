//! The setups in which the correct Redis line must keep every promise: small ones for every test run, deeper ones with more
//! faults and longer delays for the release profile.

use crate::setup::{Setup, Troubles};
use crate::state::Times;

pub(crate) struct Scenario {
    pub(crate) title: &'static str,
    pub(crate) setup: Setup,
}

const fn scenario(title: &'static str, setup: Setup) -> Scenario {
    Scenario { title, setup }
}

const CALM: Setup = Setup::CALM;
/// Every client may start with plain commands.
const KNOWN: Setup = Setup {
    plain_commands: true,
    is_known: true,
    ..CALM
};
/// The proportions of the real settings, as far as whole heartbeats allow.
const FINER: Times = Times {
    ttl: 6,
    waiter_lease: 4,
    liveness: 3,
};
const CANCEL: Troubles = Troubles {
    cancel: true,
    ..Troubles::NONE
};
const DISCONNECT: Troubles = Troubles {
    disconnect: true,
    ..Troubles::NONE
};
const KILL: Troubles = Troubles {
    kill: true,
    ..Troubles::NONE
};
const RESTART: Troubles = Troubles {
    restart_empty: true,
    ..Troubles::NONE
};
const FAILOVER: Troubles = Troubles {
    failover: true,
    ..Troubles::NONE
};
const FLUSH: Troubles = Troubles {
    flush: true,
    ..Troubles::NONE
};
const DEATHS: Troubles = Troubles {
    freeze: true,
    kill: true,
    ..Troubles::NONE
};

#[rustfmt::skip]
pub(crate) const TWO_CLIENTS: &[Scenario] = &[
    scenario("2 clients and a plain one", Setup { plain_turns: 1, ..CALM }),
    scenario("2 clients, heartbeats that do not wait for answers", Setup { pipeline: 2, late_ticks: Some(1), ..CALM }),
    scenario("2 clients, 1 fault", Setup { faults: 1, troubles: Troubles::CLIENTS, late_ticks: Some(2), ..CALM }),
    scenario("2 clients, 2 deaths or cancellations", Setup { faults: 2, troubles: Troubles { cancel: true, ..DEATHS }, late_ticks: Some(0), ..CALM }),
    scenario("2 clients, 2 waits each", Setup { waits: 2, late_ticks: Some(1), ..CALM }),
    scenario("2 clients, 2 waits each, the next before the release is answered, 1 disconnect", Setup { waits: 2, eager: true, faults: 1, troubles: DISCONNECT, late_ticks: Some(0), ..CALM }),
    scenario("2 clients, one only tries, 1 death", Setup { triers: 1, plain_turns: 1, faults: 1, troubles: DEATHS, late_ticks: Some(0), ..CALM }),
    scenario("2 clients, poll mode, 1 death", Setup { poll_mode: true, plain_turns: 1, faults: 1, troubles: DEATHS, late_ticks: Some(0), ..CALM }),
    scenario("2 clients, a monitor on every channel, 1 death", Setup { monitor: true, plain_turns: 1, faults: 1, troubles: DEATHS, late_ticks: Some(0), ..CALM }),
];

#[rustfmt::skip]
pub(crate) const THREE_CLIENTS: &[Scenario] = &[
    scenario("3 clients", Setup { clients: 3, late_ticks: Some(0), ..CALM }),
    scenario("3 clients, 1 killed", Setup { clients: 3, faults: 1, troubles: KILL, late_ticks: Some(0), ..CALM }),
    scenario("3 clients, 1 cancelled", Setup { clients: 3, faults: 1, troubles: CANCEL, late_ticks: Some(0), ..CALM }),
];

#[rustfmt::skip]
pub(crate) const FORGETFUL_SERVER: &[Scenario] = &[
    scenario("2 clients, the server restarts empty", Setup { faults: 1, troubles: RESTART, late_ticks: Some(2), ..CALM }),
    scenario("2 clients, a replica takes over", Setup { faults: 1, troubles: FAILOVER, late_ticks: Some(0), ..CALM }),
    scenario("2 clients, all keys removed, a slow clock", Setup { faults: 1, troubles: FLUSH, late_ticks: Some(1), is_known: true, slow_clock: true, ..CALM }),
    scenario("2 clients of which 1 knows, all keys removed, a slow clock", Setup { faults: 1, troubles: FLUSH, late_ticks: Some(1), is_known: true, only_one_knows: true, slow_clock: true, ..CALM }),
    scenario("2 clients of which 1 knows, the server restarts empty, a slow clock", Setup { faults: 1, troubles: RESTART, late_ticks: Some(1), is_known: true, only_one_knows: true, slow_clock: true, ..CALM }),
];

#[rustfmt::skip]
pub(crate) const PLAIN_COMMANDS: &[Scenario] = &[
    scenario("2 clients with plain commands and a plain one", Setup { plain_turns: 1, late_ticks: Some(0), ..KNOWN }),
    scenario("2 clients with plain commands, 1 disconnect", Setup { faults: 1, troubles: DISCONNECT, late_ticks: Some(1), ..KNOWN }),
    scenario("2 clients with plain commands, a plain one, 1 death or cancellation", Setup { plain_turns: 1, faults: 1, troubles: Troubles { cancel: true, ..KILL }, late_ticks: Some(0), ..KNOWN }),
    scenario("2 clients with plain commands, heartbeats that do not wait for answers", Setup { pipeline: 2, late_ticks: Some(0), ..KNOWN }),
    scenario("2 clients with plain commands, a holder may ask again", Setup { asks_again: true, late_ticks: Some(1), ..KNOWN }),
    scenario("2 clients with plain commands, one only tries", Setup { triers: 1, plain_turns: 1, late_ticks: Some(0), ..KNOWN }),
    scenario("2 clients, 2 waits each, plain commands as soon as they can", Setup { waits: 2, eager: true, plain_commands: true, late_ticks: Some(0), ..CALM }),
    scenario("2 clients with plain commands, all keys removed", Setup { faults: 1, troubles: FLUSH, late_ticks: Some(1), ..KNOWN }),
    scenario("2 clients with plain commands, all keys removed, a slow clock", Setup { faults: 1, troubles: FLUSH, late_ticks: Some(0), only_one_knows: true, slow_clock: true, ..KNOWN }),
    scenario("2 clients with plain commands, the server restarts empty", Setup { faults: 1, troubles: RESTART, late_ticks: Some(0), ..KNOWN }),
    scenario("3 clients with plain commands", Setup { clients: 3, late_ticks: Some(0), ..KNOWN }),
];

#[rustfmt::skip]
pub(crate) const PLAIN_COMMANDS_DEEPER: &[Scenario] = &[
    scenario("2 clients with plain commands and a plain one, any delay", Setup { plain_turns: 2, late_ticks: None, ..KNOWN }),
    scenario("2 clients with plain commands, 2 faults, a plain one", Setup { faults: 2, plain_turns: 1, troubles: Troubles::CLIENTS, late_ticks: Some(0), ..KNOWN }),
    scenario("2 clients with plain commands, 1 fault, a plain one", Setup { faults: 1, plain_turns: 1, troubles: Troubles::CLIENTS, late_ticks: Some(2), ..KNOWN }),
    scenario("2 clients with plain commands, 2 waits each, the next before the release is answered, 1 fault", Setup { waits: 2, eager: true, faults: 1, troubles: Troubles::CLIENTS, late_ticks: Some(0), ..KNOWN }),
    scenario("2 clients with plain commands, one only tries, 1 fault, a plain one", Setup { triers: 1, faults: 1, plain_turns: 1, troubles: Troubles::CLIENTS, late_ticks: Some(1), ..KNOWN }),
    scenario("2 clients with plain commands, a holder may ask again, 1 fault, a plain one", Setup { asks_again: true, plain_turns: 1, faults: 1, troubles: Troubles::CLIENTS, late_ticks: Some(0), ..KNOWN }),
    scenario("2 clients with plain commands, poll mode, 1 fault, a plain one", Setup { poll_mode: true, plain_turns: 1, faults: 1, troubles: Troubles::CLIENTS, late_ticks: Some(0), ..KNOWN }),
    scenario("2 clients with plain commands, all keys removed, 1 fault more", Setup { faults: 2, troubles: Troubles { flush: true, ..Troubles::CLIENTS }, late_ticks: Some(1), ..KNOWN }),
    scenario("2 clients with plain commands, 2 waits each, all keys removed", Setup { waits: 2, faults: 1, troubles: FLUSH, late_ticks: Some(1), ..KNOWN }),
    scenario("2 clients with plain commands, restart and 1 fault more", Setup { faults: 2, troubles: Troubles { restart_empty: true, ..Troubles::CLIENTS }, late_ticks: Some(1), ..KNOWN }),
    scenario("2 clients with plain commands, 2 waits each, a replica takes over", Setup { waits: 2, faults: 1, troubles: FAILOVER, late_ticks: Some(0), ..KNOWN }),
    scenario("3 clients with plain commands and a plain one", Setup { clients: 3, plain_turns: 1, late_ticks: Some(1), ..KNOWN }),
    scenario("3 clients with plain commands, 1 death, cancellation or disconnect", Setup { clients: 3, faults: 1, troubles: Troubles { cancel: true, disconnect: true, ..KILL }, late_ticks: Some(0), ..KNOWN }),
    scenario("3 clients with plain commands, all keys removed", Setup { clients: 3, faults: 1, troubles: FLUSH, late_ticks: Some(0), ..KNOWN }),
];

#[rustfmt::skip]
pub(crate) const TWO_CLIENTS_DEEPER: &[Scenario] = &[
    scenario("2 clients and a plain one, any delay", Setup { plain_turns: 2, late_ticks: None, ..CALM }),
    scenario("2 clients, 1 fault, any delay", Setup { faults: 1, troubles: Troubles::CLIENTS, late_ticks: None, ..CALM }),
    scenario("2 clients, 2 faults, a plain one", Setup { faults: 2, plain_turns: 1, troubles: Troubles::CLIENTS, late_ticks: Some(2), ..CALM }),
    scenario("2 clients, 2 waits each, 1 fault", Setup { waits: 2, faults: 1, troubles: Troubles::CLIENTS, late_ticks: Some(2), ..CALM }),
    scenario("2 clients, 2 waits each, the next before the release is answered, 1 fault", Setup { waits: 2, eager: true, faults: 1, troubles: Troubles::CLIENTS, late_ticks: Some(1), ..CALM }),
    scenario("2 clients, finer time, 1 fault", Setup { times: FINER, faults: 1, troubles: Troubles::CLIENTS, late_ticks: Some(3), ..CALM }),
    scenario("2 clients, one only tries, 2 faults", Setup { triers: 1, faults: 2, troubles: Troubles::CLIENTS, late_ticks: Some(1), ..CALM }),
    scenario("2 clients, poll mode, 2 faults", Setup { poll_mode: true, plain_turns: 1, faults: 2, troubles: Troubles::CLIENTS, late_ticks: Some(1), ..CALM }),
];

#[rustfmt::skip]
pub(crate) const THREE_CLIENTS_DEEPER: &[Scenario] = &[
    scenario("3 clients", Setup { clients: 3, late_ticks: Some(3), ..CALM }),
    scenario("3 clients, 1 fault", Setup { clients: 3, faults: 1, troubles: Troubles::CLIENTS, late_ticks: Some(1), ..CALM }),
    scenario("3 clients, 2 deaths", Setup { clients: 3, faults: 2, troubles: DEATHS, late_ticks: Some(0), ..CALM }),
];

#[rustfmt::skip]
pub(crate) const FORGETFUL_SERVER_DEEPER: &[Scenario] = &[
    scenario("2 clients, restart and 1 fault more", Setup { faults: 2, troubles: Troubles { restart_empty: true, ..Troubles::CLIENTS }, late_ticks: Some(2), ..CALM }),
    scenario("2 clients, a replica takes over, 1 fault more", Setup { faults: 2, troubles: Troubles { failover: true, ..Troubles::CLIENTS }, late_ticks: Some(0), ..CALM }),
    scenario("2 clients, 2 waits each, a replica takes over", Setup { waits: 2, faults: 1, troubles: FAILOVER, late_ticks: Some(1), ..CALM }),
];
