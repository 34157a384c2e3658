//! The order of fences: each is compared as a number, however it is written.

use fencepost::Fence;

/// A fence as a number: its epoch, and its position under that epoch.
pub(crate) type FenceNumber = (u128, u16);

/// Returns a fence, which is `epoch.seq` or a plain number, as a number. Returns `None` if it is neither.
pub(crate) fn fence_number(text: &str) -> Option<FenceNumber> {
    match text.parse::<Fence>() {
        Ok(fence) => Some((u128::from(fence.epoch()), fence.seq())),
        Err(_) => text.parse::<u128>().ok().map(|number| (number, 0)),
    }
}

/// Compares two fences. Returns `None` if one of them is not a number.
pub(crate) fn compare(one: &str, other: &str) -> Option<std::cmp::Ordering> {
    Some(fence_number(one)?.cmp(&fence_number(other)?))
}

/// Returns how a fence relates to the highest one: `<`, `=` or `>`, or `!=` if the two cannot be compared. A missing fence is below
/// all others.
pub(crate) fn relation_sign(fence: Option<&str>, highest: &str) -> &'static str {
    match fence.map(|fence| compare(fence, highest)) {
        None | Some(Some(std::cmp::Ordering::Less)) => "<",
        Some(Some(std::cmp::Ordering::Equal)) => "=",
        Some(Some(std::cmp::Ordering::Greater)) => ">",
        Some(None) => "!=",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_are_numbers_not_words() {
        use std::cmp::Ordering;
        assert_eq!(compare("9.0", "10.0"), Some(Ordering::Less));
        assert_eq!(compare("7", "6.3"), Some(Ordering::Greater));
        assert_eq!(compare("7", "7.0"), Some(Ordering::Equal));
        assert_eq!(compare("seven", "7.0"), None);
    }

    #[test]
    fn a_sign_says_how_fences_relate() {
        for (fence, sign) in [
            (Some("9.0"), "<"),
            (Some("10.0"), "="),
            (Some("10"), "="),
            (Some("10.1"), ">"),
            (Some("eleven"), "!="),
            (None, "<"),
        ] {
            assert_eq!(relation_sign(fence, "10.0"), sign, "{fence:?}");
        }
    }
}
