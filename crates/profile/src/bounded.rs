//! Names of a bounded length.

/// Bytes of a text that is kept of a name, a path and the like. Longer ones are cut, and say by how
/// much: the longest names that compilers make are of some kilobytes.
const MOST_TEXT: usize = 16 << 10;

/// A name, without the end if it is longer than any name.
pub(crate) fn cut(text: &str) -> String {
    if text.len() <= MOST_TEXT {
        return text.to_owned();
    }
    let mut end = MOST_TEXT;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let (kept, rest) = text.split_at(end);
    format!("{kept}…[{} more bytes]", rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_and_say_so() {
        assert_eq!(cut("Shop.Load"), "Shop.Load");
        let long = cut(&"é".repeat(MOST_TEXT));
        assert!(long.len() < MOST_TEXT + 40, "{}", long.len());
        assert!(long.ends_with(&format!("…[{MOST_TEXT} more bytes]")), "{}", &long[MOST_TEXT..]);
    }
}
