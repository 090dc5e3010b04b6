//! The intermediate language of .NET methods: read, checked, edited, written, shown.
//!
//! [`MethodBody::parse`] takes the bytes that metadata and the profiling API hand out,
//! [`MethodBody::encode`] gives them back. In between, [`MethodEditor`] changes code by labels, so
//! that no offset is ever patched by hand; [`verify()`], or [`Verifier`] for many of them, says
//! whether the runtime will accept the structure; [`max_stack()`] tells what the header must allow.
//! [`disassemble()`] shows a body in ILAsm syntax. [`TypeSig`] and its neighbours read and write
//! signatures.
//!
//! Nothing here panics, recurses without bound or reserves memory by a number that it has read:
//! bodies may come from obfuscators. Metadata tables are the caller's: what a token means comes in
//! through [`Tokens`] and [`Names`].
//!
//! Source for everything: ECMA-335, sixth edition; where the runtime is known to differ, the place
//! says so.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

mod body;
mod body_error;
mod clauses;
mod disassemble;
mod editor;
mod header;
mod instruction;
mod opcode;
mod regions;
mod signature;
mod stack;
mod token;
mod verify;

pub use body::MethodBody;
pub use body_error::BodyError;
pub use clauses::{ClauseKind, CodeRange, ExceptionClause};
pub use disassemble::{
    Names, NoNames, disassemble, method_text, nested, quoted, type_text, types_text,
};
pub use editor::{
    EditError, Edited, Handler, InstructionId, Label, MethodEditor, NewInstruction, NewOperand,
    OffsetPair,
};
pub use header::{HeaderFormat, MethodHeader};
pub use instruction::{
    DecodeError, Instruction, Instructions, Operand, OperandError, SwitchTargets, decode_all,
    instructions,
};
pub use opcode::{Flow, Opcode, OperandKind};
pub use signature::{
    CallingConvention, MAX_DEPTH, MethodSig, Modifier, Primitive, PropertySig, SignatureError,
    TypeSig, call_effect, count_locals, decode_field, decode_locals, decode_method_spec,
    encode_field, encode_locals, encode_method_spec,
};
pub use stack::{
    BackwardBranch, CallEffect, MethodShape, StackError, StackHeights, Tokens, max_stack,
};
pub use token::{Token, TokenKind};
pub use verify::{Verifier, VerifyError, verify};
