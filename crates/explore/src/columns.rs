use serde::Serialize;

/// A column of numbers of one kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Bytes.
    U8(Vec<u8>),
    /// Whole numbers.
    U32(Vec<u32>),
    /// Numbers with about 7 digits.
    F32(Vec<f32>),
    /// Numbers with about 15 digits.
    F64(Vec<f64>),
}

/// An answer of a head in JSON and columns behind it, so that a program can use the columns where
/// they are.
///
/// ```text
/// "CLRC"  4 bytes
/// u32     bytes of the head
/// head    JSON, with spaces at its end, so that the data begins at a multiple of 8
/// data    the columns, each at a multiple of 8 bytes
/// ```
///
/// Numbers are little-endian. The head is an object. Its `columns` say of each column the name, the
/// `type` (`u8`, `u32`, `f32` or `f64`), the `offset` in bytes from the beginning of the data, and
/// the `length` in numbers.
#[derive(Clone, Debug)]
pub struct Columns {
    /// An object.
    head: serde_json::Value,
    columns: Vec<(&'static str, Column)>,
}

#[derive(Serialize)]
struct Described {
    name: &'static str,
    r#type: &'static str,
    offset: usize,
    length: usize,
}

impl Column {
    fn kind(&self) -> &'static str {
        match self {
            Column::U8(_) => "u8",
            Column::U32(_) => "u32",
            Column::F32(_) => "f32",
            Column::F64(_) => "f64",
        }
    }

    fn len(&self) -> usize {
        match self {
            Column::U8(values) => values.len(),
            Column::U32(values) => values.len(),
            Column::F32(values) => values.len(),
            Column::F64(values) => values.len(),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Column::U8(values) => out.extend(values),
            Column::U32(values) => out.extend(values.iter().flat_map(|value| value.to_le_bytes())),
            Column::F32(values) => out.extend(values.iter().flat_map(|value| value.to_le_bytes())),
            Column::F64(values) => out.extend(values.iter().flat_map(|value| value.to_le_bytes())),
        }
    }
}

impl Columns {
    /// The media type.
    pub const MEDIA_TYPE: &'static str = "application/vnd.clrscope.columns";

    /// What the bytes begin with.
    pub const MAGIC: [u8; 4] = *b"CLRC";

    /// An answer with this head, which must be an object.
    ///
    /// # Errors
    /// Those of [`serde_json`], when the head cannot be written as JSON.
    pub fn new(
        head: &impl Serialize,
        columns: Vec<(&'static str, Column)>,
    ) -> Result<Self, serde_json::Error> {
        Ok(Self { head: serde_json::to_value(head)?, columns })
    }

    /// The head without the description of the columns.
    pub fn head(&self) -> &serde_json::Value {
        &self.head
    }

    /// The column of this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|(own, _)| *own == name).map(|(_, column)| column)
    }

    /// All of it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (mut data, mut described) = (Vec::new(), Vec::new());
        for (name, column) in &self.columns {
            data.resize(data.len().next_multiple_of(8), 0);
            let (offset, length) = (data.len(), column.len());
            described.push(Described { name, r#type: column.kind(), offset, length });
            column.write(&mut data);
        }
        let mut head = self.head.clone();
        head["columns"] = serde_json::json!(described);
        let mut head = head.to_string().into_bytes();
        head.resize(head.len().next_multiple_of(8), b' ');
        let mut bytes = Self::MAGIC.to_vec();
        bytes.extend((head.len() as u32).to_le_bytes());
        bytes.extend(head);
        bytes.extend(data);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_where_the_head_says() {
        let columns = vec![
            ("a", Column::U8(vec![1, 2, 3])),
            ("b", Column::F64(vec![0.5, -1.0])),
            ("c", Column::U32(vec![7])),
            ("d", Column::F32(vec![2.5])),
        ];
        for text in ["", "x", "longer text ü"] {
            let answer =
                Columns::new(&serde_json::json!({ "text": text }), columns.clone()).unwrap();
            let bytes = answer.to_bytes();
            assert_eq!(&bytes[..4], b"CLRC");
            let length = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
            assert_eq!((8 + length) % 8, 0);
            let head: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
            assert_eq!(head["text"], text);
            let data = &bytes[8 + length..];
            let at = |index: usize| head["columns"][index]["offset"].as_u64().unwrap() as usize;
            assert!((0..4).all(|index| at(index) % 8 == 0));
            assert_eq!(&data[at(0)..at(0) + 3], [1, 2, 3]);
            assert_eq!(data[at(1) + 8..at(1) + 16], (-1.0_f64).to_le_bytes());
            assert_eq!(data[at(2)..at(2) + 4], 7_u32.to_le_bytes());
            assert_eq!(data[at(3)..], 2.5_f32.to_le_bytes());
            assert_eq!(head["columns"][3]["type"], "f32");
        }
    }
}
