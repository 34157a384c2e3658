//! Maps lock names to the numbers of advisory locks.
//!
//! Advisory locks are 64-bit numbers. The number of a name is the first eight bytes of its SHA-256 as a signed big-endian integer. Anybody
//! can compute it; in SQL:
//!
//! ```sql
//! select ('x' || encode(substr(sha256(convert_to('stock', 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint
//! ```
//!
//! A name of the form `#123` or `#-5` is that number itself, for locks whose numbers other programs have chosen. Two names with the same
//! number exclude each other, which is safe; the probability for a pair of names is 1 in 2⁶⁴.

use sha2::{Digest, Sha256};

use crate::claim::LockName;
use crate::error::{Error, Result};

/// Returns the number that stands for a name.
///
/// # Errors
/// Returns [`InvalidInput`](crate::ErrorKind::InvalidInput) for `#` and digits that are not a 64-bit number in its shortest form.
pub(crate) fn key_of(name: &LockName) -> Result<i64> {
    let text = name.as_str();
    if let Some(digits) = raw(text) {
        let number = digits.parse::<i64>().ok();
        return number
            .filter(|number| number.to_string() == digits)
            .ok_or_else(|| {
                Error::invalid(format!(
                    "{text:?} looks like the number of an advisory lock, but is not one: # and -9223372036854775808 to 9223372036854775807, without leading zeros"
                ))
            });
    }
    let digest = Sha256::digest(text.as_bytes());
    let (first, _) = digest.split_first_chunk::<8>().expect("it has 32 bytes");
    Ok(i64::from_be_bytes(*first))
}

/// Returns the name of a lock of which only the number is known.
pub(super) fn name_of(key: i64) -> String {
    format!("#{key}")
}

fn raw(name: &str) -> Option<&str> {
    let number = name.strip_prefix('#')?;
    let digits = number.strip_prefix('-').unwrap_or(number);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Result<i64> {
        key_of(&LockName::new(name).unwrap())
    }

    /// Others compute the same numbers: these must never change.
    #[test]
    fn the_number_of_a_name_is_for_ever() {
        assert_eq!(key("stock").unwrap(), 631669616440530472);
        assert_eq!(key("ключ").unwrap(), 2153681812738117024);
    }

    #[test]
    fn a_number_stands_for_itself() {
        assert_eq!(key("#123").unwrap(), 123);
        assert_eq!(key("#-5").unwrap(), -5);
        assert_eq!(key("#0").unwrap(), 0);
        assert_eq!(key(&name_of(i64::MIN)).unwrap(), i64::MIN);
        for odd in ["#007", "#-0", "#9223372036854775808"] {
            assert!(key(odd).is_err(), "{odd}");
        }
        for name in ["#", "#-", "#12a", "# 12", "12"] {
            assert!(key(name).is_ok(), "{name}");
            assert_ne!(key(name).unwrap(), 12);
        }
    }
}
