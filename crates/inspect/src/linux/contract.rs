//! The runtime's own description of its structures (`DotNetRuntimeContractDescriptor`, .NET 9 and
//! newer).
//!
//! Source: `docs/design/datacontracts/contract-descriptor.md` and `data_descriptor.md` of
//! dotnet/runtime.

use super::memory::Memory;
use serde_json::Value;

/// Descriptors have 3 KB (.NET 9) to 11 KB (.NET 10).
const LARGEST: u32 = 1 << 20;

/// Pointers that a descriptor refers to: 14 (.NET 9) to 24 (.NET 10).
const MOST_POINTERS: u32 = 4096;

/// Offsets of fields and addresses of globals.
#[derive(Debug)]
pub(super) struct Contract {
    root: Value,
    pointers: Vec<u64>,
}

impl Contract {
    /// Reads it out of the process.
    pub fn read(memory: &Memory, address: u64) -> Option<Self> {
        // Magic, flags u32, size u32, JSON, count u32, padding, pointers.
        let magic: [u8; 8] = memory.array(address)?;
        if &magic != b"DNCCDAC\0" {
            return None;
        }
        let size = memory.u32(address + 12).filter(|&size| size <= LARGEST)?;
        let json = memory.bytes(memory.pointer(address + 16)?, size as usize)?;
        let count = memory.u32(address + 24).filter(|&count| count <= MOST_POINTERS)?;
        let table = memory.pointer(address + 32)?;
        let pointers = (0..u64::from(count))
            .map(|index| memory.u64(table + 8 * index))
            .collect::<Option<_>>()?;
        Self::parse(&json, pointers)
    }

    fn parse(json: &[u8], pointers: Vec<u64>) -> Option<Self> {
        let root: Value = serde_json::from_slice(json).ok()?;
        (root.get("types")?.is_object() && root.get("globals")?.is_object())
            .then_some(Self { root, pointers })
    }

    /// Offset of a field: a number, or a number and a type.
    pub fn offset(&self, ty: &str, field: &str) -> Option<u64> {
        let value = self.root.get("types")?.get(ty)?.get(field)?;
        value.as_u64().or_else(|| value.get(0)?.as_u64())
    }

    /// Address of a global variable: a reference into the pointers, as `[index]` or `[[index],
    /// type]`.
    pub fn global(&self, name: &str) -> Option<u64> {
        let value = self.root.get("globals")?.get(name)?.get(0)?;
        let index = value.as_u64().or_else(|| value.get(0)?.as_u64())?;
        self.pointers.get(usize::try_from(index).ok()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_fields_and_globals() {
        let json = br#"{"types":{"Thread":{"OSId":296,"LinkNext":[112,"pointer"]}},
            "globals":{"ThreadStore":[[1],"pointer"],"Old":[0],"Bits":["0xc","uint8"]}}"#;
        let contract = Contract::parse(json, vec![7, 8]).unwrap();
        assert_eq!(
            (contract.offset("Thread", "OSId"), contract.offset("Thread", "LinkNext")),
            (Some(296), Some(112))
        );
        assert_eq!((contract.offset("Thread", "x"), contract.offset("x", "OSId")), (None, None));
        assert_eq!((contract.global("ThreadStore"), contract.global("Old")), (Some(8), Some(7)));
        assert_eq!((contract.global("Bits"), contract.global("x")), (None, None));
        assert!(
            Contract::parse(b"{}", Vec::new()).is_none()
                && Contract::parse(b"", Vec::new()).is_none()
        );
    }
}
