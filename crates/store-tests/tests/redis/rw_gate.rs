//! A gate for read-write locks in a script of the user.

use fencepost::resource::REDIS_ADMIT_RW;
use fencepost_rig::resp::Value;
use fencepost_store_tests::rw_gate::visits;

use crate::support::Server;

pub(crate) fn a_late_writer_or_reader_is_refused() {
    let server = Server::start();
    let mut plain = server.plain();
    let mut written = None;
    for visit in visits() {
        let (function, work) = if visit.writes {
            ("admit_write", "redis.call('SET', KEYS[1], ARGV[1])")
        } else {
            ("admit_read", "redis.call('GET', KEYS[1])")
        };
        let script = format!(
            "{REDIS_ADMIT_RW}\nlocal fence = {function}(KEYS[2], ARGV[1], ARGV[2], ARGV[3])\n\
             if fence then return 'STALE ' .. fence end\nreturn {work} or 'nothing'"
        );
        let fence = visit.credential.fence;
        let [epoch, seq] = [fence.epoch().to_string(), fence.seq().to_string()];
        let owner = visit.credential.owner.to_string();
        let keys = ["2", "{a}config", "{a}config:gate"];
        let words = [
            &["EVAL", script.as_str()],
            &keys[..],
            &[&epoch, &seq, &owner],
        ]
        .concat();
        let answer = match plain.ask(&words) {
            Value::Word(word) | Value::Text(word) => word,
            other => panic!("{visit:?}: {other:?}"),
        };
        let admitted = match visit.refused_by {
            Some(highest) => format!("STALE {highest}"),
            None if visit.writes => {
                written = Some(epoch);
                "OK".to_owned()
            }
            None => written.clone().unwrap_or("nothing".to_owned()),
        };
        assert_eq!(answer, admitted, "{visit:?}");
    }
}

/// Epochs and seqs are compared apart, and as numbers: together they have more digits than a number in a script.
pub(crate) fn large_fences_are_compared_exactly() {
    let server = Server::start();
    let mut plain = server.plain();
    let mut admits = |function: &str, epoch: u64, seq: u16| {
        let script =
            format!("{REDIS_ADMIT_RW}\nreturn {function}(KEYS[1], ARGV[1], ARGV[2], 'ab')");
        let (epoch, seq) = (epoch.to_string(), seq.to_string());
        plain.ask(&["EVAL", &script, "1", "gate", &epoch, &seq]) == Value::Nil
    };
    let last = fencepost::Fence::EPOCH_END - 1;
    assert!(admits("admit_write", last - 1, 65_535));
    assert!(admits("admit_write", last, 9));
    assert!(admits("admit_read", last, 10));
    assert!(!admits("admit_write", last, 9));
    assert!(!admits("admit_read", last - 1, 65_535));
    assert!(!admits("admit_read", last, 8));
    assert!(admits("admit_write", last, 65_535));
}
