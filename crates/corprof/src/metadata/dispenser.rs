//! Scopes of one's own: opened from files or memory, or new.

use core::ffi::c_void;

use com::{Guid, HResult, Interface};

use super::abi::{IMetaDataDispenserEx, IMetaDataEmit2, IMetaDataImport2, VARIANT};
use super::{Metadata, MetadataEmit, OpenFlags};
use crate::info::call::{check, raw, text, wide};
use crate::info::error::{Error, Result};

/// The runtime library's export `MetaDataGetDispenser`.
pub type GetDispenserFn = unsafe extern "system" fn(
    class: *const Guid,
    iid: *const Guid,
    out: *mut *mut c_void,
) -> HResult;

/// `CLSID_CorMetaDataDispenser`.
const CLSID_DISPENSER: Guid = Guid::from_u128(0xE5CB_7A31_7512_11D2_89CE_0080_C792_E5D8);
/// `CLSID_CLR_v2_MetaData`: the format that every runtime since 2.0 reads.
const CLSID_FORMAT_V2: Guid = Guid::from_u128(0xEFEA_471A_44FD_4862_9292_0C58_D46E_1F3A);

/// An option of a dispenser. Each holds for the scopes that are made after it was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DispenserOption {
    /// Which duplicates are looked for when something is defined
    /// ([`DuplicateChecks`](super::DuplicateChecks)).
    DuplicateChecks,
    /// Which references are turned into definitions ([`RefToDefChecks`](super::RefToDefChecks)).
    RefToDefChecks,
    /// For which tokens moves are reported
    /// ([`TokenMovementNotifications`](super::TokenMovementNotifications)).
    TokenMovementNotifications,
    /// How updates are stored (`CorSetENC`).
    UpdateMode,
    /// Which deleted things enumerations show ([`ImportOptions`](super::ImportOptions)).
    ImportOptions,
    /// Whether scopes may be used by several threads: 1 or 0.
    ThreadSafety,
    /// Which tables must be emitted in order
    /// ([`ErrorsIfEmittedOutOfOrder`](super::ErrorsIfEmittedOutOfOrder)).
    ErrorsIfEmittedOutOfOrder,
    /// Whether importers of type libraries make adapters for events: a truth value.
    GenerateTceAdapters,
    /// What a linker makes: 0 an assembly, 1 a module.
    LinkerOptions,
    /// What merging does (`MergeFlags`).
    MergerOptions,
    /// Which references into the own module are kept as references (`CorLocalRefPreservation`).
    PreserveLocalRefs,
}

impl DispenserOption {
    /// The GUID that stands for it (`cor.h`).
    #[must_use]
    pub const fn guid(self) -> Guid {
        Guid::from_u128(match self {
            Self::DuplicateChecks => 0x30FE_7BE8_D7D9_11D2_9F80_00C0_4F79_A0A3,
            Self::RefToDefChecks => 0xDE38_56F8_D7D9_11D2_9F80_00C0_4F79_A0A3,
            Self::TokenMovementNotifications => 0xE5D7_1A4C_D7DA_11D2_9F80_00C0_4F79_A0A3,
            Self::UpdateMode => 0x2EEE_315C_D7DB_11D2_9F80_00C0_4F79_A0A3,
            Self::ImportOptions => 0x7970_0F36_4AAC_11D3_84C3_0090_2786_8CB1,
            Self::ThreadSafety => 0xF755_9806_F266_42EA_8C63_0ADB_45E8_B234,
            Self::ErrorsIfEmittedOutOfOrder => 0x1547_872D_DC03_11D2_9420_0000_F808_3460,
            Self::GenerateTceAdapters => 0xDCC9_DE90_4151_11D3_88D6_0090_2754_C43A,
            Self::LinkerOptions => 0x47E0_99B6_AE7C_4797_8317_B48A_A645_B8F9,
            Self::MergerOptions => 0x132D_3A6E_B35D_464E_951A_42EF_B9FB_6601,
            Self::PreserveLocalRefs => 0xA55C_0354_E91B_468B_8648_7CC3_1035_D533,
        })
    }
}

/// Value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionValue {
    /// A number or flags.
    Number(u32),
    /// A truth value.
    Bool(bool),
}

/// `VT_UI4`.
const VT_UI4: u16 = 19;
/// `VT_BOOL`; true is all ones in 16 bits.
const VT_BOOL: u16 = 11;

impl OptionValue {
    fn to_variant(self) -> VARIANT {
        let (vt, value) = match self {
            Self::Number(number) => (VT_UI4, u64::from(number)),
            Self::Bool(truth) => (VT_BOOL, if truth { 0xffff } else { 0 }),
        };
        // The members of the union start at its first byte.
        VARIANT {
            vt,
            value: if cfg!(target_endian = "big") { value.swap_bytes() } else { value },
            ..VARIANT::default()
        }
    }

    fn from_variant(variant: VARIANT) -> Option<Self> {
        let bytes = variant.value.to_ne_bytes();
        let [a, b, c, d, ..] = bytes;
        match variant.vt {
            VT_UI4 => Some(Self::Number(u32::from_ne_bytes([a, b, c, d]))),
            VT_BOOL => Some(Self::Bool(u16::from_ne_bytes([a, b]) != 0)),
            _ => None,
        }
    }
}

/// Opens and makes metadata scopes, independent of what the runtime has loaded.
#[derive(Clone, Debug)]
pub struct MetadataDispenser {
    dispenser: IMetaDataDispenserEx,
}

impl MetadataDispenser {
    /// Wraps the runtime's interface.
    #[must_use]
    pub const fn new(dispenser: IMetaDataDispenserEx) -> Self {
        Self { dispenser }
    }

    /// Asks the runtime library's export `MetaDataGetDispenser`. Single-file applications do not
    /// export it.
    ///
    /// # Safety
    /// `get` is that function, of a runtime library that stays loaded for as long as the answer is
    /// used.
    ///
    /// # Errors
    /// `CLASS_E_CLASSNOTAVAILABLE` if the library is no runtime's.
    pub unsafe fn from_export(get: GetDispenserFn) -> Result<Self> {
        const CALL: &str = "MetaDataGetDispenser";
        let mut dispenser = core::ptr::null_mut();
        // SAFETY: this is the function that the caller says; the pointers are valid for the call.
        let hresult = unsafe { get(&CLSID_DISPENSER, &IMetaDataDispenserEx::IID, &mut dispenser) };
        check(CALL, hresult)?;
        // SAFETY: a successful call gives a referenced pointer to the interface asked for, or null.
        let dispenser = unsafe { IMetaDataDispenserEx::from_nullable(dispenser) };
        dispenser.map(Self::new).ok_or(Error::Nothing { call: CALL })
    }

    /// The interface below.
    #[must_use]
    pub const fn raw(&self) -> &IMetaDataDispenserEx {
        &self.dispenser
    }

    /// Makes an empty scope (`DefineScope`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn define_scope(&self) -> Result<MetadataEmit> {
        let scope: IMetaDataEmit2 = scope("DefineScope", |iid, out| {
            raw!(self.dispenser, DefineScope(&CLSID_FORMAT_V2, 0, iid, out))
        })?;
        Ok(MetadataEmit::new(scope))
    }

    /// Opens the metadata of a file to read (`OpenScope`).
    ///
    /// # Errors
    /// The file cannot be read (`HRESULT_FROM_WIN32`), or has no metadata (`COR_E_BADIMAGEFORMAT`,
    /// `CLDB_E_NO_DATA`).
    pub fn open_file(&self, path: &str, flags: OpenFlags) -> Result<Metadata> {
        const CALL: &str = "OpenScope";
        let path = wide(CALL, path)?;
        let scope: IMetaDataImport2 = scope(CALL, |iid, out| {
            raw!(self.dispenser, OpenScope(path.as_ptr(), flags.bits(), iid, out))
        })?;
        Ok(Metadata::new(scope))
    }

    /// Opens metadata in memory (`OpenScopeOnMemory`): either bare metadata or an image as in a
    /// file. The bytes are copied.
    ///
    /// # Errors
    /// As [`Self::open_file`].
    pub fn open_memory(&self, bytes: &[u8], flags: OpenFlags) -> Result<Metadata> {
        let flags = flags | OpenFlags::COPY_MEMORY;
        let scope: IMetaDataImport2 = scope("OpenScopeOnMemory", |iid, out| {
            raw!(
                self.dispenser,
                OpenScopeOnMemory(bytes.as_ptr(), bytes.len() as u32, flags.bits(), iid, out)
            )
        })?;
        Ok(Metadata::new(scope))
    }

    /// Sets an option (`SetOption`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for an option or value that this runtime does not know.
    pub fn set_option(&self, option: DispenserOption, value: OptionValue) -> Result<()> {
        check("SetOption", raw!(self.dispenser, SetOption(&option.guid(), &value.to_variant())))
    }

    /// An option's value (`GetOption`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for an option that this runtime does not know.
    pub fn option(&self, option: DispenserOption) -> Result<OptionValue> {
        let mut value = VARIANT::default();
        check("GetOption", raw!(self.dispenser, GetOption(&option.guid(), &mut value)))?;
        OptionValue::from_variant(value).ok_or(Error::Nothing { call: "GetOption" })
    }

    /// Folder of the runtime (`GetCORSystemDirectory`).
    ///
    /// # Errors
    /// `E_NOTIMPL` on .NET (Core).
    pub fn system_directory(&self) -> Result<String> {
        text("GetCORSystemDirectory", |buffer, room, needed| {
            raw!(self.dispenser, GetCORSystemDirectory(buffer, room, needed))
        })
    }

    /// Path of an assembly that its simple name finds (`FindAssembly`).
    ///
    /// # Errors
    /// `E_NOTIMPL` on .NET (Core).
    pub fn find_assembly(&self, app_base: &str, private_bin: &str, name: &str) -> Result<String> {
        const CALL: &str = "FindAssembly";
        let (app_base, private_bin, name) =
            (wide(CALL, app_base)?, wide(CALL, private_bin)?, wide(CALL, name)?);
        text(CALL, |buffer, room, needed| {
            raw!(
                self.dispenser,
                FindAssembly(
                    app_base.as_ptr(),
                    private_bin.as_ptr(),
                    core::ptr::null(),
                    name.as_ptr(),
                    buffer,
                    room,
                    needed,
                )
            )
        })
    }

    /// Path of a module of an assembly (`FindAssemblyModule`).
    ///
    /// # Errors
    /// `E_NOTIMPL` on .NET (Core).
    pub fn find_assembly_module(
        &self,
        app_base: &str,
        private_bin: &str,
        assembly: &str,
        module: &str,
    ) -> Result<String> {
        const CALL: &str = "FindAssemblyModule";
        let (app_base, private_bin) = (wide(CALL, app_base)?, wide(CALL, private_bin)?);
        let (assembly, module) = (wide(CALL, assembly)?, wide(CALL, module)?);
        text(CALL, |buffer, room, needed| {
            raw!(
                self.dispenser,
                FindAssemblyModule(
                    app_base.as_ptr(),
                    private_bin.as_ptr(),
                    core::ptr::null(),
                    assembly.as_ptr(),
                    module.as_ptr(),
                    buffer,
                    room,
                    needed,
                )
            )
        })
    }
}

/// Asks for a scope as interface `I`.
fn scope<I: Interface>(
    call: &'static str,
    ask: impl FnOnce(*const Guid, *mut *mut c_void) -> HResult,
) -> Result<I> {
    let mut scope = core::ptr::null_mut();
    check(call, ask(&I::IID, &mut scope))?;
    // SAFETY: a successful call gives a referenced pointer to the interface asked for, or null.
    unsafe { I::from_nullable(scope) }.ok_or(Error::Nothing { call })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_values_are_variants() {
        for value in
            [OptionValue::Number(0x1234_5678), OptionValue::Bool(true), OptionValue::Bool(false)]
        {
            assert_eq!(OptionValue::from_variant(value.to_variant()), Some(value));
        }
        assert_eq!(OptionValue::from_variant(VARIANT::default()), None);
        assert_eq!(
            DispenserOption::ImportOptions.guid().to_string(),
            "79700F36-4AAC-11D3-84C3-009027868CB1"
        );
    }
}
