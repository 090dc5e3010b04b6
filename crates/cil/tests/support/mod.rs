//! Just enough of PE files and metadata tables to find the methods of an assembly and what their tokens mean. Sources:
//! ECMA-335 II.22, II.24 and II.25. Knows nothing of the crate's own structures, and panics on files that are not as
//! the framework's are.

use cil::{CallEffect, MethodShape, MethodSig, Token, TokenKind, Tokens, decode_locals};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use testkit::{Host, Runtime};

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// The framework's assemblies that hold metadata, by name.
pub fn framework(runtime: Runtime) -> Vec<PathBuf> {
    let Host::Muxer { framework, .. } = runtime.require().host() else { panic!("{runtime} has no framework folder") };
    let mut files: Vec<PathBuf> = fs::read_dir(&framework)
        .unwrap_or_else(|error| panic!("{}: {error}", framework.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "dll"))
        .collect();
    files.sort();
    files
}

/// Fields of the tables' rows. A number is a fixed width in bytes.
#[derive(Clone, Copy)]
enum Column {
    Fixed(usize),
    Strings,
    Guids,
    Blobs,
    Row(usize),
    /// Tag bits, tables.
    Coded(u32, &'static [usize]),
}

use Column::{Blobs as B, Coded, Fixed as F, Guids as G, Row as R, Strings as S};

const TYPE_DEF_OR_REF: Column = Coded(2, &[0x02, 0x01, 0x1b]);
const HAS_CONSTANT: Column = Coded(2, &[0x04, 0x08, 0x17]);
const HAS_CUSTOM_ATTRIBUTE: Column = Coded(
    5,
    &[
        0x06, 0x04, 0x01, 0x02, 0x08, 0x09, 0x0a, 0x00, 0x0e, 0x17, 0x14, 0x11, 0x1a, 0x1b, 0x20, 0x23, 0x26, 0x27,
        0x28, 0x2a, 0x2c, 0x2b,
    ],
);
const MEMBER_REF_PARENT: Column = Coded(3, &[0x02, 0x01, 0x1a, 0x06, 0x1b]);
const METHOD_DEF_OR_REF: Column = Coded(1, &[0x06, 0x0a]);

/// Tables 0x00 to 0x2b, by number.
const SCHEMA: [&[Column]; 0x2c] = [
    &[F(2), S, G, G, G],
    &[Coded(2, &[0x00, 0x1a, 0x23, 0x01]), S, S],
    &[F(4), S, S, TYPE_DEF_OR_REF, R(0x04), R(0x06)],
    &[R(0x04)],
    &[F(2), S, B],
    &[R(0x06)],
    &[F(4), F(2), F(2), S, B, R(0x08)],
    &[R(0x08)],
    &[F(2), F(2), S],
    &[R(0x02), TYPE_DEF_OR_REF],
    &[MEMBER_REF_PARENT, S, B],
    &[F(2), HAS_CONSTANT, B],
    &[HAS_CUSTOM_ATTRIBUTE, Coded(3, &[0x06, 0x0a]), B],
    &[Coded(1, &[0x04, 0x08]), B],
    &[F(2), Coded(2, &[0x02, 0x06, 0x20]), B],
    &[F(2), F(4), R(0x02)],
    &[F(4), R(0x04)],
    &[B],
    &[R(0x02), R(0x14)],
    &[R(0x14)],
    &[F(2), S, TYPE_DEF_OR_REF],
    &[R(0x02), R(0x17)],
    &[R(0x17)],
    &[F(2), S, B],
    &[F(2), R(0x06), Coded(1, &[0x14, 0x17])],
    &[R(0x02), METHOD_DEF_OR_REF, METHOD_DEF_OR_REF],
    &[S],
    &[B],
    &[F(2), Coded(1, &[0x04, 0x06]), S, R(0x1a)],
    &[F(4), R(0x04)],
    &[F(4), F(4)],
    &[F(4)],
    &[F(4), F(8), F(4), B, S, S],
    &[F(4)],
    &[F(12)],
    &[F(8), F(4), B, S, S, B],
    &[F(4), R(0x23)],
    &[F(12), R(0x23)],
    &[F(4), S, B],
    &[F(4), F(4), S, S, Coded(2, &[0x26, 0x23, 0x27])],
    &[F(4), F(4), S, Coded(2, &[0x26, 0x23, 0x27])],
    &[R(0x02), R(0x02)],
    &[F(2), F(2), Coded(1, &[0x02, 0x06]), S],
    &[METHOD_DEF_OR_REF, B],
];

/// A method with a body.
pub struct Method {
    pub token: Token,
    /// Where its header is in the file.
    pub at: usize,
    pub signature: MethodSig,
}

/// An assembly in memory.
pub struct Assembly {
    pub name: String,
    pub bytes: Vec<u8>,
    pub methods: Vec<Method>,
    /// Blobs of all method signatures: of `MethodDef`, `MemberRef` and stand-alone ones.
    pub method_signatures: Vec<Vec<u8>>,
    pub field_signatures: Vec<Vec<u8>>,
    pub property_signatures: Vec<Vec<u8>>,
    pub type_specs: Vec<Vec<u8>>,
    pub method_specs: Vec<Vec<u8>>,
    /// By row, from 0.
    pub local_signatures: HashMap<u32, Vec<u8>>,
    effects: HashMap<Token, CallEffect>,
}

impl Assembly {
    /// Reads an assembly; `None` if the file is a native library.
    pub fn read(path: &Path) -> Option<Assembly> {
        let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let pe = u32_at(&bytes, 0x3c) as usize;
        let sections = u16_at(&bytes, pe + 6) as usize;
        let optional = pe + 24;
        let directories = optional + if u16_at(&bytes, optional) == 0x20b { 112 } else { 96 };
        let headers = optional + u16_at(&bytes, pe + 20) as usize;
        let cli_header = u32_at(&bytes, directories + 14 * 8);
        if cli_header == 0 {
            return None;
        }
        let offset_of = |address: u32| -> usize {
            (0..sections)
                .map(|index| headers + index * 40)
                .find_map(|section| {
                    let start = u32_at(&bytes, section + 12);
                    let inside = address.checked_sub(start).filter(|&at| at < u32_at(&bytes, section + 16))?;
                    Some((u32_at(&bytes, section + 20) + inside) as usize)
                })
                .unwrap_or_else(|| panic!("{name}: {address:#x} is in no section"))
        };
        let root = offset_of(u32_at(&bytes, offset_of(cli_header) + 8));
        let streams = streams(&bytes, root);
        let tables = Tables::read(&bytes, streams["#~"]);
        let blob = |index: u32| blob(&bytes, streams["#Blob"].0 + index as usize).to_vec();

        let mut effects = HashMap::new();
        let mut methods = Vec::new();
        let mut method_signatures = Vec::new();
        for row in 0..tables.rows[0x06] {
            let signature_blob = blob(tables.get(0x06, row, 4));
            let signature = MethodSig::decode(&signature_blob).unwrap();
            method_signatures.push(signature_blob);
            let token = Token::new(TokenKind::MethodDef, row + 1);
            effects.insert(token, signature.call_effect());
            let (address, flags) = (tables.get(0x06, row, 0), tables.get(0x06, row, 1));
            // Of the code types, only 0 is IL.
            if address != 0 && flags & 3 == 0 {
                methods.push(Method { token, at: offset_of(address), signature });
            }
        }
        let mut field_signatures: Vec<Vec<u8>> =
            (0..tables.rows[0x04]).map(|row| blob(tables.get(0x04, row, 2))).collect();
        for row in 0..tables.rows[0x0a] {
            let signature = blob(tables.get(0x0a, row, 2));
            if signature[0] & 0xf == 6 {
                field_signatures.push(signature);
            } else {
                let effect = MethodSig::decode(&signature).unwrap().call_effect();
                effects.insert(Token::new(TokenKind::MemberRef, row + 1), effect);
                method_signatures.push(signature);
            }
        }
        let mut local_signatures = HashMap::new();
        for row in 0..tables.rows[0x11] {
            let signature = blob(tables.get(0x11, row, 0));
            match signature[0] & 0xf {
                7 => drop(local_signatures.insert(row, signature)),
                6 => field_signatures.push(signature),
                _ => {
                    let effect = MethodSig::decode(&signature).unwrap().call_effect();
                    effects.insert(Token::new(TokenKind::Signature, row + 1), effect);
                    method_signatures.push(signature);
                }
            }
        }
        let mut method_specs = Vec::new();
        for row in 0..tables.rows[0x2b] {
            let coded = tables.get(0x2b, row, 0);
            let kind = if coded & 1 == 0 { TokenKind::MethodDef } else { TokenKind::MemberRef };
            let effect = effects[&Token::new(kind, coded >> 1)];
            effects.insert(Token::new(TokenKind::MethodSpec, row + 1), effect);
            method_specs.push(blob(tables.get(0x2b, row, 1)));
        }
        let property_signatures = (0..tables.rows[0x17]).map(|row| blob(tables.get(0x17, row, 2))).collect();
        let type_specs = (0..tables.rows[0x1b]).map(|row| blob(tables.get(0x1b, row, 0))).collect();
        Some(Assembly {
            name,
            methods,
            method_signatures,
            field_signatures,
            property_signatures,
            type_specs,
            method_specs,
            local_signatures,
            effects,
            bytes,
        })
    }

    /// The bytes from the header of a method on.
    pub fn body_bytes(&self, method: &Method) -> &[u8] {
        &self.bytes[method.at..]
    }

    /// What the signatures say of a method whose header has this local signature.
    pub fn shape(&self, method: &Method, locals: Token) -> MethodShape {
        let effect = method.signature.call_effect();
        let locals = self.locals(locals).map_or(0, |blob| decode_locals(blob).unwrap().len());
        MethodShape {
            arguments: effect.parameters + u16::from(effect.has_this),
            locals: locals.try_into().unwrap(),
            returns: effect.returns,
        }
    }

    /// The signature behind the token in a header.
    pub fn locals(&self, token: Token) -> Option<&[u8]> {
        let row = token.rid().checked_sub(1)?;
        Some(self.local_signatures.get(&row).unwrap_or_else(|| panic!("{}: {token} has no locals", self.name)))
    }
}

impl Tokens for Assembly {
    fn call_effect(&self, token: Token) -> Option<CallEffect> {
        self.effects.get(&token).copied()
    }
}

/// Streams by name: where they start and how long they are.
fn streams(bytes: &[u8], root: usize) -> HashMap<String, (usize, usize)> {
    assert_eq!(&bytes[root..root + 4], b"BSJB");
    let mut at = root + 16 + u32_at(bytes, root + 12) as usize;
    let count = u16_at(bytes, at + 2);
    at += 4;
    let mut streams = HashMap::new();
    for _ in 0..count {
        let place = (root + u32_at(bytes, at) as usize, u32_at(bytes, at + 4) as usize);
        let length = bytes[at + 8..].iter().position(|&byte| byte == 0).unwrap();
        streams.insert(String::from_utf8(bytes[at + 8..at + 8 + length].to_vec()).unwrap(), place);
        at += 8 + (length + 4) / 4 * 4;
    }
    streams
}

fn blob(bytes: &[u8], at: usize) -> &[u8] {
    let first = bytes[at] as usize;
    let (length, at) = match first >> 5 {
        0..=3 => (first, at + 1),
        4 | 5 => ((first & 0x3f) << 8 | bytes[at + 1] as usize, at + 2),
        _ => ((first & 0x1f) << 24 | (u32_at(bytes, at).swap_bytes() & 0xff_ffff) as usize, at + 4),
    };
    &bytes[at..at + length]
}

struct Tables<'a> {
    bytes: &'a [u8],
    rows: [u32; 64],
    starts: Vec<usize>,
    widths: Vec<Vec<usize>>,
}

impl<'a> Tables<'a> {
    fn read(bytes: &'a [u8], (start, _): (usize, usize)) -> Self {
        let heaps = bytes[start + 6];
        let present = u64::from_le_bytes(bytes[start + 8..start + 16].try_into().unwrap());
        let mut rows = [0; 64];
        let mut at = start + 24;
        for (table, rows) in rows.iter_mut().enumerate() {
            if present >> table & 1 != 0 {
                *rows = u32_at(bytes, at);
                at += 4;
            }
        }
        let wide = |wide: bool| if wide { 4 } else { 2 };
        let width = |column: &Column| match *column {
            F(size) => size,
            S => wide(heaps & 1 != 0),
            G => wide(heaps & 2 != 0),
            B => wide(heaps & 4 != 0),
            R(table) => wide(rows[table] > 0xffff),
            Coded(bits, tables) => wide(tables.iter().any(|&table| rows[table] >= 1 << (16 - bits))),
        };
        let widths: Vec<Vec<usize>> = SCHEMA.iter().map(|columns| columns.iter().map(width).collect()).collect();
        let mut starts = Vec::new();
        for (table, widths) in widths.iter().enumerate() {
            starts.push(at);
            at += rows[table] as usize * widths.iter().sum::<usize>();
        }
        Self { bytes, rows, starts, widths }
    }

    /// A field; rows count from 0.
    fn get(&self, table: usize, row: u32, column: usize) -> u32 {
        let widths = &self.widths[table];
        let at =
            self.starts[table] + row as usize * widths.iter().sum::<usize>() + widths[..column].iter().sum::<usize>();
        if widths[column] == 2 { u16_at(self.bytes, at).into() } else { u32_at(self.bytes, at) }
    }
}
