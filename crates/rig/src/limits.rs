//! What the system allows this process.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Sees to it that `wanted` files can be open at once, raising the soft limit as far as the system allows.
///
/// Three pipes lead to each child, and 1,024 files is a common soft limit.
///
/// # Errors
/// The number of files that can be open, when that is fewer than `wanted`.
pub fn allow_open_files(wanted: u64) -> Result<(), u64> {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return Ok(());
    };
    if soft >= wanted {
        return Ok(());
    }
    let raised = wanted.min(hard);
    if raised < wanted || setrlimit(Resource::RLIMIT_NOFILE, raised, hard).is_err() {
        return Err(hard.min(raised));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_already_stays_and_the_impossible_is_refused() {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert_eq!(allow_open_files(16), Ok(()));
        if hard < u64::MAX {
            assert_eq!(allow_open_files(hard + 1), Err(hard));
        }
    }
}
