//! The CIL instruction set, as one table. Source: ECMA-335 III (encodings: III.1.2.1; stack
//! transitions: the page of each instruction) and `opcode.def` of dotnet/runtime.
mod step;

pub(crate) use step::Step;

/// How an instruction's operand is encoded and what it stands for. Little-endian throughout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperandKind {
    /// Nothing follows the opcode.
    None,
    /// A signed byte.
    Int8,
    /// An unsigned byte: the alignment of `unaligned.`, the flags of `no.`.
    Uint8,
    /// Four bytes, signed.
    Int32,
    /// Eight bytes, signed.
    Int64,
    /// An IEEE single.
    Float32,
    /// An IEEE double.
    Float64,
    /// Index of an argument, one byte. Index 0 is `this` where there is one.
    Argument8,
    /// Index of an argument, two bytes.
    Argument16,
    /// Index of a local variable, one byte.
    Local8,
    /// Index of a local variable, two bytes.
    Local16,
    /// A branch distance in bytes from the end of the instruction, one byte, signed.
    Branch8,
    /// The same in four bytes.
    Branch32,
    /// A count in four bytes, then as many four-byte distances from the end of the instruction.
    Switch,
    /// Token of a `MethodDef`, `MemberRef` or `MethodSpec`.
    Method,
    /// Token of a `FieldDef` or `MemberRef`.
    Field,
    /// Token of a `TypeDef`, `TypeRef` or `TypeSpec`.
    Type,
    /// Token of a literal in the `#US` heap.
    String,
    /// Token of a stand-alone method signature.
    Signature,
    /// Token of a type, method or field: only `ldtoken`.
    Any,
}

impl OperandKind {
    /// Bytes that the operand takes; for [`OperandKind::Switch`] those of the count alone.
    #[must_use]
    pub const fn size(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Int8 | Self::Uint8 | Self::Argument8 | Self::Local8 | Self::Branch8 => 1,
            Self::Argument16 | Self::Local16 => 2,
            Self::Int64 | Self::Float64 => 8,
            _ => 4,
        }
    }

    /// Whether the operand is a metadata token.
    #[must_use]
    pub const fn is_token(self) -> bool {
        matches!(
            self,
            Self::Method | Self::Field | Self::Type | Self::String | Self::Signature | Self::Any
        )
    }
}

/// Where control goes after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flow {
    /// To the next instruction.
    Next,
    /// Into another method and back to the next instruction.
    Call,
    /// To its target.
    Branch,
    /// To its target, one of its targets, or the next instruction.
    Conditional,
    /// Back to the caller.
    Return,
    /// Into another method for good: `jmp`.
    Jump,
    /// To a handler: `throw` and `rethrow`.
    Throw,
    /// Out of a try block or catch handler, by way of the finally handlers in between.
    Leave,
    /// Out of a finally or fault handler, to wherever the runtime was going.
    EndFinally,
    /// Out of a filter, with the decision.
    EndFilter,
    /// To the next instruction, which it changes: no branch may go in between.
    Prefix,
}

impl Flow {
    /// Whether control can reach the instruction that follows in the code.
    #[must_use]
    pub const fn continues(self) -> bool {
        matches!(self, Self::Next | Self::Call | Self::Conditional | Self::Prefix)
    }
}

/// A row of the table.
struct Row {
    code: u16,
    mnemonic: &'static str,
    operand: OperandKind,
    pops: i8,
    pushes: i8,
    flow: Flow,
}

/// In the columns of pops and pushes: depends on a signature.
const V: i8 = -1;

macro_rules! opcodes {
    ($( $name:ident = $code:literal, $mnemonic:literal $operand:ident $pops:tt $pushes:tt $flow:ident; )*) => {
        /// An instruction without its operand.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Opcode {
            $(
                #[doc = concat!("`", $mnemonic, "`")]
                $name,
            )*
        }

        impl Opcode {
            /// All of them, in the order of their encodings.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];
        }

        static TABLE: [Row; Opcode::ALL.len()] = [$(
            Row {
                code: $code,
                mnemonic: $mnemonic,
                operand: OperandKind::$operand,
                pops: $pops,
                pushes: $pushes,
                flow: Flow::$flow,
            },
        )*];
    };
}

/// First byte of the opcodes of two bytes.
const ESCAPE: u8 = 0xfe;

// Name, encoding, mnemonic, operand, values popped, values pushed, flow. `leave` and `endfinally`
// also empty the stack.
#[rustfmt::skip]
opcodes! {
    Nop            =   0x00, "nop"              None       0 0 Next;
    Break          =   0x01, "break"            None       0 0 Next;
    Ldarg0         =   0x02, "ldarg.0"          None       0 1 Next;
    Ldarg1         =   0x03, "ldarg.1"          None       0 1 Next;
    Ldarg2         =   0x04, "ldarg.2"          None       0 1 Next;
    Ldarg3         =   0x05, "ldarg.3"          None       0 1 Next;
    Ldloc0         =   0x06, "ldloc.0"          None       0 1 Next;
    Ldloc1         =   0x07, "ldloc.1"          None       0 1 Next;
    Ldloc2         =   0x08, "ldloc.2"          None       0 1 Next;
    Ldloc3         =   0x09, "ldloc.3"          None       0 1 Next;
    Stloc0         =   0x0a, "stloc.0"          None       1 0 Next;
    Stloc1         =   0x0b, "stloc.1"          None       1 0 Next;
    Stloc2         =   0x0c, "stloc.2"          None       1 0 Next;
    Stloc3         =   0x0d, "stloc.3"          None       1 0 Next;
    LdargS         =   0x0e, "ldarg.s"          Argument8  0 1 Next;
    LdargaS        =   0x0f, "ldarga.s"         Argument8  0 1 Next;
    StargS         =   0x10, "starg.s"          Argument8  1 0 Next;
    LdlocS         =   0x11, "ldloc.s"          Local8     0 1 Next;
    LdlocaS        =   0x12, "ldloca.s"         Local8     0 1 Next;
    StlocS         =   0x13, "stloc.s"          Local8     1 0 Next;
    Ldnull         =   0x14, "ldnull"           None       0 1 Next;
    LdcI4M1        =   0x15, "ldc.i4.m1"        None       0 1 Next;
    LdcI40         =   0x16, "ldc.i4.0"         None       0 1 Next;
    LdcI41         =   0x17, "ldc.i4.1"         None       0 1 Next;
    LdcI42         =   0x18, "ldc.i4.2"         None       0 1 Next;
    LdcI43         =   0x19, "ldc.i4.3"         None       0 1 Next;
    LdcI44         =   0x1a, "ldc.i4.4"         None       0 1 Next;
    LdcI45         =   0x1b, "ldc.i4.5"         None       0 1 Next;
    LdcI46         =   0x1c, "ldc.i4.6"         None       0 1 Next;
    LdcI47         =   0x1d, "ldc.i4.7"         None       0 1 Next;
    LdcI48         =   0x1e, "ldc.i4.8"         None       0 1 Next;
    LdcI4S         =   0x1f, "ldc.i4.s"         Int8       0 1 Next;
    LdcI4          =   0x20, "ldc.i4"           Int32      0 1 Next;
    LdcI8          =   0x21, "ldc.i8"           Int64      0 1 Next;
    LdcR4          =   0x22, "ldc.r4"           Float32    0 1 Next;
    LdcR8          =   0x23, "ldc.r8"           Float64    0 1 Next;
    Dup            =   0x25, "dup"              None       1 2 Next;
    Pop            =   0x26, "pop"              None       1 0 Next;
    Jmp            =   0x27, "jmp"              Method     0 0 Jump;
    Call           =   0x28, "call"             Method     V V Call;
    Calli          =   0x29, "calli"            Signature  V V Call;
    Ret            =   0x2a, "ret"              None       V 0 Return;
    BrS            =   0x2b, "br.s"             Branch8    0 0 Branch;
    BrfalseS       =   0x2c, "brfalse.s"        Branch8    1 0 Conditional;
    BrtrueS        =   0x2d, "brtrue.s"         Branch8    1 0 Conditional;
    BeqS           =   0x2e, "beq.s"            Branch8    2 0 Conditional;
    BgeS           =   0x2f, "bge.s"            Branch8    2 0 Conditional;
    BgtS           =   0x30, "bgt.s"            Branch8    2 0 Conditional;
    BleS           =   0x31, "ble.s"            Branch8    2 0 Conditional;
    BltS           =   0x32, "blt.s"            Branch8    2 0 Conditional;
    BneUnS         =   0x33, "bne.un.s"         Branch8    2 0 Conditional;
    BgeUnS         =   0x34, "bge.un.s"         Branch8    2 0 Conditional;
    BgtUnS         =   0x35, "bgt.un.s"         Branch8    2 0 Conditional;
    BleUnS         =   0x36, "ble.un.s"         Branch8    2 0 Conditional;
    BltUnS         =   0x37, "blt.un.s"         Branch8    2 0 Conditional;
    Br             =   0x38, "br"               Branch32   0 0 Branch;
    Brfalse        =   0x39, "brfalse"          Branch32   1 0 Conditional;
    Brtrue         =   0x3a, "brtrue"           Branch32   1 0 Conditional;
    Beq            =   0x3b, "beq"              Branch32   2 0 Conditional;
    Bge            =   0x3c, "bge"              Branch32   2 0 Conditional;
    Bgt            =   0x3d, "bgt"              Branch32   2 0 Conditional;
    Ble            =   0x3e, "ble"              Branch32   2 0 Conditional;
    Blt            =   0x3f, "blt"              Branch32   2 0 Conditional;
    BneUn          =   0x40, "bne.un"           Branch32   2 0 Conditional;
    BgeUn          =   0x41, "bge.un"           Branch32   2 0 Conditional;
    BgtUn          =   0x42, "bgt.un"           Branch32   2 0 Conditional;
    BleUn          =   0x43, "ble.un"           Branch32   2 0 Conditional;
    BltUn          =   0x44, "blt.un"           Branch32   2 0 Conditional;
    Switch         =   0x45, "switch"           Switch     1 0 Conditional;
    LdindI1        =   0x46, "ldind.i1"         None       1 1 Next;
    LdindU1        =   0x47, "ldind.u1"         None       1 1 Next;
    LdindI2        =   0x48, "ldind.i2"         None       1 1 Next;
    LdindU2        =   0x49, "ldind.u2"         None       1 1 Next;
    LdindI4        =   0x4a, "ldind.i4"         None       1 1 Next;
    LdindU4        =   0x4b, "ldind.u4"         None       1 1 Next;
    LdindI8        =   0x4c, "ldind.i8"         None       1 1 Next;
    LdindI         =   0x4d, "ldind.i"          None       1 1 Next;
    LdindR4        =   0x4e, "ldind.r4"         None       1 1 Next;
    LdindR8        =   0x4f, "ldind.r8"         None       1 1 Next;
    LdindRef       =   0x50, "ldind.ref"        None       1 1 Next;
    StindRef       =   0x51, "stind.ref"        None       2 0 Next;
    StindI1        =   0x52, "stind.i1"         None       2 0 Next;
    StindI2        =   0x53, "stind.i2"         None       2 0 Next;
    StindI4        =   0x54, "stind.i4"         None       2 0 Next;
    StindI8        =   0x55, "stind.i8"         None       2 0 Next;
    StindR4        =   0x56, "stind.r4"         None       2 0 Next;
    StindR8        =   0x57, "stind.r8"         None       2 0 Next;
    Add            =   0x58, "add"              None       2 1 Next;
    Sub            =   0x59, "sub"              None       2 1 Next;
    Mul            =   0x5a, "mul"              None       2 1 Next;
    Div            =   0x5b, "div"              None       2 1 Next;
    DivUn          =   0x5c, "div.un"           None       2 1 Next;
    Rem            =   0x5d, "rem"              None       2 1 Next;
    RemUn          =   0x5e, "rem.un"           None       2 1 Next;
    And            =   0x5f, "and"              None       2 1 Next;
    Or             =   0x60, "or"               None       2 1 Next;
    Xor            =   0x61, "xor"              None       2 1 Next;
    Shl            =   0x62, "shl"              None       2 1 Next;
    Shr            =   0x63, "shr"              None       2 1 Next;
    ShrUn          =   0x64, "shr.un"           None       2 1 Next;
    Neg            =   0x65, "neg"              None       1 1 Next;
    Not            =   0x66, "not"              None       1 1 Next;
    ConvI1         =   0x67, "conv.i1"          None       1 1 Next;
    ConvI2         =   0x68, "conv.i2"          None       1 1 Next;
    ConvI4         =   0x69, "conv.i4"          None       1 1 Next;
    ConvI8         =   0x6a, "conv.i8"          None       1 1 Next;
    ConvR4         =   0x6b, "conv.r4"          None       1 1 Next;
    ConvR8         =   0x6c, "conv.r8"          None       1 1 Next;
    ConvU4         =   0x6d, "conv.u4"          None       1 1 Next;
    ConvU8         =   0x6e, "conv.u8"          None       1 1 Next;
    Callvirt       =   0x6f, "callvirt"         Method     V V Call;
    Cpobj          =   0x70, "cpobj"            Type       2 0 Next;
    Ldobj          =   0x71, "ldobj"            Type       1 1 Next;
    Ldstr          =   0x72, "ldstr"            String     0 1 Next;
    Newobj         =   0x73, "newobj"           Method     V V Call;
    Castclass      =   0x74, "castclass"        Type       1 1 Next;
    Isinst         =   0x75, "isinst"           Type       1 1 Next;
    ConvRUn        =   0x76, "conv.r.un"        None       1 1 Next;
    Unbox          =   0x79, "unbox"            Type       1 1 Next;
    Throw          =   0x7a, "throw"            None       1 0 Throw;
    Ldfld          =   0x7b, "ldfld"            Field      1 1 Next;
    Ldflda         =   0x7c, "ldflda"           Field      1 1 Next;
    Stfld          =   0x7d, "stfld"            Field      2 0 Next;
    Ldsfld         =   0x7e, "ldsfld"           Field      0 1 Next;
    Ldsflda        =   0x7f, "ldsflda"          Field      0 1 Next;
    Stsfld         =   0x80, "stsfld"           Field      1 0 Next;
    Stobj          =   0x81, "stobj"            Type       2 0 Next;
    ConvOvfI1Un    =   0x82, "conv.ovf.i1.un"   None       1 1 Next;
    ConvOvfI2Un    =   0x83, "conv.ovf.i2.un"   None       1 1 Next;
    ConvOvfI4Un    =   0x84, "conv.ovf.i4.un"   None       1 1 Next;
    ConvOvfI8Un    =   0x85, "conv.ovf.i8.un"   None       1 1 Next;
    ConvOvfU1Un    =   0x86, "conv.ovf.u1.un"   None       1 1 Next;
    ConvOvfU2Un    =   0x87, "conv.ovf.u2.un"   None       1 1 Next;
    ConvOvfU4Un    =   0x88, "conv.ovf.u4.un"   None       1 1 Next;
    ConvOvfU8Un    =   0x89, "conv.ovf.u8.un"   None       1 1 Next;
    ConvOvfIUn     =   0x8a, "conv.ovf.i.un"    None       1 1 Next;
    ConvOvfUUn     =   0x8b, "conv.ovf.u.un"    None       1 1 Next;
    Box            =   0x8c, "box"              Type       1 1 Next;
    Newarr         =   0x8d, "newarr"           Type       1 1 Next;
    Ldlen          =   0x8e, "ldlen"            None       1 1 Next;
    Ldelema        =   0x8f, "ldelema"          Type       2 1 Next;
    LdelemI1       =   0x90, "ldelem.i1"        None       2 1 Next;
    LdelemU1       =   0x91, "ldelem.u1"        None       2 1 Next;
    LdelemI2       =   0x92, "ldelem.i2"        None       2 1 Next;
    LdelemU2       =   0x93, "ldelem.u2"        None       2 1 Next;
    LdelemI4       =   0x94, "ldelem.i4"        None       2 1 Next;
    LdelemU4       =   0x95, "ldelem.u4"        None       2 1 Next;
    LdelemI8       =   0x96, "ldelem.i8"        None       2 1 Next;
    LdelemI        =   0x97, "ldelem.i"         None       2 1 Next;
    LdelemR4       =   0x98, "ldelem.r4"        None       2 1 Next;
    LdelemR8       =   0x99, "ldelem.r8"        None       2 1 Next;
    LdelemRef      =   0x9a, "ldelem.ref"       None       2 1 Next;
    StelemI        =   0x9b, "stelem.i"         None       3 0 Next;
    StelemI1       =   0x9c, "stelem.i1"        None       3 0 Next;
    StelemI2       =   0x9d, "stelem.i2"        None       3 0 Next;
    StelemI4       =   0x9e, "stelem.i4"        None       3 0 Next;
    StelemI8       =   0x9f, "stelem.i8"        None       3 0 Next;
    StelemR4       =   0xa0, "stelem.r4"        None       3 0 Next;
    StelemR8       =   0xa1, "stelem.r8"        None       3 0 Next;
    StelemRef      =   0xa2, "stelem.ref"       None       3 0 Next;
    Ldelem         =   0xa3, "ldelem"           Type       2 1 Next;
    Stelem         =   0xa4, "stelem"           Type       3 0 Next;
    UnboxAny       =   0xa5, "unbox.any"        Type       1 1 Next;
    ConvOvfI1      =   0xb3, "conv.ovf.i1"      None       1 1 Next;
    ConvOvfU1      =   0xb4, "conv.ovf.u1"      None       1 1 Next;
    ConvOvfI2      =   0xb5, "conv.ovf.i2"      None       1 1 Next;
    ConvOvfU2      =   0xb6, "conv.ovf.u2"      None       1 1 Next;
    ConvOvfI4      =   0xb7, "conv.ovf.i4"      None       1 1 Next;
    ConvOvfU4      =   0xb8, "conv.ovf.u4"      None       1 1 Next;
    ConvOvfI8      =   0xb9, "conv.ovf.i8"      None       1 1 Next;
    ConvOvfU8      =   0xba, "conv.ovf.u8"      None       1 1 Next;
    Refanyval      =   0xc2, "refanyval"        Type       1 1 Next;
    Ckfinite       =   0xc3, "ckfinite"         None       1 1 Next;
    Mkrefany       =   0xc6, "mkrefany"         Type       1 1 Next;
    Ldtoken        =   0xd0, "ldtoken"          Any        0 1 Next;
    ConvU2         =   0xd1, "conv.u2"          None       1 1 Next;
    ConvU1         =   0xd2, "conv.u1"          None       1 1 Next;
    ConvI          =   0xd3, "conv.i"           None       1 1 Next;
    ConvOvfI       =   0xd4, "conv.ovf.i"       None       1 1 Next;
    ConvOvfU       =   0xd5, "conv.ovf.u"       None       1 1 Next;
    AddOvf         =   0xd6, "add.ovf"          None       2 1 Next;
    AddOvfUn       =   0xd7, "add.ovf.un"       None       2 1 Next;
    MulOvf         =   0xd8, "mul.ovf"          None       2 1 Next;
    MulOvfUn       =   0xd9, "mul.ovf.un"       None       2 1 Next;
    SubOvf         =   0xda, "sub.ovf"          None       2 1 Next;
    SubOvfUn       =   0xdb, "sub.ovf.un"       None       2 1 Next;
    Endfinally     =   0xdc, "endfinally"       None       0 0 EndFinally;
    Leave          =   0xdd, "leave"            Branch32   0 0 Leave;
    LeaveS         =   0xde, "leave.s"          Branch8    0 0 Leave;
    StindI         =   0xdf, "stind.i"          None       2 0 Next;
    ConvU          =   0xe0, "conv.u"           None       1 1 Next;
    Arglist        = 0xfe00, "arglist"          None       0 1 Next;
    Ceq            = 0xfe01, "ceq"              None       2 1 Next;
    Cgt            = 0xfe02, "cgt"              None       2 1 Next;
    CgtUn          = 0xfe03, "cgt.un"           None       2 1 Next;
    Clt            = 0xfe04, "clt"              None       2 1 Next;
    CltUn          = 0xfe05, "clt.un"           None       2 1 Next;
    Ldftn          = 0xfe06, "ldftn"            Method     0 1 Next;
    Ldvirtftn      = 0xfe07, "ldvirtftn"        Method     1 1 Next;
    Ldarg          = 0xfe09, "ldarg"            Argument16 0 1 Next;
    Ldarga         = 0xfe0a, "ldarga"           Argument16 0 1 Next;
    Starg          = 0xfe0b, "starg"            Argument16 1 0 Next;
    Ldloc          = 0xfe0c, "ldloc"            Local16    0 1 Next;
    Ldloca         = 0xfe0d, "ldloca"           Local16    0 1 Next;
    Stloc          = 0xfe0e, "stloc"            Local16    1 0 Next;
    Localloc       = 0xfe0f, "localloc"         None       1 1 Next;
    Endfilter      = 0xfe11, "endfilter"        None       1 0 EndFilter;
    Unaligned      = 0xfe12, "unaligned."       Uint8      0 0 Prefix;
    Volatile       = 0xfe13, "volatile."        None       0 0 Prefix;
    Tail           = 0xfe14, "tail."            None       0 0 Prefix;
    Initobj        = 0xfe15, "initobj"          Type       1 0 Next;
    Constrained    = 0xfe16, "constrained."     Type       0 0 Prefix;
    Cpblk          = 0xfe17, "cpblk"            None       3 0 Next;
    Initblk        = 0xfe18, "initblk"          None       3 0 Next;
    No             = 0xfe19, "no."              Uint8      0 0 Prefix;
    Rethrow        = 0xfe1a, "rethrow"          None       0 0 Throw;
    Sizeof         = 0xfe1c, "sizeof"           Type       0 1 Next;
    Refanytype     = 0xfe1d, "refanytype"       None       1 1 Next;
    Readonly       = 0xfe1e, "readonly."        None       0 0 Prefix;
}

/// Opcodes of one byte, by that byte.
static ONE_BYTE: [Option<Opcode>; 256] = by_last_byte(1);

/// Opcodes of two bytes, by the second one; the first is always [`ESCAPE`].
static TWO_BYTES: [Option<Opcode>; 256] = by_last_byte(2);

#[expect(
    clippy::indexing_slicing,
    reason = "runs in the compiler, and a byte is always less than 256"
)]
const fn by_last_byte(size: u32) -> [Option<Opcode>; 256] {
    let mut table = [None; 256];
    let mut index = 0;
    while index < Opcode::ALL.len() {
        let opcode = Opcode::ALL[index];
        if opcode.size() == size {
            table[(opcode.code() & 0xff) as usize] = Some(opcode);
        }
        index += 1;
    }
    table
}

impl Opcode {
    #[expect(clippy::indexing_slicing, reason = "the table has a row for each variant")]
    #[inline]
    const fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// Reads the opcode at the front of `code`; `None` when there is none.
    #[must_use]
    #[inline]
    pub fn decode(code: &[u8]) -> Option<Self> {
        match *code {
            [ESCAPE, second, ..] => TWO_BYTES.get(usize::from(second)).copied().flatten(),
            [first, ..] => ONE_BYTE.get(usize::from(first)).copied().flatten(),
            [] => None,
        }
    }

    /// The encoding: one byte, or two with 0xfe in the high one, which comes first in the code.
    #[must_use]
    #[inline]
    pub const fn code(self) -> u16 {
        self.row().code
    }

    /// Bytes that the opcode takes: 1 or 2.
    #[must_use]
    #[inline]
    pub const fn size(self) -> u32 {
        if self.row().code < 0x100 { 1 } else { 2 }
    }

    /// The name in ILAsm.
    #[must_use]
    pub const fn mnemonic(self) -> &'static str {
        self.row().mnemonic
    }

    /// What follows the opcode.
    #[must_use]
    #[inline]
    pub const fn operand(self) -> OperandKind {
        self.row().operand
    }

    /// How many values it takes off the stack; `None` if that depends on a signature (calls and
    /// `ret`).
    #[must_use]
    #[inline]
    pub fn pops(self) -> Option<u16> {
        u16::try_from(self.row().pops).ok()
    }

    /// How many values it puts onto the stack; `None` if that depends on a signature (calls).
    #[must_use]
    #[inline]
    pub fn pushes(self) -> Option<u16> {
        u16::try_from(self.row().pushes).ok()
    }

    /// Where control goes next.
    #[must_use]
    #[inline]
    pub const fn flow(self) -> Flow {
        self.row().flow
    }

    /// For a branch or `leave` in either form, the form with a one-byte distance.
    #[must_use]
    pub fn short(self) -> Option<Self> {
        self.row().code.try_into().ok().and_then(|code: u8| match code {
            0x2b..=0x37 | 0xde => Some(self),
            0x38..=0x44 => Self::decode(&[code - 0x38 + 0x2b]),
            0xdd => Some(Self::LeaveS),
            _ => None,
        })
    }

    /// For a branch or `leave` in either form, the form with a four-byte distance.
    #[must_use]
    pub fn long(self) -> Option<Self> {
        self.row().code.try_into().ok().and_then(|code: u8| match code {
            0x38..=0x44 | 0xdd => Some(self),
            0x2b..=0x37 => Self::decode(&[code - 0x2b + 0x38]),
            0xde => Some(Self::Leave),
            _ => None,
        })
    }

    /// The argument that the opcode itself names: `ldarg.0` to `ldarg.3`.
    #[must_use]
    #[inline]
    pub const fn implied_argument(self) -> Option<u16> {
        Some(match self {
            Self::Ldarg0 => 0,
            Self::Ldarg1 => 1,
            Self::Ldarg2 => 2,
            Self::Ldarg3 => 3,
            _ => return None,
        })
    }

    /// The local that the opcode itself names: `ldloc.0` to `ldloc.3` and `stloc.0` to `stloc.3`.
    #[must_use]
    #[inline]
    pub const fn implied_local(self) -> Option<u16> {
        Some(match self {
            Self::Ldloc0 | Self::Stloc0 => 0,
            Self::Ldloc1 | Self::Stloc1 => 1,
            Self::Ldloc2 | Self::Stloc2 => 2,
            Self::Ldloc3 | Self::Stloc3 => 3,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_ordered_and_decodes_to_itself() {
        assert_eq!(Opcode::ALL.len(), 219);
        assert!(Opcode::ALL.windows(2).all(|pair| pair[0].code() < pair[1].code()));
        for &opcode in Opcode::ALL {
            let bytes = opcode.code().to_be_bytes();
            assert_eq!(
                Opcode::decode(&bytes[2 - opcode.size() as usize..]),
                Some(opcode),
                "{}",
                opcode.mnemonic()
            );
        }
        let decodable = (0..=u8::MAX)
            .flat_map(|a| [[a, 0], [ESCAPE, a]])
            .filter(|b| Opcode::decode(b).is_some());
        // `arglist` is counted twice: as [0xfe, 0] it comes out of both halves.
        assert_eq!(decodable.count(), Opcode::ALL.len() + 1);
    }

    #[test]
    fn steps_say_what_rows_say() {
        for byte in 0..=u8::MAX {
            let step = Step::of(byte);
            if step.marks & Step::ODD != 0 {
                continue;
            }
            let opcode = Opcode::decode(&[byte]).unwrap();
            assert_eq!(u32::from(step.size), 1 + opcode.operand().size(), "{}", opcode.mnemonic());
            assert_eq!(
                (Some(step.pops), Some(step.pushes)),
                (opcode.pops(), opcode.pushes()),
                "{}",
                opcode.mnemonic()
            );
            assert_eq!(
                (opcode.flow(), step.marks & Step::TURNS),
                (Flow::Next, 0),
                "{}",
                opcode.mnemonic()
            );
            let argument = opcode.implied_argument().is_some_and(|index| index >= 2);
            let local = opcode.implied_local().is_some_and(|index| index >= 1);
            assert_eq!(
                step.marks & Step::beyond(2, 1) != 0,
                argument || local,
                "{}",
                opcode.mnemonic()
            );
        }
        let odd = [0xfe, 0x24, 0x0e, 0x11, 0x28, 0x2a, 0x2b, 0x45, 0x7a, 0xdc];
        assert!(odd.iter().all(|&byte| Step::of(byte).marks & Step::ODD != 0));
        let turns: Vec<bool> =
            odd.iter().map(|&byte| Step::of(byte).marks & Step::TURNS != 0).collect();
        assert_eq!(turns, [true, true, false, false, false, true, true, true, false, false]);
        let calls: Vec<u8> =
            (0..=u8::MAX).filter(|&byte| Step::of(byte).marks & Step::CALLS != 0).collect();
        assert_eq!(calls, [0x28, 0x29, 0x6f, 0x73]);
        let branches: Vec<u8> =
            (0..=u8::MAX).filter(|&byte| Step::of(byte).marks & Step::BRANCHES != 0).collect();
        assert_eq!(branches, (0x2b..=0x44).collect::<Vec<u8>>());
        let ends: Vec<u8> =
            (0..=u8::MAX).filter(|&byte| Step::of(byte).marks & Step::ENDS != 0).collect();
        assert_eq!(ends, [0x2a, 0x7a, 0xdc, 0xdd, 0xde]);
        assert_eq!(
            ends.iter().map(|&byte| Step::of(byte).size).collect::<Vec<_>>(),
            [1, 1, 1, 5, 2]
        );
        for byte in branches {
            let (step, opcode) = (Step::of(byte), Opcode::decode(&[byte]).unwrap());
            assert_eq!(
                (step.size == 2, step.pops == 0),
                (byte < 0x38, opcode.flow() == Flow::Branch)
            );
        }
    }

    #[test]
    fn branch_forms_pair_up() {
        for &opcode in Opcode::ALL {
            match opcode.operand() {
                OperandKind::Branch8 | OperandKind::Branch32 => {
                    let (short, long) = (opcode.short().unwrap(), opcode.long().unwrap());
                    assert_eq!(format!("{}.s", long.mnemonic()), short.mnemonic());
                    assert_eq!(short.operand(), OperandKind::Branch8);
                    assert_eq!(long.operand(), OperandKind::Branch32);
                    assert_eq!((short.pops(), short.flow()), (long.pops(), long.flow()));
                }
                _ => assert_eq!((opcode.short(), opcode.long()), (None, None)),
            }
        }
    }

    #[test]
    fn names_tell_what_rows_say() {
        for &opcode in Opcode::ALL {
            assert_eq!(
                opcode.flow() == Flow::Prefix,
                opcode.mnemonic().ends_with('.'),
                "{}",
                opcode.mnemonic()
            );
            let implied = opcode.implied_argument().or(opcode.implied_local());
            let digit =
                opcode.mnemonic().strip_prefix("ld").or(opcode.mnemonic().strip_prefix("st"));
            let digit = digit
                .and_then(|n| n.strip_prefix("arg.").or(n.strip_prefix("loc.")))
                .and_then(|n| n.parse().ok());
            assert_eq!(implied, digit, "{}", opcode.mnemonic());
        }
        assert_eq!(
            (Opcode::Stelem.pops(), Opcode::Call.pops(), Opcode::Ret.pushes()),
            (Some(3), None, Some(0))
        );
    }
}
