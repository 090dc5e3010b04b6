//! Texts of others in HTML pages.

use std::borrow::Cow;

use crate::plain;

/// Text for HTML, also within attributes in double quotes.
pub fn escape(text: &str) -> Cow<'_, str> {
    let text = plain::visible(text);
    if !text.contains(['&', '<', '>', '"']) {
        return text;
    }
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
    escaped.replace('>', "&gt;").replace('"', "&quot;").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_acts() {
        assert_eq!(escape("a <script>\"&\u{202e}"), "a &lt;script&gt;&quot;&amp;\\u{202e}");
        assert!(matches!(escape("plain"), Cow::Borrowed("plain")));
    }
}
