//! Raises the limit of open files for this process.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Makes sure that `wanted` files can be open at once, by raising the soft limit as far as the system allows.
///
/// Each child needs three pipes, and 1,024 files is a common soft limit.
///
/// # Errors
/// Returns the number of files that can be open if that is less than `wanted`.
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
