//! What the managed agent understands, told from the metadata of `NewRelic.Agent.Core.dll`.
//!
//! Injected code names members of that file. Where those are not as expected the program runs on,
//! but nothing is traced, and no error is reported. So the file decides, not a version number.

use cil::{MethodSig, Token, TokenKind};
use metadata::{Metadata, column, table};
use std::fmt;
use std::str::FromStr;

/// Simple file name of the managed agent.
pub const AGENT_FILE: &str = "NewRelic.Agent.Core.dll";

const SHIM_SPACE: &str = "NewRelic.Agent.Core";
const SHIM_NAME: &str = "AgentShim";
/// Starts a tracer; its number of parameters is that of the slots of the array that describes a
/// call.
const START: &str = "GetFinishTracerDelegate";
/// Returns a delegate for it; only newer agents have it.
const START_DELEGATE: &str = "GetFinishTracerDelegateFunc";

/// A group of agent versions that injected code talks to in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AgentShape {
    /// Up to 10.53: 11 slots, reflection at each call on .NET Core.
    V10_53,
    /// 10.54: 11 slots, helper methods in the core library.
    V10_54,
    /// 10.55 and later: 12 slots, delegates.
    V10_55,
}

impl fmt::Display for AgentShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V10_53 => "10.53",
            Self::V10_54 => "10.54",
            Self::V10_55 => "10.55",
        })
    }
}

/// What the file of a managed agent shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shim {
    /// The shape.
    pub shape: AgentShape,
    /// The `MethodDef` of the method that starts tracers, in that file.
    pub start: Token,
}

/// Which shape to assume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShapeChoice {
    /// The one that the file shows.
    #[default]
    Auto,
    /// This one, whatever the file shows.
    Fixed(AgentShape),
}

/// A text names no shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an agent shape: write auto, 10.53, 10.54 or 10.55")]
pub struct ShapeChoiceError;

impl FromStr for ShapeChoice {
    type Err = ShapeChoiceError;

    fn from_str(text: &str) -> Result<Self, ShapeChoiceError> {
        Ok(match text {
            "auto" => Self::Auto,
            "10.53" => Self::Fixed(AgentShape::V10_53),
            "10.54" => Self::Fixed(AgentShape::V10_54),
            "10.55" => Self::Fixed(AgentShape::V10_55),
            _ => return Err(ShapeChoiceError),
        })
    }
}

/// Why a file shows no known shape. [`AgentShape::V10_53`] is assumed then, with a warning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// It is no .NET assembly, or not a whole one.
    #[error("the file is no whole .NET assembly: {0}")]
    Unreadable(#[from] metadata::Error),
    /// It is an assembly without the type that starts tracers.
    #[error("the assembly has no type {SHIM_SPACE}.{SHIM_NAME} with a method {START}")]
    NoShim,
    /// The method that starts tracers has a number of parameters that no known agent has.
    #[error("{SHIM_SPACE}.{SHIM_NAME}.{START} has {parameters} parameters; known are 11 and 12")]
    UnknownShim {
        /// How many it has.
        parameters: usize,
    },
}

/// What the agent's file shows that has these bytes.
///
/// # Errors
/// The file shows no known shape.
pub fn of_file(bytes: &[u8]) -> Result<Shim, ShapeError> {
    of_metadata(&Metadata::of_file(bytes)?)
}

/// What the file of the agent with these metadata shows.
///
/// # Errors
/// They show no known shape.
pub fn of_metadata(metadata: &Metadata<'_>) -> Result<Shim, ShapeError> {
    let is = |row, column, wanted: &str| {
        metadata.name(table::TYPE_DEF, row, column).is_some_and(|name| name == wanted)
    };
    let shim = (1..=metadata.rows(table::TYPE_DEF))
        .find(|&row| {
            is(row, column::TYPE_NAME, SHIM_NAME) && is(row, column::TYPE_SPACE, SHIM_SPACE)
        })
        .ok_or(ShapeError::NoShim)?;
    let mut start = None;
    let mut has_delegate = false;
    for method in metadata.members(table::TYPE_DEF, shim, column::TYPE_METHODS) {
        match metadata.name(table::METHOD_DEF, method, column::METHOD_NAME).as_deref() {
            Some(START) => {
                let blob = metadata.blob_of(table::METHOD_DEF, method, column::METHOD_SIGNATURE);
                let signature =
                    blob.and_then(|blob| MethodSig::decode(blob).ok()).ok_or(ShapeError::NoShim)?;
                start =
                    Some((Token::new(TokenKind::MethodDef, method), signature.parameters.len()));
            }
            Some(START_DELEGATE) => has_delegate = true,
            _ => {}
        }
    }
    let (start, parameters) = start.ok_or(ShapeError::NoShim)?;
    let shape = match (parameters, has_delegate) {
        (11, false) => AgentShape::V10_53,
        (11, true) => AgentShape::V10_54,
        (12, true) => AgentShape::V10_55,
        (parameters, _) => return Err(ShapeError::UnknownShim { parameters }),
    };
    Ok(Shim { shape, start })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Metadata of one type `NewRelic.Agent.Core.<name>` with methods of these names and numbers of
    /// parameters.
    fn metadata_of(name: &str, methods: &[(&str, u8)]) -> Vec<u8> {
        let (mut strings, mut blobs) = (vec![0_u8], vec![0_u8]);
        let mut string = |text: &str| {
            let at = strings.len() as u16;
            strings.extend_from_slice(text.as_bytes());
            strings.push(0);
            at
        };
        let (space, name) = (string("NewRelic.Agent.Core"), string(name));
        let rows: Vec<(u16, u16)> = methods
            .iter()
            .map(|(method, parameters)| {
                let blob = blobs.len() as u16;
                blobs.extend_from_slice(&[parameters + 3, 0, *parameters, 0x1c]);
                blobs.extend(std::iter::repeat_n(0x0e, usize::from(*parameters)));
                (string(method), blob)
            })
            .collect();
        // The tables: module, type definition, method definition.
        let mut tables = vec![0; 4];
        tables.extend_from_slice(&[2, 0, 0, 1]);
        tables.extend_from_slice(
            &(1_u64 << table::MODULE | 1 << table::TYPE_DEF | 1 << table::METHOD_DEF).to_le_bytes(),
        );
        tables.extend_from_slice(&0_u64.to_le_bytes());
        for count in [1, 1, rows.len() as u32] {
            tables.extend_from_slice(&count.to_le_bytes());
        }
        tables.extend_from_slice(&[0; 10]);
        tables.extend_from_slice(&[0; 4]);
        for field in [name, space, 0, 1, 1] {
            tables.extend_from_slice(&field.to_le_bytes());
        }
        for (name, blob) in rows {
            tables.extend_from_slice(&[0; 4]);
            for field in [0, 0x16, name, blob, 1] {
                tables.extend_from_slice(&field.to_le_bytes());
            }
        }
        let mut out = b"BSJB\x01\0\x01\0\0\0\0\0\x04\0\0\0v4\0\0\0\0\x03\0".to_vec();
        let heaps: [(&[u8], Vec<u8>); 3] =
            [(b"#~\0\0", tables), (b"#Strings\0\0\0\0", strings), (b"#Blob\0\0\0", blobs)];
        let mut at = out.len() + heaps.iter().map(|(name, _)| 8 + name.len()).sum::<usize>();
        for (name, heap) in &heaps {
            out.extend_from_slice(&(at as u32).to_le_bytes());
            out.extend_from_slice(&(heap.len() as u32).to_le_bytes());
            out.extend_from_slice(name);
            at += heap.len();
        }
        heaps.iter().for_each(|(_, heap)| out.extend_from_slice(heap));
        out
    }

    fn shim(name: &str, methods: &[(&str, u8)]) -> Result<(AgentShape, u32), ShapeError> {
        let shim = of_metadata(&Metadata::parse(metadata_of(name, methods)).unwrap())?;
        Ok((shim.shape, shim.start.0))
    }

    #[test]
    fn members_tell_the_shape() {
        let start = |parameters| ("GetFinishTracerDelegate", parameters);
        let delegate = ("GetFinishTracerDelegateFunc", 0);
        assert_eq!(
            shim("AgentShim", &[("Other", 2), start(11)]),
            Ok((AgentShape::V10_53, 0x0600_0002))
        );
        assert_eq!(
            shim("AgentShim", &[start(11), delegate]),
            Ok((AgentShape::V10_54, 0x0600_0001))
        );
        assert_eq!(
            shim("AgentShim", &[delegate, start(12)]),
            Ok((AgentShape::V10_55, 0x0600_0002))
        );
        assert_eq!(
            shim("AgentShim", &[start(13), delegate]),
            Err(ShapeError::UnknownShim { parameters: 13 })
        );
        assert_eq!(
            shim("AgentShim", &[start(12)]),
            Err(ShapeError::UnknownShim { parameters: 12 })
        );
        assert_eq!(shim("AgentShim", &[delegate]), Err(ShapeError::NoShim));
        assert_eq!(shim("AgentShims", &[start(11)]), Err(ShapeError::NoShim));
    }

    #[test]
    fn other_files_have_none() {
        for bytes in [&b""[..], b"MZ", b"\x7fELF", &[0; 4096]] {
            assert!(matches!(of_file(bytes), Err(ShapeError::Unreadable(_))), "{}", bytes.len());
        }
        let whole = metadata_of("AgentShim", &[("GetFinishTracerDelegate", 11)]);
        for cut in 0..whole.len() {
            if let Ok(metadata) = Metadata::parse(&whole[..cut]) {
                let _ = of_metadata(&metadata);
            }
        }
    }

    #[test]
    fn choices_and_names() {
        assert_eq!("auto".parse(), Ok(ShapeChoice::Auto));
        for shape in [AgentShape::V10_53, AgentShape::V10_54, AgentShape::V10_55] {
            assert_eq!(shape.to_string().parse(), Ok(ShapeChoice::Fixed(shape)));
        }
        assert_eq!("10.52".parse::<ShapeChoice>(), Err(ShapeChoiceError));
    }
}
