//! Matches names against patterns with the rules of Redis' `MATCH`, so that a pattern means the same in every store.

/// Returns whether `pattern`, as in [`Backend::list`](super::Backend::list), matches the whole of `name`: `*` stands for any bytes, `?` for
/// one byte, `[a-z]` and `[^a-z]` for one byte of a set, and `\` takes the next byte literally.
///
/// ```
/// use fencepost::backend::name_matches;
///
/// assert!(name_matches("order:*", "order:42"));
/// assert!(!name_matches("order:?", "order:42"));
/// ```
///
/// The time is at most proportional to the product of both lengths: only the last `*` is ever reconsidered.
pub fn name_matches(pattern: &str, name: &str) -> bool {
    let (mut pattern, mut text) = (pattern.as_bytes(), name.as_bytes());
    // The pattern after the last `*`, and the text that this `*` has not consumed yet.
    let mut resume: Option<(&[u8], &[u8])> = None;
    loop {
        if let Some(rest) = pattern.strip_prefix(b"*") {
            pattern = rest;
            resume = Some((rest, text));
            continue;
        }
        match (one(pattern, text), resume) {
            (Step::End, _) => return true,
            (Step::On(after_pattern, after_text), _) => {
                (pattern, text) = (after_pattern, after_text)
            }
            (Step::Differs, Some((after_star, [_, unswallowed @ ..]))) => {
                (pattern, text) = (after_star, unswallowed);
                resume = Some((after_star, unswallowed));
            }
            (Step::Differs, _) => return false,
        }
    }
}

enum Step<'a> {
    /// Pattern and text end at the same time.
    End,
    /// One byte matched; these are the rests of pattern and text.
    On(&'a [u8], &'a [u8]),
    Differs,
}

/// Compares one byte of the text with the first element of the pattern, which is not a `*`.
fn one<'a>(pattern: &'a [u8], text: &'a [u8]) -> Step<'a> {
    let (Some((&first, mut rest)), Some((&byte, text_rest))) =
        (pattern.split_first(), text.split_first())
    else {
        return if pattern.is_empty() && text.is_empty() {
            Step::End
        } else {
            Step::Differs
        };
    };
    let is_match = match first {
        b'?' => true,
        b'[' => {
            let (contains, after) = set(rest, byte);
            rest = after;
            contains
        }
        // A backslash at the very end of the pattern stands for itself.
        b'\\' if !rest.is_empty() => {
            let literal = rest[0];
            rest = &rest[1..];
            literal == byte
        }
        literal => literal == byte,
    };
    if is_match {
        Step::On(rest, text_rest)
    } else {
        Step::Differs
    }
}

/// Returns whether the set at the start of `pattern` contains `byte`, and what follows its `]`. A set that is never closed ends
/// with the pattern.
fn set(pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    let (negated, mut rest) = match pattern.strip_prefix(b"^") {
        Some(rest) => (true, rest),
        None => (false, pattern),
    };
    let mut contains = false;
    loop {
        rest = match rest {
            [] => return (contains != negated, rest),
            [b']', after @ ..] => return (contains != negated, after),
            [b'\\', literal, after @ ..] => {
                contains |= *literal == byte;
                after
            }
            [from, b'-', to, after @ ..] => {
                contains |= (*from.min(to)..=*from.max(to)).contains(&byte);
                after
            }
            [literal, after @ ..] => {
                contains |= *literal == byte;
                after
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::name_matches as matches;

    #[test]
    fn patterns_mean_what_they_mean_to_redis() {
        let yes = [
            ("", ""),
            ("*", ""),
            ("**", "deploy"),
            ("lock:*", "lock:product:42"),
            ("*:42", "lock:product:42"),
            ("l*k:*4?", "lock:product:42"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("h[a-c]llo", "hbllo"),
            ("h[c-a]llo", "hbllo"),
            ("h[\\]]llo", "h]llo"),
            ("h\\*llo", "h*llo"),
            ("h[a", "ha"),
            ("end\\", "end\\"),
            ("ключ*", "ключ 锁"),
            ("*a*b*c*", "xxaxxbxxcxx"),
        ];
        for (pattern, text) in yes {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        let no = [
            ("", "a"),
            ("?", ""),
            ("lock:?", "lock:"),
            ("h[ae]llo", "hillo"),
            ("h[^e]llo", "hello"),
            ("h\\*llo", "hello"),
            ("deploy", "deploy2"),
            ("*a*b*c*", "xxaxxcxxbxx"),
            ("h[", "h"),
        ];
        for (pattern, text) in no {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn a_hostile_pattern_costs_little() {
        assert!(!matches(&"a*".repeat(2_000), &"a".repeat(255)));
        assert!(!matches(
            &format!("{}b", "*a".repeat(100)),
            &"a".repeat(255)
        ));
    }
}
