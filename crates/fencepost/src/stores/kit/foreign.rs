//! What another program wrote about itself where we write a note about a lock.

/// The longest label of another program that is shown.
const BYTES_MAX: usize = 255;

/// Returns the text, if it can be a label: Curator's host name, for example, or the value of a leader. Otherwise returns the empty label.
pub(crate) fn foreign_label(data: &[u8]) -> &str {
    let text = std::str::from_utf8(data).unwrap_or_default();
    let is_label = text.len() <= BYTES_MAX && !text.chars().any(char::is_control);
    if is_label { text } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cannot_pose_as_something_else_is_a_label() {
        assert_eq!(foreign_label(b"10.0.0.7"), "10.0.0.7");
        let long = "x".repeat(256);
        for data in [&b"\x1b[31m"[..], b"two\nlines", b"\xff", long.as_bytes()] {
            assert_eq!(foreign_label(data), "");
        }
    }
}
