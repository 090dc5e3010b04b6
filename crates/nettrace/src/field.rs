//! Events that describe their own fields.

use crate::cursor::Cursor;

/// Longest name or text, in UTF-16 units.
const MAX_TEXT: usize = 1 << 16;
/// Most fields of an event, and how deep they may nest.
const MAX_FIELDS: u32 = 256;
const MAX_DEPTH: u32 = 8;

/// A field of an event, as its description has it (`System.TypeCode`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub ty: FieldType,
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// Other fields, one after another.
    Object(Vec<Field>),
    /// A number or a text of this `System.TypeCode`.
    Simple(u32),
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number, and a truth as 0 or 1.
    Integer(i64),
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
}

impl Value {
    /// As a number.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(integer) => Some(*integer as f64),
            Self::Number(number) => Some(*number),
            Self::Text(_) => None,
        }
    }

    /// As a text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Integer(_) | Self::Number(_) => None,
        }
    }
}

impl Field {
    /// Count, then type, what an object is made of, and name of each (EventPipeFormat.md of
    /// microsoft/perfview). `None` for what is cut short, and for types that are not read here.
    pub(crate) fn parse_all(cursor: &mut Cursor<'_>, depth: u32) -> Option<Vec<Self>> {
        let count = cursor.u32().filter(|count| *count <= MAX_FIELDS && depth < MAX_DEPTH)?;
        let mut fields = Vec::new();
        for _ in 0..count {
            let ty = match cursor.u32()? {
                1 => FieldType::Object(Self::parse_all(cursor, depth + 1)?),
                code @ (3..=14 | 16 | 18) => FieldType::Simple(code),
                _ => return None,
            };
            fields.push(Self { name: cursor.utf16z(MAX_TEXT)?, ty });
        }
        Some(fields)
    }

    /// Reads the values of fields, those of objects in their place. `None` if the payload ends too
    /// soon.
    pub fn read<'a>(fields: &'a [Self], payload: &[u8]) -> Option<Vec<(&'a str, Value)>> {
        let mut values = Vec::new();
        read_into(fields, &mut Cursor(payload), &mut values)?;
        Some(values)
    }
}

fn read_into<'a>(
    fields: &'a [Field],
    cursor: &mut Cursor<'_>,
    out: &mut Vec<(&'a str, Value)>,
) -> Option<()> {
    for field in fields {
        let value = match &field.ty {
            FieldType::Object(inner) => {
                read_into(inner, cursor, out)?;
                continue;
            }
            FieldType::Simple(code) => match code {
                // A truth takes four bytes in this format.
                3 => Value::Integer(i64::from(cursor.u32()? != 0)),
                4 | 8 => Value::Integer(cursor.u16()?.into()),
                5 => Value::Integer(cursor.u8()?.cast_signed().into()),
                6 => Value::Integer(cursor.u8()?.into()),
                7 => Value::Integer(cursor.u16()?.cast_signed().into()),
                9 => Value::Integer(cursor.u32()?.cast_signed().into()),
                10 => Value::Integer(cursor.u32()?.into()),
                // A date is a number of 100 ns since 1601.
                11 | 16 => Value::Integer(cursor.u64()?.cast_signed()),
                12 => Value::Number(cursor.u64()? as f64),
                13 => Value::Number(f32::from_bits(cursor.u32()?).into()),
                14 => Value::Number(f64::from_bits(cursor.u64()?)),
                _ => Value::Text(cursor.utf16z(MAX_TEXT)?),
            },
        };
        out.push((&field.name, value));
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(text: &str) -> Vec<u8> {
        text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn fields_of_objects_stand_in_their_place() {
        let mut description = Vec::new();
        let mut put =
            |parts: &[&[u8]]| parts.iter().for_each(|part| description.extend_from_slice(part));
        put(&[&2_u32.to_le_bytes(), &9_u32.to_le_bytes(), &utf16("A")]);
        put(&[&1_u32.to_le_bytes(), &2_u32.to_le_bytes()]);
        put(&[
            &18_u32.to_le_bytes(),
            &utf16("Name"),
            &14_u32.to_le_bytes(),
            &utf16("Mean"),
            &utf16("Payload"),
        ]);
        let fields = Field::parse_all(&mut Cursor(&description), 0).unwrap();
        let payload =
            [(-7_i32).to_le_bytes().as_slice(), &utf16("cpu"), &2.5_f64.to_le_bytes()].concat();
        let values = Field::read(&fields, &payload).unwrap();
        let expected = [
            ("A", Value::Integer(-7)),
            ("Name", Value::Text("cpu".into())),
            ("Mean", Value::Number(2.5)),
        ];
        assert_eq!(values, expected);
        for cut in 0..payload.len() {
            assert_eq!(Field::read(&fields, &payload[..cut]), None, "{cut}");
        }
        for cut in 0..description.len() {
            assert_eq!(Field::parse_all(&mut Cursor(&description[..cut]), 0), None, "{cut}");
        }
    }

    #[test]
    fn numbers_of_all_sizes() {
        let fields: Vec<Field> = [3, 5, 7, 10, 13, 16]
            .map(|code| Field { name: code.to_string(), ty: FieldType::Simple(code) })
            .into();
        let payload = [
            [1, 0, 0, 0].as_slice(),
            &[0xff],
            &[0xfe, 0xff],
            &u32::MAX.to_le_bytes(),
            &0.5_f32.to_le_bytes(),
            &77_u64.to_le_bytes(),
        ];
        let values = Field::read(&fields, &payload.concat()).unwrap();
        let numbers: Vec<f64> = values.iter().map(|(_, value)| value.number().unwrap()).collect();
        assert_eq!(numbers, [1.0, -1.0, -2.0, f64::from(u32::MAX), 0.5, 77.0]);
    }

    #[test]
    fn what_nests_for_ever_is_refused() {
        let nested: Vec<u8> = [1_u32, 1].map(u32::to_le_bytes).concat().repeat(100);
        assert_eq!(Field::parse_all(&mut Cursor(&nested), 0), None);
        assert_eq!(Field::parse_all(&mut Cursor(&u32::MAX.to_le_bytes()), 0), None);
    }
}
