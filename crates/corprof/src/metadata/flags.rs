//! Flags and small enumerations of metadata, one type for each of `corhdr.h`.
//!
//! A flags type keeps bits it does not know, so a newer runtime's value passes through unharmed.
//! Where a few bits form a number (visibility, calling convention), the constant that ends in
//! `_MASK` covers them and [`masked`](TypeAttributes::masked) compares them. The order inside a
//! type is by bit.
//!
//! Over 600 lines: a table of the flags that `corhdr.h` has.

macro_rules! flags {
    ($( $(#[$doc:meta])* $name:ident { $( $(#[$cdoc:meta])* $konst:ident = $value:expr; )* } )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $name(u32);

        impl $name {
            $( $(#[$cdoc])* pub const $konst: Self = Self($value); )*

            /// From the number that crosses the ABI; unknown bits are kept.
            #[must_use]
            pub const fn from_bits(bits: u32) -> Self {
                Self(bits)
            }

            /// The number that crosses the ABI.
            #[must_use]
            pub const fn bits(self) -> u32 {
                self.0
            }

            /// Whether all bits of `other` are set.
            #[must_use]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Only the bits of `mask`: to be compared with one of that mask's values.
            #[must_use]
            pub const fn masked(self, mask: Self) -> Self {
                Self(self.0 & mask.0)
            }

            /// These bits and those of `other`.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }
    )* };
}

flags! {
    /// Flags of a type (`CorTypeAttr`).
    TypeAttributes {
        /// All visibility bits; the next eight are its values.
        VISIBILITY_MASK = 7;
        /// Visible in its assembly only.
        NOT_PUBLIC = 0;
        /// Visible everywhere.
        PUBLIC = 1;
        /// Nested, visible wherever the outer type is.
        NESTED_PUBLIC = 2;
        /// Nested, visible in the outer type.
        NESTED_PRIVATE = 3;
        /// Nested, visible in the outer type and its subtypes.
        NESTED_FAMILY = 4;
        /// Nested, visible in the assembly.
        NESTED_ASSEMBLY = 5;
        /// Nested, visible to subtypes in the assembly.
        NESTED_FAM_AND_ASSEM = 6;
        /// Nested, visible to subtypes and to the assembly.
        NESTED_FAM_OR_ASSEM = 7;
        /// All layout bits; the next three are its values.
        LAYOUT_MASK = 0x18;
        /// The runtime orders the fields.
        AUTO_LAYOUT = 0;
        /// Fields stand in their order of declaration.
        SEQUENTIAL_LAYOUT = 8;
        /// Each field states its offset.
        EXPLICIT_LAYOUT = 0x10;
        /// An interface.
        INTERFACE = 0x20;
        /// Abstract.
        ABSTRACT = 0x80;
        /// Cannot be derived from.
        SEALED = 0x100;
        /// The name has a meaning.
        SPECIAL_NAME = 0x400;
        /// The runtime checks the name.
        RT_SPECIAL_NAME = 0x800;
        /// Imported from COM.
        IMPORT = 0x1000;
        /// Serializable.
        SERIALIZABLE = 0x2000;
        /// A Windows Runtime type.
        WINDOWS_RUNTIME = 0x4000;
        /// All bits of how native code sees its strings; the next four are its values.
        STRING_FORMAT_MASK = 0x30000;
        /// Strings are ANSI.
        ANSI_CLASS = 0;
        /// Strings are UTF-16.
        UNICODE_CLASS = 0x10000;
        /// Strings are as the platform likes.
        AUTO_CLASS = 0x20000;
        /// Strings are as `CUSTOM_FORMAT_MASK` says.
        CUSTOM_FORMAT_CLASS = 0x30000;
        /// Has declarative security.
        HAS_SECURITY = 0x40000;
        /// The type initializer may run early.
        BEFORE_FIELD_INIT = 0x100000;
        /// An exported type that another assembly holds.
        FORWARDER = 0x200000;
        /// Bits of a custom string format.
        CUSTOM_FORMAT_MASK = 0xc00000;
    }
    /// Flags of a method (`CorMethodAttr`).
    MethodAttributes {
        /// All access bits; the next seven are its values.
        ACCESS_MASK = 7;
        /// Cannot be referred to by name.
        PRIVATE_SCOPE = 0;
        /// Visible in its type.
        PRIVATE = 1;
        /// Visible to subtypes in the assembly.
        FAM_AND_ASSEM = 2;
        /// Visible in the assembly.
        ASSEM = 3;
        /// Visible to subtypes.
        FAMILY = 4;
        /// Visible to subtypes and to the assembly.
        FAM_OR_ASSEM = 5;
        /// Visible everywhere.
        PUBLIC = 6;
        /// Exported to native code by a thunk.
        UNMANAGED_EXPORT = 8;
        /// Static.
        STATIC = 0x10;
        /// Cannot be overridden.
        FINAL = 0x20;
        /// Virtual.
        VIRTUAL = 0x40;
        /// Hides by name and signature, else by name.
        HIDE_BY_SIG = 0x80;
        /// Always gets a new slot in the vtable.
        NEW_SLOT = 0x100;
        /// Overridable only where visible.
        CHECK_ACCESS_ON_OVERRIDE = 0x200;
        /// Has no body.
        ABSTRACT = 0x400;
        /// The name has a meaning: an accessor, an operator.
        SPECIAL_NAME = 0x800;
        /// The runtime checks the name: a constructor.
        RT_SPECIAL_NAME = 0x1000;
        /// Implemented by a native function.
        PINVOKE_IMPL = 0x2000;
        /// Has declarative security.
        HAS_SECURITY = 0x4000;
        /// Calls another method with security code.
        REQUIRE_SEC_OBJECT = 0x8000;
    }
    /// How a method is implemented (`CorMethodImpl`).
    MethodImplAttributes {
        /// All code type bits; the next four are its values.
        CODE_TYPE_MASK = 3;
        /// The body is IL.
        IL = 0;
        /// The body is native.
        NATIVE = 1;
        /// Reserved.
        OPTIL = 2;
        /// The runtime provides the body.
        RUNTIME = 3;
        /// The body is not managed.
        UNMANAGED = 4;
        /// Must not be inlined.
        NO_INLINING = 8;
        /// The body is elsewhere.
        FORWARD_REF = 0x10;
        /// Runs under a lock.
        SYNCHRONIZED = 0x20;
        /// Must not be optimised.
        NO_OPTIMIZATION = 0x40;
        /// HRESULTs are not turned into exceptions.
        PRESERVE_SIG = 0x80;
        /// Should be inlined.
        AGGRESSIVE_INLINING = 0x100;
        /// Is optimised at once, without tiers.
        AGGRESSIVE_OPTIMIZATION = 0x200;
        /// Runtime-async method (.NET 11).
        ASYNC = 0x2000;
        /// Implemented inside the runtime.
        INTERNAL_CALL = 0x1000;
    }
    /// Flags of a field (`CorFieldAttr`).
    FieldAttributes {
        /// All access bits; the next seven are its values.
        ACCESS_MASK = 7;
        /// Cannot be referred to by name.
        PRIVATE_SCOPE = 0;
        /// Visible in its type.
        PRIVATE = 1;
        /// Visible to subtypes in the assembly.
        FAM_AND_ASSEM = 2;
        /// Visible in the assembly.
        ASSEMBLY = 3;
        /// Visible to subtypes.
        FAMILY = 4;
        /// Visible to subtypes and to the assembly.
        FAM_OR_ASSEM = 5;
        /// Visible everywhere.
        PUBLIC = 6;
        /// Static.
        STATIC = 0x10;
        /// Set by the constructor only.
        INIT_ONLY = 0x20;
        /// A constant.
        LITERAL = 0x40;
        /// Left out of serialization.
        NOT_SERIALIZED = 0x80;
        /// Its initial bytes are in the image.
        HAS_FIELD_RVA = 0x100;
        /// The name has a meaning.
        SPECIAL_NAME = 0x200;
        /// The runtime checks the name.
        RT_SPECIAL_NAME = 0x400;
        /// Has marshalling information.
        HAS_FIELD_MARSHAL = 0x1000;
        /// Implemented by a native library.
        PINVOKE_IMPL = 0x2000;
        /// Has a default value.
        HAS_DEFAULT = 0x8000;
    }
    /// Flags of a parameter (`CorParamAttr`).
    ParamAttributes {
        /// `[In]`.
        IN = 1;
        /// `[Out]`; with a by-ref type this is C#'s `out`.
        OUT = 2;
        /// May be left out.
        OPTIONAL = 0x10;
        /// Has a default value.
        HAS_DEFAULT = 0x1000;
        /// Has marshalling information.
        HAS_FIELD_MARSHAL = 0x2000;
    }
    /// Flags of a property (`CorPropertyAttr`).
    PropertyAttributes {
        /// The name has a meaning.
        SPECIAL_NAME = 0x200;
        /// The runtime checks the name.
        RT_SPECIAL_NAME = 0x400;
        /// Has a default value.
        HAS_DEFAULT = 0x1000;
    }
    /// Flags of an event (`CorEventAttr`).
    EventAttributes {
        /// The name has a meaning.
        SPECIAL_NAME = 0x200;
        /// The runtime checks the name.
        RT_SPECIAL_NAME = 0x400;
    }
    /// What a method is for a property or event (`CorMethodSemanticsAttr`).
    MethodSemanticsAttributes {
        /// Sets the property.
        SETTER = 1;
        /// Gets the property.
        GETTER = 2;
        /// Another accessor.
        OTHER = 4;
        /// Adds a handler.
        ADD_ON = 8;
        /// Removes a handler.
        REMOVE_ON = 0x10;
        /// Raises the event.
        FIRE = 0x20;
    }
    /// How a native function is called (`CorPinvokeMap`).
    PInvokeAttributes {
        /// The name is used as written.
        NO_MANGLE = 1;
        /// All character set bits; the next four are its values.
        CHAR_SET_MASK = 6;
        /// Not said.
        CHAR_SET_NOT_SPEC = 0;
        /// ANSI.
        CHAR_SET_ANSI = 2;
        /// UTF-16.
        CHAR_SET_UNICODE = 4;
        /// As the platform likes.
        CHAR_SET_AUTO = 6;
        /// All best-fit mapping bits; the next three are its values.
        BEST_FIT_MASK = 0x30;
        /// As the assembly says.
        BEST_FIT_USE_ASSEM = 0;
        /// Best-fit mapping on.
        BEST_FIT_ENABLED = 0x10;
        /// Best-fit mapping off.
        BEST_FIT_DISABLED = 0x20;
        /// The last error is kept.
        SUPPORTS_LAST_ERROR = 0x40;
        /// All calling convention bits; the next five are its values.
        CALL_CONV_MASK = 0x700;
        /// As the platform likes.
        CALL_CONV_WINAPI = 0x100;
        /// cdecl.
        CALL_CONV_CDECL = 0x200;
        /// stdcall.
        CALL_CONV_STDCALL = 0x300;
        /// thiscall.
        CALL_CONV_THISCALL = 0x400;
        /// fastcall.
        CALL_CONV_FASTCALL = 0x500;
        /// All bits of what happens to characters that cannot be mapped; the next three are its
        /// values.
        THROW_ON_UNMAPPABLE_MASK = 0x3000;
        /// As the assembly says.
        THROW_ON_UNMAPPABLE_USE_ASSEM = 0;
        /// Throws.
        THROW_ON_UNMAPPABLE_ENABLED = 0x1000;
        /// Replaces them.
        THROW_ON_UNMAPPABLE_DISABLED = 0x2000;
    }
    /// Flags of an assembly (`CorAssemblyFlags`).
    AssemblyFlags {
        /// The reference holds the full public key, not its token.
        PUBLIC_KEY = 1;
        /// All processor bits; the next seven are its values.
        PA_MASK = 0x70;
        /// Not said.
        PA_NONE = 0;
        /// Any.
        PA_MSIL = 0x10;
        /// x86.
        PA_X86 = 0x20;
        /// Itanium.
        PA_IA64 = 0x30;
        /// x64.
        PA_AMD64 = 0x40;
        /// Arm.
        PA_ARM = 0x50;
        /// Arm64.
        PA_ARM64 = 0x60;
        /// A reference assembly: runs nowhere.
        PA_NO_PLATFORM = 0x70;
        /// The processor counts in references.
        PA_SPECIFIED = 0x80;
        /// May be replaced by another publisher's.
        RETARGETABLE = 0x100;
        /// All content type bits.
        CONTENT_TYPE_MASK = 0xe00;
        /// Windows Runtime.
        CONTENT_TYPE_WINDOWS_RUNTIME = 0x200;
        /// Built without optimisation.
        DISABLE_JIT_OPTIMIZER = 0x4000;
        /// Keeps JIT tracking information.
        ENABLE_JIT_TRACKING = 0x8000;
    }
    /// Visibility of a resource (`CorManifestResourceFlags`).
    ManifestResourceFlags {
        /// All visibility bits.
        VISIBILITY_MASK = 7;
        /// Visible everywhere.
        PUBLIC = 1;
        /// Visible in the assembly.
        PRIVATE = 2;
    }
    /// Flags of a file of an assembly (`CorFileFlags`).
    FileFlags {
        /// Has metadata.
        CONTAINS_METADATA = 0;
        /// A resource file or other file without metadata.
        CONTAINS_NO_METADATA = 1;
    }
    /// What an image runs on (`CorPEKind`).
    PeKind {
        /// Not an image.
        NOT_PE = 0;
        /// Holds IL only.
        IL_ONLY = 1;
        /// Needs a 32-bit process.
        REQUIRES_32_BIT = 2;
        /// A 64-bit image.
        PE32_PLUS = 4;
        /// Holds native 32-bit code.
        UNMANAGED_32 = 8;
        /// Any processor, 32 bits preferred.
        PREFERS_32_BIT = 0x10;
    }
    /// Flags of a generic parameter (`CorGenericParamAttr`).
    GenericParamAttributes {
        /// All variance bits; the next three are its values.
        VARIANCE_MASK = 3;
        /// Invariant.
        NON_VARIANT = 0;
        /// `out T`.
        COVARIANT = 1;
        /// `in T`.
        CONTRAVARIANT = 2;
        /// All special constraints.
        SPECIAL_CONSTRAINT_MASK = 0x3c;
        /// `where T : class`.
        REFERENCE_TYPE = 4;
        /// `where T : struct`.
        NOT_NULLABLE_VALUE_TYPE = 8;
        /// `where T : new()`.
        DEFAULT_CONSTRUCTOR = 0x10;
        /// `where T : allows ref struct`.
        ALLOW_BY_REF_LIKE = 0x20;
    }
    /// How a metadata scope is opened (`CorOpenFlags`).
    OpenFlags {
        /// To read.
        READ = 0;
        /// To read and write.
        WRITE = 1;
        /// The metadata is copied, so the memory may go away.
        COPY_MEMORY = 2;
        /// Only the import interfaces will be asked for.
        READ_ONLY = 0x10;
        /// The memory was allocated by `CoTaskMemAlloc` and is freed by the scope.
        TAKE_OWNERSHIP = 0x20;
        /// Never opens a type library.
        NO_TYPE_LIB = 0x80;
        /// No Windows Runtime projection.
        NO_TRANSFORM = 0x1000;
    }
    /// How exactly the size of a save is computed (`CorSaveSize`).
    SaveSizeFlags {
        /// Exactly.
        ACCURATE = 0;
        /// Quickly, padded.
        QUICK = 1;
        /// Without attributes that are only for the compiler.
        DISCARD_TRANSIENT_CUSTOM_ATTRIBUTES = 2;
    }
    /// Which definitions are checked for duplicates as they are emitted (`CorCheckDuplicatesFor`).
    DuplicateChecks {
        /// None.
        NONE = 0;
        /// Types.
        TYPE_DEF = 1;
        /// Implemented interfaces.
        INTERFACE_IMPL = 2;
        /// Methods.
        METHOD_DEF = 4;
        /// Type references.
        TYPE_REF = 8;
        /// Member references.
        MEMBER_REF = 0x10;
        /// Custom attributes.
        CUSTOM_ATTRIBUTE = 0x20;
        /// Parameters.
        PARAM_DEF = 0x40;
        /// Permissions.
        PERMISSION = 0x80;
        /// Properties.
        PROPERTY = 0x100;
        /// Events.
        EVENT = 0x200;
        /// Fields.
        FIELD_DEF = 0x400;
        /// Signatures.
        SIGNATURE = 0x800;
        /// Module references.
        MODULE_REF = 0x1000;
        /// Type specs.
        TYPE_SPEC = 0x2000;
        /// P/Invoke maps.
        IMPL_MAP = 0x4000;
        /// Assembly references.
        ASSEMBLY_REF = 0x8000;
        /// Files.
        FILE = 0x10000;
        /// Exported types.
        EXPORTED_TYPE = 0x20000;
        /// Resources.
        MANIFEST_RESOURCE = 0x40000;
        /// Generic parameters.
        GENERIC_PARAM = 0x80000;
        /// Method specs.
        METHOD_SPEC = 0x100000;
        /// Generic constraints.
        GENERIC_PARAM_CONSTRAINT = 0x200000;
        /// The assembly.
        ASSEMBLY = 0x10000000;
        /// All of them.
        ALL = 0xffffffff;
    }
    /// Which references are turned into definitions as they are emitted (`CorRefToDefCheck`).
    RefToDefChecks {
        /// None.
        NONE = 0;
        /// Type references.
        TYPE_REF = 1;
        /// Member references.
        MEMBER_REF = 2;
        /// Both.
        DEFAULT = 3;
        /// All there are.
        ALL = 0xffffffff;
    }
    /// For which tables a move of tokens is reported (`CorNotificationForTokenMovement`).
    TokenMovementNotifications {
        /// None.
        NONE = 0;
        /// Methods.
        METHOD_DEF = 1;
        /// Member references.
        MEMBER_REF = 2;
        /// Fields.
        FIELD_DEF = 4;
        /// Type references.
        TYPE_REF = 8;
        /// Types.
        TYPE_DEF = 0x10;
        /// Parameters.
        PARAM_DEF = 0x20;
        /// Implemented interfaces.
        INTERFACE_IMPL = 0x40;
        /// Properties.
        PROPERTY = 0x80;
        /// Events.
        EVENT = 0x100;
        /// Signatures.
        SIGNATURE = 0x200;
        /// Type specs.
        TYPE_SPEC = 0x400;
        /// Custom attributes.
        CUSTOM_ATTRIBUTE = 0x800;
        /// Security values.
        SECURITY_VALUE = 0x1000;
        /// Permissions.
        PERMISSION = 0x2000;
        /// Module references.
        MODULE_REF = 0x4000;
        /// Namespaces.
        NAME_SPACE = 0x8000;
        /// Assembly references.
        ASSEMBLY_REF = 0x1000000;
        /// Files.
        FILE = 0x2000000;
        /// Exported types.
        EXPORTED_TYPE = 0x4000000;
        /// Resources.
        RESOURCE = 0x8000000;
        /// Methods, member references, fields and type references.
        DEFAULT = 0xf;
        /// All of them.
        ALL = 0xffffffff;
    }
    /// Which tables must be emitted in order of their owners (`CorErrorIfEmitOutOfOrder`).
    ErrorsIfEmittedOutOfOrder {
        /// None.
        NONE = 0;
        /// Methods.
        METHOD = 1;
        /// Fields.
        FIELD = 2;
        /// Parameters.
        PARAM = 4;
        /// Properties.
        PROPERTY = 8;
        /// Events.
        EVENT = 0x10;
        /// All of them.
        ALL = 0xffffffff;
    }
    /// What enumeration also shows of what an edit-and-continue delta deleted (`CorImportOptions`).
    ImportOptions {
        /// Nothing deleted.
        DEFAULT = 0;
        /// Types.
        TYPE_DEFS = 1;
        /// Methods.
        METHOD_DEFS = 2;
        /// Fields.
        FIELD_DEFS = 4;
        /// Properties.
        PROPERTIES = 8;
        /// Events.
        EVENTS = 0x10;
        /// Custom attributes.
        CUSTOM_ATTRIBUTES = 0x20;
        /// Exported types.
        EXPORTED_TYPES = 0x40;
        /// All of them.
        ALL = 0xffffffff;
    }
}
