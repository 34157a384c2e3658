//! The words for each scenario: its question, what happens in it, and what a lock is judged by.

use fencepost::stores::kinds::POSTGRES;

use crate::any_scenario::AnyScenario;
use crate::holds::{Scenario, Trial};
use crate::protocol::Claims;
use crate::store::TrialStore;
use crate::text::numbers::count;

/// Returns what the trial is about, in a sentence.
pub(crate) fn question(trial: &Trial) -> &'static str {
    let is_untimed = trial.strategy.claims.untimed;
    let keeps_stock = trial.store.keeps_stock();
    match trial.scenario {
        Scenario::Crash => "the holder is killed: how long until somebody else gets the lock?",
        Scenario::TtlEdge if is_untimed => {
            "A's work takes longer than a lease would last; both add 1 to a shared number"
        }
        Scenario::TtlEdge => {
            "A's work takes longer than its lock lasts; both add 1 to a shared number"
        }
        Scenario::Deadlock => {
            "two processes take two locks in opposite order, then each adds 1 to a shared number"
        }
        Scenario::DeadlockSorted => {
            "two processes take two locks in the same order, and each adds 1 to a number"
        }
        Scenario::StaleRelease if is_untimed => {
            "A is paused while it holds the lock and B wants it: who gets it, and when?"
        }
        Scenario::StaleRelease => {
            "A is paused beyond its lease, B gets the lock, A releases it: what then?"
        }
        Scenario::ShortStock => {
            "a purchase finds nothing to sell; then a unit comes in: can it be bought?"
        }
        Scenario::Pause if is_untimed => {
            "A is paused between read and write, and B wants the lock: who gets it, and when?"
        }
        Scenario::Pause => {
            "A reads and is paused beyond its lease; B gets the lock and adds 1; then A writes"
        }
        Scenario::Failover if trial.store.is(&POSTGRES) => {
            "the primary dies before its standby has A's lock; the standby takes over"
        }
        Scenario::Failover if keeps_stock => {
            "the primary dies before its replica has A's lock; the replica takes over"
        }
        Scenario::Failover => "the leader dies while A holds the lock; the others elect a new one",
        Scenario::RestartEmpty if keeps_stock => {
            "the store's server dies while A holds the lock, and comes back empty"
        }
        Scenario::RestartEmpty => {
            "A's lock is on two servers of three; one of them dies, and comes back empty"
        }
        Scenario::RestartBehind => {
            "the server comes back empty and an hour behind: a second holder, a lower fence?"
        }
        Scenario::ServerClock => {
            "the server's clock jumps forward while A holds the lock and B wants it"
        }
        Scenario::ClockBack => {
            "the server's clock jumps back, then A is killed: when is its lock free?"
        }
        Scenario::Eviction => "the server is short of memory and evicts A's lock while B wants it",
        Scenario::TakenAway => {
            "the store loses A's lock while A works, and B gets it: is A told, and in time?"
        }
        Scenario::Deposed => {
            "a copy of the server takes over, and the old one lives on with A: does A learn of it?"
        }
        Scenario::ServerStall => {
            "the server is stopped while A holds the lock: within its lease, then beyond it"
        }
        Scenario::MajorityDown => {
            "two of three servers die while A holds the lock: does anybody get it meanwhile?"
        }
        Scenario::LeaderDeaths => {
            "the leader dies three times while A has its lock, and C has died with another"
        }
        Scenario::ClientClock => {
            "A holds the lock, B wants it, and the time of day of one of them is wrong"
        }
        Scenario::Suspend => {
            "A reads, and its machine is suspended; B gets the lock and adds 1; then A writes"
        }
        Scenario::LostWakeup => {
            "A releases the lock just when B is about to wait for it: is B woken?"
        }
        Scenario::Names => {
            "names that are long or nearly the same, several at once: is each a lock of its own?"
        }
        Scenario::Turns => {
            "four processes take turns, and are started again in between: do fences grow?"
        }
        Scenario::Waiters => {
            "several wait; the holder is killed, and so is whoever takes over: are the others served?"
        }
        Scenario::Deadline => {
            "B gives up waiting: is anything left of it, and does a long wait use up a lease?"
        }
        Scenario::Order => {
            "three wait for A, each asked well after the last: are they served in that order?"
        }
        Scenario::Reentry => {
            "A asks for a lock that it has, and releases an old hold again: whose lock is released?"
        }
        Scenario::SamePid => {
            "A dies and comes back with the same process id: is it taken for the dead one?"
        }
        Scenario::Cut if is_untimed => {
            "A is cut off from its store while it holds the lock and B wants it: who gets it?"
        }
        Scenario::Cut => {
            "A reads and is cut off from its store; B gets the lock and adds 1; then A writes"
        }
        Scenario::CutReplies => {
            "A's requests arrive, and no reply reaches A: does it go on as if it had the lock?"
        }
        Scenario::CutRequests => {
            "A's store does not hear A, and A hears its store: what does A take for a renewal?"
        }
        Scenario::SlowReplies => {
            "the store answers A late; when A's lease is over, B adds 1; then A writes"
        }
        Scenario::LostReply => {
            "a reply to A's request is lost: is that a grant, and is the lock free again?"
        }
        Scenario::LostRelease => {
            "the reply to A's release is lost: is the lock free, and is B's lock left alone?"
        }
        Scenario::FailedRenewal => {
            "a reply to A is lost, and a renewal meets an error: does A keep its lock?"
        }
        Scenario::StoreErrors => {
            "the store answers A with errors: is one taken for a grant, or for a release?"
        }
        Scenario::PauseAtStep => {
            "A is paused at each reply of its store; B gets the lock; then A goes on"
        }
        Scenario::ManyLeases => {
            "A holds 2,500 locks, and a round trip to its store takes 300 ms: are all kept?"
        }
        Scenario::DeadConnection => {
            "A's connections die silently, and new ones work: does A keep its lock?"
        }
        Scenario::Vanish => {
            "A's machine vanishes, and nobody tells the store: when is A's lock free?"
        }
        Scenario::LateWrite => {
            "A's write is delayed on its way; its lock ends, B adds 1; then the write arrives"
        }
        Scenario::WriteOnlyFence if is_untimed => {
            "A is paused between read and write, and B wants the lock: who gets it, and when?"
        }
        Scenario::WriteOnlyFence => {
            "A reads and is paused beyond its lease; B reads; then A writes, and then B"
        }
        Scenario::Storm => {
            "processes take turns at a few locks while faults hit them at random instants"
        }
    }
}

/// Returns what happens in the trial, in a few words: the fault that it injects.
pub(crate) fn fault(scenario: Scenario, store: &TrialStore) -> &'static str {
    match scenario {
        Scenario::Crash => "the holder is killed",
        Scenario::TtlEdge => "work beyond the lease",
        Scenario::Deadlock => "two locks, opposite order",
        Scenario::DeadlockSorted => "two locks, same order",
        Scenario::StaleRelease => "a late release",
        Scenario::ShortStock => "nothing left to sell",
        Scenario::Pause => "paused between read and write",
        Scenario::Failover if !store.keeps_stock() => "the leader dies, the others elect a new one",
        Scenario::Failover if store.is(&POSTGRES) => "a standby takes over without the lock",
        Scenario::Failover => "a replica takes over without the lock",
        Scenario::RestartEmpty if !store.keeps_stock() => "one of three servers comes back empty",
        Scenario::RestartEmpty => "the server comes back empty",
        Scenario::RestartBehind => "the server comes back empty and an hour behind",
        Scenario::ServerClock => "the server's clock jumps forward",
        Scenario::ClockBack => "the server's clock jumps back",
        Scenario::Eviction => "the server evicts the lock",
        Scenario::TakenAway => "the lock is taken away at the store",
        Scenario::Deposed => "the old primary lives on with its holder",
        Scenario::ServerStall => "the server is stopped for a while",
        Scenario::MajorityDown => "two of three servers are dead for a while",
        Scenario::LeaderDeaths => "the leader dies, three times",
        Scenario::ClientClock => "a process's time of day is wrong",
        Scenario::Suspend => "its machine is suspended between read and write",
        Scenario::LostWakeup => "released just before somebody waits",
        Scenario::Names => "similar names, several at once",
        Scenario::Turns => "hundreds of turns, processes restarted",
        Scenario::Waiters => "the holder dies, then its successor",
        Scenario::Deadline => "a wait that times out, and a long one",
        Scenario::Order => "several wait, one after the other",
        Scenario::Reentry => "asked for twice, and released too often",
        Scenario::SamePid => "killed, and back with the same process id",
        Scenario::Cut => "cut off from the store",
        Scenario::CutReplies => "no reply of the store arrives",
        Scenario::CutRequests => "no request to the store arrives",
        Scenario::SlowReplies => "a grant learned late",
        Scenario::LostReply => "replies lost while acquiring",
        Scenario::LostRelease => "replies lost while releasing",
        Scenario::FailedRenewal => "one request of the holder fails",
        Scenario::StoreErrors => "errors in place of replies",
        Scenario::PauseAtStep => "paused at every reply of the store",
        Scenario::LateWrite => "its write arrives late",
        Scenario::WriteOnlyFence => "paused, and the other one reads first",
        Scenario::ManyLeases => "very many locks, a slow network",
        Scenario::DeadConnection => "connections that die silently",
        Scenario::Vanish => "the holder's machine vanishes",
        Scenario::Storm => "faults at random instants",
    }
}

/// Returns what a lock with these claims is judged by in a scenario, in a few words.
pub(crate) fn judged_by(scenario: AnyScenario, claims: Claims) -> String {
    match scenario {
        AnyScenario::Sale => "nothing is sold twice".into(),
        AnyScenario::Lock(scenario) => lock_judged_by(scenario, claims),
    }
}

fn lock_judged_by(scenario: Scenario, claims: Claims) -> String {
    let late = match scenario {
        _ if claims.fencing => "it claims fences: the resource refuses a late write",
        _ if claims.untimed => "it claims to have no lease: the other waits",
        Scenario::TtlEdge if claims.keep_alive => "it claims to renew its lease: the other waits",
        _ => "no update is lost, although it promises nothing beyond its lease",
    };
    match scenario {
        Scenario::Deadlock => "one holder at a time, and at least one process finishes",
        Scenario::DeadlockSorted => "both finish, one after the other",
        Scenario::Crash => return recovery(claims, "a kill"),
        Scenario::Vanish => return recovery(claims, "the end of its holder"),
        Scenario::TtlEdge
        | Scenario::Pause
        | Scenario::Suspend
        | Scenario::Cut
        | Scenario::CutReplies
        | Scenario::CutRequests
        | Scenario::SlowReplies => late,
        Scenario::ClientClock => "one holder within a lease, whatever the time of day",
        Scenario::Reentry if claims.reentrant => {
            "it claims to be re-entrant: held until the last release, and not one release more"
        }
        Scenario::Reentry => "no second hold for its holder, and no release of another's lock",
        Scenario::SamePid => {
            "one holder within a lease, whoever comes back, and what the dead one held comes free"
        }
        Scenario::WriteOnlyFence if claims.fences_writes_only => {
            "it claims fences, on writes only: no update is lost all the same"
        }
        Scenario::WriteOnlyFence => late,
        Scenario::LateWrite if claims.fencing => late,
        Scenario::LateWrite => "no update is lost, which no lock can prevent without fences",
        Scenario::PauseAtStep => return at_every_step(claims),
        Scenario::LostReply => "an error is no grant, and the lock comes free again",
        Scenario::LostRelease => "a release frees only its own lock, and the lock comes free again",
        Scenario::FailedRenewal if claims.keep_alive => {
            "it claims to renew its lease: one failure does not end it"
        }
        Scenario::StoreErrors if claims.keep_alive => {
            "an error is no grant, no release and no renewal, and the lock comes free again"
        }
        Scenario::StoreErrors => {
            "an error is no grant and no release, and the lock comes free again"
        }
        Scenario::ManyLeases if claims.keep_alive => {
            "it claims to renew its leases: all of them, however many"
        }
        Scenario::DeadConnection if claims.keep_alive => {
            "it claims to renew its lease: on another connection, too"
        }
        Scenario::ManyLeases | Scenario::DeadConnection | Scenario::FailedRenewal => NOT_RENEWED,
        Scenario::StaleRelease => "a release frees only its own lock",
        Scenario::ShortStock => "a failed purchase frees its lock",
        Scenario::LostWakeup => "whoever waits gets the lock when it is free",
        Scenario::Names => return names(claims),
        Scenario::Turns if claims.fencing => {
            "no update is lost; it claims fences: they grow, as numbers, whoever comes back"
        }
        Scenario::Waiters => "everybody who waits is served, one at a time, whoever dies",
        Scenario::Deadline => {
            "whoever gives up leaves nothing behind, and a grant is a whole lease"
        }
        Scenario::Order if claims.fair => {
            "it claims to be fair: whoever asked first is served first"
        }
        Scenario::Order => "nothing: it does not claim to serve waiters in order",
        Scenario::Turns => "everybody gets its turns, and no update is lost",
        Scenario::Storm => return storm(claims),
        Scenario::TakenAway | Scenario::Deposed => return taken_away(claims),
        Scenario::ClockBack => "it is free again when its lease is over",
        Scenario::ServerStall => return server_stall(claims),
        Scenario::MajorityDown => {
            "nobody is let in without a majority, and the lock can be taken afterwards"
        }
        Scenario::LeaderDeaths if claims.keep_alive => {
            "it claims to renew its lease: it is kept, and what the dead one held comes free"
        }
        Scenario::LeaderDeaths => {
            "one holder within a lease, and what the dead one held comes free"
        }
        Scenario::Failover
        | Scenario::RestartEmpty
        | Scenario::RestartBehind
        | Scenario::ServerClock
        | Scenario::Eviction => {
            let is_failover = scenario == Scenario::Failover;
            if claims.fencing {
                late
            } else if claims.survives && is_failover {
                "it claims to survive a failover: no second holder, and no update is lost"
            } else {
                "no update is lost"
            }
        }
    }
    .into()
}

fn taken_away(claims: Claims) -> String {
    let mut words = Vec::new();
    if let Some(ms) = claims.tells_loss_ms {
        let ms = count(i64::try_from(ms).unwrap_or(i64::MAX));
        words.push(format!("it claims to tell a loss within {ms} ms"));
    }
    words.push(if claims.fencing {
        "it claims fences: they still grow, and the resource refuses a late write".into()
    } else {
        "no update is lost".into()
    });
    words.join("; ")
}

/// What is said of a lock whose claims leave nothing to judge.
const NOT_RENEWED: &str = "nothing: it does not claim to renew its leases";

fn names(claims: Claims) -> String {
    let mut words = vec!["each name is a lock of its own, and a release frees one"];
    if claims.untimed {
        words.push("it claims to have no lease: all are kept");
    } else if claims.keep_alive {
        words.push("it claims to renew its leases: all of them");
    }
    words.join("; ")
}

fn at_every_step(claims: Claims) -> String {
    let late = if claims.fencing {
        "it claims fences: the resource refuses a late write"
    } else if claims.untimed {
        "it claims to have no lease: the other waits"
    } else {
        "a late reply is no grant, and no late write"
    };
    format!("{late}; a release frees only its own lock")
}

fn storm(claims: Claims) -> String {
    let mut words = vec!["one holder within a lease, and a lock that can be taken afterwards"];
    if claims.fencing {
        words.push("it claims fences: they grow, and no update is lost");
    } else if claims.keep_alive {
        words.push("it claims to renew its lease");
    }
    words.join("; ")
}

fn server_stall(claims: Claims) -> String {
    let mut words = vec!["one holder within a lease, and a lock that can be taken afterwards"];
    if claims.fencing {
        words.push("it claims fences: the resource refuses a late write");
    }
    if claims.untimed {
        words.push("it claims to have no lease: the other waits");
    } else if claims.keep_alive {
        words.push("it claims to renew its lease: a short stop does not end it");
    }
    words.join("; ")
}

fn recovery(claims: Claims, end: &str) -> String {
    match claims.recovery_ms {
        Some(ms) => format!(
            "it claims to be free within {} ms of {end}",
            count(i64::try_from(ms).unwrap_or(i64::MAX))
        ),
        None => "it is free again when its lease is over".into(),
    }
}
