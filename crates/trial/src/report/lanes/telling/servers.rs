//! What became of a server, in words.

use crate::history::Change;

/// «the replica takes over, without the lock»
pub(crate) fn told(server: &str, change: Change, is_without_lock: bool) -> String {
    let what = match change {
        Change::CutOff => "is cut off: it gets no more writes",
        Change::Reconnected => "can be reached again",
        Change::Killed => "is killed (SIGKILL)",
        Change::Promoted => "takes over at the same address",
        Change::RestartedEmpty => "runs again, empty",
        Change::Elected => "is elected by the majority",
    };
    let without = match is_without_lock && change == Change::Promoted {
        true => ", without the lock",
        false => "",
    };
    format!("the {server} {what}{without}")
}
