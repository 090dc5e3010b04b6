//! The columns of the metadata tables. Sources: ECMA-335 II.22, and `PortablePdb-Metadata.md` of
//! dotnet/runtime.

/// Numbers of tables.
pub mod table {
    /// The module itself.
    pub const MODULE: usize = 0x00;
    /// Types of other modules and assemblies.
    pub const TYPE_REF: usize = 0x01;
    /// Types.
    pub const TYPE_DEF: usize = 0x02;
    /// Order of fields, in uncompressed metadata.
    pub const FIELD_PTR: usize = 0x03;
    /// Fields.
    pub const FIELD: usize = 0x04;
    /// Order of methods, in uncompressed metadata.
    pub const METHOD_PTR: usize = 0x05;
    /// Methods.
    pub const METHOD_DEF: usize = 0x06;
    /// Parameters of methods.
    pub const PARAM: usize = 0x08;
    /// Methods and fields of types elsewhere.
    pub const MEMBER_REF: usize = 0x0a;
    /// Custom attributes.
    pub const CUSTOM_ATTRIBUTE: usize = 0x0c;
    /// Signatures that belong to nothing else.
    pub const STAND_ALONE_SIG: usize = 0x11;
    /// Properties.
    pub const PROPERTY: usize = 0x17;
    /// Other modules.
    pub const MODULE_REF: usize = 0x1a;
    /// Constructed types.
    pub const TYPE_SPEC: usize = 0x1b;
    /// The assembly.
    pub const ASSEMBLY: usize = 0x20;
    /// Other assemblies.
    pub const ASSEMBLY_REF: usize = 0x23;
    /// Which types are inside which.
    pub const NESTED_CLASS: usize = 0x29;
    /// Generic parameters.
    pub const GENERIC_PARAM: usize = 0x2a;
    /// Instantiated generic methods.
    pub const METHOD_SPEC: usize = 0x2b;
    /// Documents and lines of methods, in a portable PDB.
    pub const METHOD_DEBUG_INFORMATION: usize = 0x31;
    /// State machines and the methods they were made of, in a portable PDB.
    pub const STATE_MACHINE_METHOD: usize = 0x36;
    /// Numbers that can be a table's.
    pub const COUNT: usize = 0x38;
}

/// Numbers of columns.
pub mod column {
    /// Id of the module.
    pub const MODULE_ID: usize = 2;
    /// Where a `TypeRef` is.
    pub const TYPE_REF_SCOPE: usize = 0;
    /// Name of a `TypeRef` or `TypeDef`.
    pub const TYPE_NAME: usize = 1;
    /// Namespace of a `TypeRef` or `TypeDef`.
    pub const TYPE_SPACE: usize = 2;
    /// Access, layout and kind of a type (ECMA-335 II.23.1.15).
    pub const TYPE_FLAGS: usize = 0;
    /// The type that a type derives from.
    pub const TYPE_EXTENDS: usize = 3;
    /// First field of a type.
    pub const TYPE_FIELDS: usize = 4;
    /// First method of a type.
    pub const TYPE_METHODS: usize = 5;
    /// Name of a field.
    pub const FIELD_NAME: usize = 1;
    /// Signature of a field.
    pub const FIELD_SIGNATURE: usize = 2;
    /// Address of a method's body.
    pub const METHOD_ADDRESS: usize = 0;
    /// How a method is implemented.
    pub const METHOD_IMPL_FLAGS: usize = 1;
    /// Access and kind of a method.
    pub const METHOD_FLAGS: usize = 2;
    /// Name of a method.
    pub const METHOD_NAME: usize = 3;
    /// Signature of a method.
    pub const METHOD_SIGNATURE: usize = 4;
    /// First parameter of a method.
    pub const METHOD_PARAMS: usize = 5;
    /// Place of a parameter; 0 is what comes back.
    pub const PARAM_SEQUENCE: usize = 1;
    /// Name of a parameter.
    pub const PARAM_NAME: usize = 2;
    /// Whose member a `MemberRef` is.
    pub const MEMBER_REF_PARENT: usize = 0;
    /// Name of a `MemberRef`.
    pub const MEMBER_REF_NAME: usize = 1;
    /// Signature of a `MemberRef`.
    pub const MEMBER_REF_SIGNATURE: usize = 2;
    /// What a custom attribute belongs to.
    pub const CUSTOM_ATTRIBUTE_PARENT: usize = 0;
    /// The constructor of a custom attribute.
    pub const CUSTOM_ATTRIBUTE_TYPE: usize = 1;
    /// Arguments of a custom attribute.
    pub const CUSTOM_ATTRIBUTE_VALUE: usize = 2;
    /// The blob of a table that has nothing else: stand-alone signatures and `TypeSpec`.
    pub const SIGNATURE: usize = 0;
    /// Signature of a property.
    pub const PROPERTY_SIGNATURE: usize = 2;
    /// Name of a `ModuleRef`.
    pub const MODULE_REF_NAME: usize = 0;
    /// Version of the assembly: first of four fields.
    pub const ASSEMBLY_VERSION: usize = 1;
    /// Name of the assembly.
    pub const ASSEMBLY_NAME: usize = 7;
    /// Name of another assembly.
    pub const ASSEMBLY_REF_NAME: usize = 6;
    /// The inner type.
    pub const NESTED_INNER: usize = 0;
    /// The type around it.
    pub const NESTED_OUTER: usize = 1;
    /// Place of a generic parameter.
    pub const GENERIC_PARAM_NUMBER: usize = 0;
    /// Type or method of a generic parameter.
    pub const GENERIC_PARAM_OWNER: usize = 2;
    /// Name of a generic parameter.
    pub const GENERIC_PARAM_NAME: usize = 3;
    /// The generic method of an instantiation.
    pub const METHOD_SPEC_METHOD: usize = 0;
    /// The arguments of an instantiation.
    pub const METHOD_SPEC_ARGUMENTS: usize = 1;
}

/// What is in a column.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column {
    /// A number of this many bytes.
    Fixed(u8),
    /// An offset into a heap.
    Strings,
    Guids,
    Blobs,
    /// A row of a table.
    Row(usize),
    /// A row of one of several tables: this number of low bits says of which.
    Coded(u32, &'static [usize]),
}

use Column::{Blobs as B, Coded, Fixed as F, Guids as G, Row as R, Strings as S};

/// Not a table.
const NONE: usize = table::COUNT;

const TYPE_DEF_OR_REF: Column = Coded(2, &[0x02, 0x01, 0x1b]);
const HAS_CONSTANT: Column = Coded(2, &[0x04, 0x08, 0x17]);
const HAS_CUSTOM_ATTRIBUTE: Column = Coded(
    5,
    &[
        0x06, 0x04, 0x01, 0x02, 0x08, 0x09, 0x0a, 0x00, 0x0e, 0x17, 0x14, 0x11, 0x1a, 0x1b, 0x20,
        0x23, 0x26, 0x27, 0x28, 0x2a, 0x2c, 0x2b,
    ],
);
const HAS_FIELD_MARSHAL: Column = Coded(1, &[0x04, 0x08]);
const HAS_SECURITY: Column = Coded(2, &[0x02, 0x06, 0x20]);
const MEMBER_REF_PARENT: Column = Coded(3, &[0x02, 0x01, 0x1a, 0x06, 0x1b]);
const HAS_SEMANTICS: Column = Coded(1, &[0x14, 0x17]);
const METHOD_DEF_OR_REF: Column = Coded(1, &[0x06, 0x0a]);
const MEMBER_FORWARDED: Column = Coded(1, &[0x04, 0x06]);
const IMPLEMENTATION: Column = Coded(2, &[0x26, 0x23, 0x27]);
// The first two tags and the last one are not used.
const ATTRIBUTE_TYPE: Column = Coded(3, &[NONE, NONE, 0x06, 0x0a, NONE]);
const RESOLUTION_SCOPE: Column = Coded(2, &[0x00, 0x1a, 0x23, 0x01]);
const TYPE_OR_METHOD_DEF: Column = Coded(1, &[0x02, 0x06]);
const HAS_CUSTOM_DEBUG_INFORMATION: Column = Coded(
    5,
    &[
        0x06, 0x04, 0x01, 0x02, 0x08, 0x09, 0x0a, 0x00, 0x0e, 0x17, 0x14, 0x11, 0x1a, 0x1b, 0x20,
        0x23, 0x26, 0x27, 0x28, 0x2a, 0x2c, 0x2b, 0x30, 0x32, 0x33, 0x34, 0x35,
    ],
);

/// By table. Empty where there is none: a file that has rows of it cannot be read.
pub(crate) const SCHEMA: [&[Column]; table::COUNT] = [
    &[F(2), S, G, G, G],                               // 00 Module
    &[RESOLUTION_SCOPE, S, S],                         // 01 TypeRef
    &[F(4), S, S, TYPE_DEF_OR_REF, R(0x04), R(0x06)],  // 02 TypeDef
    &[R(0x04)],                                        // 03 FieldPtr
    &[F(2), S, B],                                     // 04 Field
    &[R(0x06)],                                        // 05 MethodPtr
    &[F(4), F(2), F(2), S, B, R(0x08)],                // 06 MethodDef
    &[R(0x08)],                                        // 07 ParamPtr
    &[F(2), F(2), S],                                  // 08 Param
    &[R(0x02), TYPE_DEF_OR_REF],                       // 09 InterfaceImpl
    &[MEMBER_REF_PARENT, S, B],                        // 0a MemberRef
    &[F(2), HAS_CONSTANT, B],                          // 0b Constant
    &[HAS_CUSTOM_ATTRIBUTE, ATTRIBUTE_TYPE, B],        // 0c CustomAttribute
    &[HAS_FIELD_MARSHAL, B],                           // 0d FieldMarshal
    &[F(2), HAS_SECURITY, B],                          // 0e DeclSecurity
    &[F(2), F(4), R(0x02)],                            // 0f ClassLayout
    &[F(4), R(0x04)],                                  // 10 FieldLayout
    &[B],                                              // 11 StandAloneSig
    &[R(0x02), R(0x14)],                               // 12 EventMap
    &[R(0x14)],                                        // 13 EventPtr
    &[F(2), S, TYPE_DEF_OR_REF],                       // 14 Event
    &[R(0x02), R(0x17)],                               // 15 PropertyMap
    &[R(0x17)],                                        // 16 PropertyPtr
    &[F(2), S, B],                                     // 17 Property
    &[F(2), R(0x06), HAS_SEMANTICS],                   // 18 MethodSemantics
    &[R(0x02), METHOD_DEF_OR_REF, METHOD_DEF_OR_REF],  // 19 MethodImpl
    &[S],                                              // 1a ModuleRef
    &[B],                                              // 1b TypeSpec
    &[F(2), MEMBER_FORWARDED, S, R(0x1a)],             // 1c ImplMap
    &[F(4), R(0x04)],                                  // 1d FieldRVA
    &[F(4), F(4)],                                     // 1e EncLog
    &[F(4)],                                           // 1f EncMap
    &[F(4), F(2), F(2), F(2), F(2), F(4), B, S, S],    // 20 Assembly
    &[F(4)],                                           // 21 AssemblyProcessor
    &[F(4), F(4), F(4)],                               // 22 AssemblyOS
    &[F(2), F(2), F(2), F(2), F(4), B, S, S, B],       // 23 AssemblyRef
    &[F(4), R(0x23)],                                  // 24 AssemblyRefProcessor
    &[F(4), F(4), F(4), R(0x23)],                      // 25 AssemblyRefOS
    &[F(4), S, B],                                     // 26 File
    &[F(4), F(4), S, S, IMPLEMENTATION],               // 27 ExportedType
    &[F(4), F(4), S, IMPLEMENTATION],                  // 28 ManifestResource
    &[R(0x02), R(0x02)],                               // 29 NestedClass
    &[F(2), F(2), TYPE_OR_METHOD_DEF, S],              // 2a GenericParam
    &[METHOD_DEF_OR_REF, B],                           // 2b MethodSpec
    &[R(0x2a), TYPE_DEF_OR_REF],                       // 2c GenericParamConstraint
    &[],                                               // 2d
    &[],                                               // 2e
    &[],                                               // 2f
    &[B, G, B, G],                                     // 30 Document
    &[R(0x30), B],                                     // 31 MethodDebugInformation
    &[R(0x06), R(0x35), R(0x33), R(0x34), F(4), F(4)], // 32 LocalScope
    &[F(2), F(2), S],                                  // 33 LocalVariable
    &[S, B],                                           // 34 LocalConstant
    &[R(0x35), B],                                     // 35 ImportScope
    &[R(0x06), R(0x06)],                               // 36 StateMachineMethod
    &[HAS_CUSTOM_DEBUG_INFORMATION, G, B],             // 37 CustomDebugInformation
];
