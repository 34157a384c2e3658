//! Percent-decoding (`%2F`) of addresses, and of what stores keep in this form.

/// Decodes a text. Returns `None` if a percent sign is not followed by two hexadecimal digits, or if the bytes are not UTF-8.
pub(crate) fn decode(text: &str) -> Option<String> {
    String::from_utf8(decode_bytes(text)?).ok()
}

/// Decodes a text into bytes, which need not be UTF-8. Returns `None` if a percent sign is not followed by two hexadecimal digits.
pub(crate) fn decode_bytes(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        // `from_str_radix` would accept a sign.
        let digits = std::str::from_utf8(digits)
            .ok()
            .filter(|digits| !digits.starts_with('+'))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_two_digits() {
        assert_eq!(decode("a%20b%C3%A4").as_deref(), Some("a bä"));
        for wrong in ["%", "%2", "%zz", "%ff", "%+f"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
        assert_eq!(decode_bytes("a%ff"), Some(vec![b'a', 0xff]));
        assert_eq!(decode_bytes("%+f"), None);
    }
}
