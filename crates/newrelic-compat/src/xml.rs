//! XML files as trees of elements, as the agent's files need them.
//!
//! Names are compared case-insensitively. Namespaces are not resolved: a default namespace changes
//! nothing, and a prefix is part of the name. Entities of document types are never expanded.

use quick_xml::Reader;
use quick_xml::escape::{resolve_predefined_entity, unescape_with};
use quick_xml::events::{BytesStart, Event};

/// Larger files are refused, in bytes. The largest that the agent comes with has 100 kB.
pub const MAX_FILE: usize = 16 << 20;

/// Deeper nesting is refused.
const MAX_DEPTH: usize = 256;

/// Why a file is no XML.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum XmlError {
    /// It is not encoded as UTF-8.
    #[error("the file is not UTF-8, from byte {offset} on")]
    Encoding {
        /// The first byte that does not fit.
        offset: usize,
    },
    /// It is larger than [`MAX_FILE`].
    #[error("the file has {size} bytes, more than {MAX_FILE}")]
    TooLarge {
        /// Its size in bytes.
        size: usize,
    },
    /// Elements are nested too deeply.
    #[error("elements are nested more than {MAX_DEPTH} deep")]
    TooDeep,
    /// Something in it is malformed.
    #[error("{problem} at byte {offset}")]
    Malformed {
        /// What.
        problem: String,
        /// Where.
        offset: u64,
    },
    /// It ends inside an element.
    #[error("the file ends inside the element {name}")]
    Unclosed {
        /// Its name.
        name: String,
    },
}

/// An element with those in it. Text is not kept: no file of the agent's has any that counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    children: Vec<Element>,
}

impl Element {
    /// The value of an attribute, if it is there.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes
            .iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The elements in it with this name.
    pub fn children<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Self> {
        self.children.iter().filter(move |child| child.name.eq_ignore_ascii_case(name))
    }

    /// The first of them.
    #[must_use]
    pub fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name.eq_ignore_ascii_case(name))
    }
}

/// Text from the bytes of a file: UTF-8, with or without a byte order mark.
///
/// # Errors
/// The bytes are none, or too many.
pub fn decode(bytes: &[u8]) -> Result<&str, XmlError> {
    if bytes.len() > MAX_FILE {
        return Err(XmlError::TooLarge { size: bytes.len() });
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    str::from_utf8(bytes).map_err(|error| XmlError::Encoding { offset: error.valid_up_to() })
}

/// Reads a document. The result is an element without a name that holds the outermost ones.
///
/// # Errors
/// The text is not XML.
pub fn parse(text: &str) -> Result<Element, XmlError> {
    if text.len() > MAX_FILE {
        return Err(XmlError::TooLarge { size: text.len() });
    }
    let mut reader = Reader::from_str(text.strip_prefix('\u{feff}').unwrap_or(text));
    let mut open = vec![Element::default()];
    loop {
        let event = reader.read_event().map_err(|error| malformed(&error, &reader))?;
        match event {
            Event::Start(start) => {
                if open.len() > MAX_DEPTH {
                    return Err(XmlError::TooDeep);
                }
                open.push(element(&start, &reader)?);
            }
            Event::Empty(start) => {
                let element = element(&start, &reader)?;
                if let Some(parent) = open.last_mut() {
                    parent.children.push(element);
                }
            }
            Event::End(_) => {
                if let (Some(element), Some(parent)) = (open.pop(), open.last_mut()) {
                    parent.children.push(element);
                }
            }
            Event::Eof => break,
            _ => {}
        }
    }
    match (open.pop(), open.pop()) {
        (Some(document), None) => Ok(document),
        (element, _) => Err(XmlError::Unclosed { name: element.unwrap_or_default().name }),
    }
}

fn malformed(error: &impl ToString, reader: &Reader<&[u8]>) -> XmlError {
    XmlError::Malformed { problem: error.to_string(), offset: reader.error_position() }
}

fn element(start: &BytesStart<'_>, reader: &Reader<&[u8]>) -> Result<Element, XmlError> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut element = Element { name: text(start.name().as_ref()), ..Element::default() };
    for attribute in start.attributes().with_checks(false) {
        let attribute = attribute.map_err(|error| XmlError::Malformed {
            problem: error.to_string(),
            offset: reader.buffer_position(),
        })?;
        let raw = text(&attribute.value);
        // What is no entity that XML defines stays as it is.
        let value = unescape_with(&raw, resolve_predefined_entity)
            .map(|value| value.into_owned())
            .unwrap_or(raw.clone());
        element.attributes.push((text(attribute.key.as_ref()), value));
    }
    Ok(element)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_in_any_case() {
        let document = parse(
            "<?xml version='1.0'?><!-- c --><A xmlns='urn:x' B='1'><c D=\"2\"/><C/><x:c/></A>",
        )
        .unwrap();
        let a = document.child("a").unwrap();
        assert_eq!(a.attribute("b"), Some("1"));
        assert_eq!(a.children("c").count(), 2);
        assert_eq!(a.child("C").unwrap().attribute("d"), Some("2"));
        assert_eq!(a.attribute("missing"), None);
    }

    #[test]
    fn entities() {
        let document = parse("<a b='&lt;&amp;&quot;&apos;&#65;&#x42;' c='&unknown; &'/>").unwrap();
        let a = document.child("a").unwrap();
        assert_eq!(a.attribute("b"), Some("<&\"'AB"));
        assert_eq!(a.attribute("c"), Some("&unknown; &"));
    }

    #[test]
    fn entities_of_document_types_are_not_expanded() {
        let text = "<!DOCTYPE a [<!ENTITY x \"0123456789\"><!ENTITY y \"&x;&x;&x;&x;\">]><a \
            b='&y;'>&y;</a>";
        assert_eq!(parse(text).unwrap().child("a").unwrap().attribute("b"), Some("&y;"));
    }

    #[test]
    fn malformed_files() {
        assert_eq!(parse("<a><b></b>"), Err(XmlError::Unclosed { name: "a".to_owned() }));
        for text in ["<a></b>", "<a", "<a b=1/>", "</a>", "<a b='1/>", "<!-- "] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse(&"<a>".repeat(300)), Err(XmlError::TooDeep));
        assert_eq!(parse("").unwrap(), Element::default());
    }

    #[test]
    fn encodings() {
        assert_eq!(decode(b"\xef\xbb\xbf<a/>"), Ok("<a/>"));
        assert_eq!(decode("<\u{65e5}/>".as_bytes()), Ok("<\u{65e5}/>"));
        assert_eq!(decode(b"<a>\xff"), Err(XmlError::Encoding { offset: 3 }));
        assert_eq!(decode(b"\xff\xfe<\0"), Err(XmlError::Encoding { offset: 0 }));
        let huge = vec![b' '; MAX_FILE + 1];
        assert_eq!(decode(&huge), Err(XmlError::TooLarge { size: MAX_FILE + 1 }));
    }

    proptest! {
        #[test]
        fn any_text_is_a_document_or_an_error(text in "[<>/a='\" !?&;\\-\\[\\]]{0,60}") {
            let _ = parse(&text);
        }
    }
}
