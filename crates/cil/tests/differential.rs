//! Bodies made at random do the same on real runtimes after they were rewritten, in every way in
//! which it is done here.
//!
//! Nothing of this crate makes the bodies but the writer of opcodes: offsets and clauses are put
//! together by hand, so that a fault of the editor is not on both sides.
//! `CLRSCOPE_DIFFERENTIAL_CASES` says how many are made for each runtime, and
//! `CLRSCOPE_DIFFERENTIAL_SEED` which.

use cil::{
    CallEffect, ClauseKind, CodeRange, Edited, ExceptionClause, Handler, InstructionId, MethodBody,
    MethodEditor, MethodHeader, MethodShape, NewInstruction, NoNames, Opcode, Operand, Primitive,
    Token, Tokens, TypeSig, Verifier, decode_locals, disassemble, encode_locals, max_stack, verify,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;
use testkit::{Runtime, Sample, TargetProcess, on_sample_runtimes_at_once};

/// Programs for each runtime; each is run in [`WAYS`] other forms as well.
const CASES: u32 = 400;
const WAYS: usize = 7;
const LIMIT: Duration = Duration::from_secs(30);
/// The signature of locals, wherever it really is.
const SIGNATURE: Token = Token(0x1100_0001);
/// `int`, `long`, `double`, `int`.
const ARGUMENTS: u16 = 4;

/// What is on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ty {
    Int,
    Long,
    Double,
}

impl Ty {
    const ALL: [Ty; 3] = [Ty::Int, Ty::Long, Ty::Double];

    fn primitive(self) -> TypeSig {
        TypeSig::Primitive(match self {
            Ty::Int => Primitive::I4,
            Ty::Long => Primitive::I8,
            Ty::Double => Primitive::R8,
        })
    }
}

/// Variables of each type, and behind them counters of loops by depth.
const VARIABLES: u16 = 3;
const COUNTERS: u16 = 6;
/// Variables, counters, and the result.
const LOCALS: u16 = 3 * VARIABLES + COUNTERS + 1;

/// What code may call and catch, by the names that the sample gives.
#[derive(Clone, Debug, Default)]
struct Known(HashMap<String, Token>);

impl Known {
    fn read(line: &str) -> Self {
        let tokens = line.split_whitespace().skip(1).map(|part| {
            let (name, token) = part.split_once('=').unwrap();
            (name.to_owned(), Token(u32::from_str_radix(token, 16).unwrap()))
        });
        Self(tokens.collect())
    }

    fn token(&self, name: &str) -> Token {
        self.0[name]
    }
}

impl Tokens for Known {
    fn call_effect(&self, token: Token) -> Option<CallEffect> {
        let (name, _) = self.0.iter().find(|(_, known)| **known == token)?;
        let (parameters, returns) = match name.as_str() {
            "Note" | "NoteLong" | "NoteDouble" => (1, false),
            "Mix" | "Wide" | "Half" => (2, true),
            "MayThrow" | "ToInt" | "ToLong" => (1, true),
            "Leave" | "Fail" => (0, false),
            "New" => return Some(CallEffect { has_this: true, parameters: 0, returns: false }),
            _ => return None,
        };
        Some(CallEffect { has_this: false, parameters, returns })
    }
}

/// Where decisions come from. At its end all of them are the simplest ones, so that shorter tapes
/// are simpler programs.
struct Tape<'a> {
    decisions: &'a [u16],
}

impl Tape<'_> {
    fn next(&mut self) -> u16 {
        let Some((&first, rest)) = self.decisions.split_first() else { return 0 };
        self.decisions = rest;
        first
    }

    fn below(&mut self, limit: u16) -> u16 {
        self.next() % limit
    }

    fn is_over(&self) -> bool {
        self.decisions.is_empty()
    }

    fn int(&mut self) -> i32 {
        match self.below(6) {
            0 => i32::from(self.below(12)) - 2,
            1 => i32::from(self.next() as i16),
            2 => i32::MAX - i32::from(self.below(3)),
            3 => i32::MIN + i32::from(self.below(3)),
            _ => (i32::from(self.next()) << 16) | i32::from(self.next()),
        }
    }

    fn long(&mut self) -> i64 {
        match self.below(4) {
            0 => i64::from(self.below(12)) - 2,
            1 => i64::MIN + i64::from(self.below(3)),
            _ => (i64::from(self.int()) << 32) ^ i64::from(self.int()),
        }
    }

    fn double(&mut self) -> f64 {
        match self.below(6) {
            0 => f64::from(self.below(9)) - 2.0,
            1 => f64::from(self.int()) / 7.0,
            2 => [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::MIN_POSITIVE, f64::MAX]
                [usize::from(self.below(6))],
            _ => self.long() as f64 * 1e-3,
        }
    }
}

/// A place in the code that is made.
#[derive(Clone, Copy)]
struct Mark(usize);

/// Where a statement is.
#[derive(Clone, Copy)]
struct Place {
    depth: u16,
    loops: u16,
    /// Inside of a try block or handler: one has to leave.
    protected: bool,
    /// Inside of a handler that one cannot leave at all.
    finally: bool,
    /// Inside of a catch handler, where `rethrow` is allowed.
    catch: bool,
}

type Protected = (ClauseKind, Option<Mark>, [Mark; 4]);

/// Makes code of decisions.
struct Writer<'a> {
    tape: Tape<'a>,
    known: &'a Known,
    returns: Option<Ty>,
    /// Locals in front of all that are used.
    unused: u16,
    code: Vec<u8>,
    marks: Vec<Option<usize>>,
    /// Where a distance stands, what it counts from, and where it leads.
    distances: Vec<(usize, usize, Mark)>,
    clauses: Vec<Protected>,
    exit: Mark,
}

/// A method that can be sent.
#[derive(Clone, Debug)]
struct Program {
    returns: Option<Ty>,
    body: MethodBody<'static>,
    locals: Vec<u8>,
    arguments: String,
}

impl Writer<'_> {
    fn opcode(&mut self, opcode: Opcode) {
        let code = opcode.code();
        if code > 0xff {
            self.code.push((code >> 8) as u8);
        }
        self.code.push(code as u8);
    }

    fn token(&mut self, opcode: Opcode, name: &str) {
        self.opcode(opcode);
        self.code.extend(self.known.token(name).0.to_le_bytes());
    }

    fn call(&mut self, name: &str) {
        self.token(Opcode::Call, name);
    }

    fn int(&mut self, value: i32) {
        match (i8::try_from(value), self.tape.below(2)) {
            (Ok(0), 0) => self.opcode(Opcode::LdcI40),
            (Ok(short), 0) => {
                self.opcode(Opcode::LdcI4S);
                self.code.push(short as u8);
            }
            _ => {
                self.opcode(Opcode::LdcI4);
                self.code.extend(value.to_le_bytes());
            }
        }
    }

    fn constant(&mut self, ty: Ty) {
        match ty {
            Ty::Int => {
                let value = self.tape.int();
                self.int(value);
            }
            Ty::Long => {
                let value = self.tape.long();
                self.opcode(Opcode::LdcI8);
                self.code.extend(value.to_le_bytes());
            }
            Ty::Double => {
                let value = self.tape.double();
                self.opcode(Opcode::LdcR8);
                self.code.extend(value.to_le_bytes());
            }
        }
    }

    /// In one of the forms that there are for it.
    fn variable(&mut self, named: [Opcode; 4], short: Opcode, long: Opcode, index: u16) {
        match self.tape.below(3) {
            0 if index < 4 => self.opcode(named[usize::from(index)]),
            0 | 1 if index < 256 => {
                self.opcode(short);
                self.code.push(index as u8);
            }
            _ => {
                self.opcode(long);
                self.code.extend(index.to_le_bytes());
            }
        }
    }

    fn load(&mut self, index: u16) {
        let named = [Opcode::Ldloc0, Opcode::Ldloc1, Opcode::Ldloc2, Opcode::Ldloc3];
        self.variable(named, Opcode::LdlocS, Opcode::Ldloc, self.unused + index);
    }

    fn store(&mut self, index: u16) {
        let named = [Opcode::Stloc0, Opcode::Stloc1, Opcode::Stloc2, Opcode::Stloc3];
        self.variable(named, Opcode::StlocS, Opcode::Stloc, self.unused + index);
    }

    fn address(&mut self, index: u16) {
        let index = self.unused + index;
        match u8::try_from(index) {
            Ok(short) => {
                self.opcode(Opcode::LdlocaS);
                self.code.push(short);
            }
            Err(_) => {
                self.opcode(Opcode::Ldloca);
                self.code.extend(index.to_le_bytes());
            }
        }
    }

    fn local(&mut self, ty: Ty) -> u16 {
        ty as u16 * VARIABLES + self.tape.below(VARIABLES)
    }

    fn argument(&mut self, ty: Ty) -> u16 {
        match ty {
            Ty::Int => 3 * self.tape.below(2),
            Ty::Long => 1,
            Ty::Double => 2,
        }
    }

    fn mark(&mut self) -> Mark {
        self.marks.push(None);
        Mark(self.marks.len() - 1)
    }

    fn here(&mut self, mark: Mark) {
        self.marks[mark.0] = Some(self.code.len());
    }

    fn new_here(&mut self) -> Mark {
        let mark = self.mark();
        self.here(mark);
        mark
    }

    fn branch(&mut self, opcode: Opcode, to: Mark) {
        self.opcode(opcode);
        let at = self.code.len();
        self.distances.push((at, at + 4, to));
        self.code.extend([0; 4]);
    }

    fn switch(&mut self, cases: &[Mark]) {
        self.opcode(Opcode::Switch);
        self.code.extend((cases.len() as u32).to_le_bytes());
        let end = self.code.len() + 4 * cases.len();
        for &case in cases {
            self.distances.push((self.code.len(), end, case));
            self.code.extend([0; 4]);
        }
    }

    /// A branch that is taken or not.
    fn decide(&mut self, to: Mark, depth: u16) {
        const COMPARE: [Opcode; 10] = [
            Opcode::Beq,
            Opcode::BneUn,
            Opcode::Blt,
            Opcode::Bgt,
            Opcode::Ble,
            Opcode::Bge,
            Opcode::BltUn,
            Opcode::BgtUn,
            Opcode::BleUn,
            Opcode::BgeUn,
        ];
        let how = self.tape.below(12);
        match COMPARE.get(usize::from(how)) {
            Some(&compare) => {
                let ty = Ty::ALL[usize::from(self.tape.below(3))];
                self.value(ty, depth);
                self.value(ty, depth);
                self.branch(compare, to);
            }
            None => {
                let ty = Ty::ALL[usize::from(self.tape.below(2))];
                self.value(ty, depth);
                self.branch(if how == 10 { Opcode::Brtrue } else { Opcode::Brfalse }, to);
            }
        }
    }

    /// Leaves a value of this type on the stack, on top of whatever is there.
    fn value(&mut self, ty: Ty, depth: u16) {
        if depth == 0 || self.tape.is_over() {
            return self.leaf(ty);
        }
        let depth = depth - 1;
        match self.tape.below(14) {
            0..=2 => self.leaf(ty),
            3 => {
                self.value(ty, depth);
                self.value(ty, depth);
                self.binary(ty);
            }
            4 => {
                self.value(ty, depth);
                self.opcode(Opcode::Dup);
                self.binary(ty);
            }
            5 => {
                self.value(ty, depth);
                let not = ty != Ty::Double && self.tape.below(2) == 0;
                self.opcode(if not { Opcode::Not } else { Opcode::Neg });
            }
            6 => {
                // Two ways with one value each, on top of what is there.
                let (other, end) = (self.mark(), self.mark());
                self.decide(other, depth);
                self.value(ty, depth);
                self.branch(Opcode::Br, end);
                self.here(other);
                self.value(ty, depth);
                self.here(end);
            }
            7 => {
                let cases: Vec<Mark> = (0..self.tape.below(4)).map(|_| self.mark()).collect();
                let end = self.mark();
                self.value(Ty::Int, depth);
                self.int(3);
                self.opcode(Opcode::And);
                self.switch(&cases);
                self.value(ty, depth);
                self.branch(Opcode::Br, end);
                for case in cases {
                    self.here(case);
                    self.value(ty, depth);
                    self.branch(Opcode::Br, end);
                }
                self.here(end);
            }
            8 => {
                // By its address.
                let local = self.local(ty);
                self.address(local);
                if self.tape.below(3) == 0 {
                    self.opcode(Opcode::Volatile);
                }
                self.opcode(match ty {
                    Ty::Int => Opcode::LdindI4,
                    Ty::Long => Opcode::LdindI8,
                    Ty::Double => Opcode::LdindR8,
                });
            }
            how => match ty {
                Ty::Int => self.more_int(how - 9, depth),
                Ty::Long => self.more_long(how - 9, depth),
                Ty::Double => self.more_double(how - 9, depth),
            },
        }
    }

    fn leaf(&mut self, ty: Ty) {
        match self.tape.below(3) {
            0 => self.constant(ty),
            1 => {
                let local = self.local(ty);
                self.load(local);
            }
            _ => {
                let named = [Opcode::Ldarg0, Opcode::Ldarg1, Opcode::Ldarg2, Opcode::Ldarg3];
                let argument = self.argument(ty);
                self.variable(named, Opcode::LdargS, Opcode::Ldarg, argument);
            }
        }
    }

    fn binary(&mut self, ty: Ty) {
        const BOTH: [Opcode; 5] = [Opcode::Add, Opcode::Sub, Opcode::Mul, Opcode::Div, Opcode::Rem];
        const WHOLE: [Opcode; 11] = [
            Opcode::And,
            Opcode::Or,
            Opcode::Xor,
            Opcode::DivUn,
            Opcode::RemUn,
            Opcode::AddOvf,
            Opcode::SubOvf,
            Opcode::MulOvf,
            Opcode::AddOvfUn,
            Opcode::SubOvfUn,
            Opcode::MulOvfUn,
        ];
        let whole = ty != Ty::Double && self.tape.below(2) == 0;
        let among: &[Opcode] = if whole { &WHOLE } else { &BOTH };
        let opcode = among[usize::from(self.tape.below(among.len() as u16))];
        self.opcode(opcode);
    }

    /// By a number of bits that the type has.
    fn shift(&mut self, bits: i32, depth: u16) {
        self.value(Ty::Int, depth);
        self.int(bits);
        self.opcode(Opcode::And);
        let opcode = [Opcode::Shl, Opcode::Shr, Opcode::ShrUn][usize::from(self.tape.below(3))];
        self.opcode(opcode);
    }

    fn more_int(&mut self, how: u16, depth: u16) {
        match how {
            0 => {
                let ty = Ty::ALL[usize::from(self.tape.below(3))];
                self.value(ty, depth);
                self.value(ty, depth);
                let compare = [Opcode::Ceq, Opcode::Cgt, Opcode::CgtUn, Opcode::Clt, Opcode::CltUn];
                let opcode = compare[usize::from(self.tape.below(5))];
                self.opcode(opcode);
            }
            1 => {
                self.value(Ty::Int, depth);
                self.shift(31, depth);
            }
            2 => {
                self.value(Ty::Int, depth);
                self.value(Ty::Int, depth);
                self.call("Mix");
            }
            3 => {
                self.value(Ty::Int, depth);
                self.call("MayThrow");
            }
            _ => {
                let narrow = [
                    Opcode::ConvI1,
                    Opcode::ConvU1,
                    Opcode::ConvI2,
                    Opcode::ConvU2,
                    Opcode::ConvOvfI2,
                ];
                match self.tape.below(4) {
                    0 => {
                        self.value(Ty::Double, depth);
                        self.call("ToInt");
                    }
                    1 => {
                        self.value(Ty::Long, depth);
                        self.opcode(Opcode::ConvI4);
                    }
                    2 => {
                        self.value(Ty::Long, depth);
                        self.opcode(Opcode::ConvOvfI4);
                    }
                    _ => {
                        self.value(Ty::Int, depth);
                        let opcode = narrow[usize::from(self.tape.below(5))];
                        self.opcode(opcode);
                    }
                }
            }
        }
    }

    fn more_long(&mut self, how: u16, depth: u16) {
        match how {
            0 => {
                self.value(Ty::Long, depth);
                self.shift(63, depth);
            }
            1 => {
                self.value(Ty::Long, depth);
                self.value(Ty::Int, depth);
                self.call("Wide");
            }
            2 => {
                self.value(Ty::Double, depth);
                self.call("ToLong");
            }
            3 => {
                self.value(Ty::Int, depth);
                self.opcode(Opcode::ConvU8);
            }
            _ => {
                self.value(Ty::Int, depth);
                self.opcode(Opcode::ConvI8);
            }
        }
    }

    fn more_double(&mut self, how: u16, depth: u16) {
        match how {
            0 | 1 => {
                self.value(Ty::Double, depth);
                self.value(Ty::Long, depth);
                self.call("Half");
            }
            2 => {
                self.value(Ty::Long, depth);
                self.opcode(Opcode::ConvR8);
            }
            _ => {
                self.value(Ty::Int, depth);
                self.opcode(Opcode::ConvR8);
            }
        }
    }

    fn block(&mut self, place: Place) {
        if place.depth == 0 {
            return;
        }
        for _ in 0..self.tape.below(5) {
            self.statement(Place { depth: place.depth - 1, ..place });
        }
    }

    fn statement(&mut self, place: Place) {
        const DEPTH: u16 = 4;
        let ty = Ty::ALL[usize::from(self.tape.below(3))];
        match self.tape.below(16) {
            0..=2 => {
                self.value(ty, DEPTH);
                let local = self.local(ty);
                self.store(local);
            }
            3 => {
                self.value(ty, DEPTH);
                let argument = self.argument(ty);
                self.opcode(Opcode::StargS);
                self.code.push(argument as u8);
            }
            4 => {
                let local = self.local(ty);
                self.address(local);
                self.value(ty, DEPTH);
                self.opcode(match ty {
                    Ty::Int => Opcode::StindI4,
                    Ty::Long => Opcode::StindI8,
                    Ty::Double => Opcode::StindR8,
                });
            }
            5 | 6 => {
                self.value(ty, DEPTH);
                self.call(["Note", "NoteLong", "NoteDouble"][ty as usize]);
            }
            7 => {
                self.value(ty, DEPTH);
                self.opcode(Opcode::Pop);
            }
            8 => {
                let (other, end) = (self.mark(), self.mark());
                self.decide(other, DEPTH);
                self.block(place);
                self.branch(Opcode::Br, end);
                self.here(other);
                self.block(place);
                self.here(end);
            }
            9 if place.loops < COUNTERS => {
                let counter = 3 * VARIABLES + place.loops;
                let count = i32::from(self.tape.below(4));
                self.int(count);
                self.store(counter);
                let (start, end) = (self.new_here(), self.mark());
                self.load(counter);
                self.branch(Opcode::Brfalse, end);
                self.block(Place { loops: place.loops + 1, ..place });
                self.load(counter);
                self.int(1);
                self.opcode(Opcode::Sub);
                self.store(counter);
                self.branch(Opcode::Br, start);
                self.here(end);
            }
            10 => {
                let cases: Vec<Mark> = (0..self.tape.below(4)).map(|_| self.mark()).collect();
                let end = self.mark();
                self.value(Ty::Int, DEPTH);
                self.int(3);
                self.opcode(Opcode::And);
                self.switch(&cases);
                self.block(place);
                self.branch(Opcode::Br, end);
                for case in cases {
                    self.here(case);
                    self.block(place);
                    self.branch(Opcode::Br, end);
                }
                self.here(end);
            }
            11..=13 => self.protected(place),
            14 if place.catch && self.tape.below(2) == 0 => self.opcode(Opcode::Rethrow),
            14 => {
                self.token(Opcode::Newobj, "New");
                self.opcode(Opcode::Throw);
            }
            15 if !place.finally => self.return_now(place),
            _ => self.opcode(Opcode::Nop),
        }
    }

    fn return_now(&mut self, place: Place) {
        if let Some(ty) = self.returns {
            self.value(ty, 2);
        }
        if place.protected {
            if self.returns.is_some() {
                self.store(LOCALS - 1);
            }
            self.branch(Opcode::Leave, self.exit);
        } else {
            self.opcode(Opcode::Ret);
        }
    }

    fn protected(&mut self, place: Place) {
        let place = Place { protected: true, ..place };
        let end = self.mark();
        let start = self.new_here();
        // A catch handler may be followed by another one for the same block.
        self.block(place);
        self.branch(Opcode::Leave, end);
        let try_end = self.new_here();
        let catch = Place { catch: true, ..place };
        match self.tape.below(4) {
            0 | 1 => {
                let types = ["ArithmeticException", "OwnException", "Exception"];
                for _ in 0..=self.tape.below(2) {
                    let kind =
                        ClauseKind::Catch(self.known.token(types[usize::from(self.tape.below(3))]));
                    let handler = self.new_here();
                    self.opcode(Opcode::Pop);
                    // No finally handler is around this one for `leave`; what is around the whole
                    // still counts.
                    self.block(Place { finally: place.finally, ..catch });
                    self.branch(Opcode::Leave, end);
                    let handler_end = self.new_here();
                    self.clauses.push((kind, None, [start, try_end, handler, handler_end]));
                }
                self.here(end);
            }
            2 => {
                self.block(Place { finally: true, catch: false, ..place });
                self.opcode(Opcode::Endfinally);
                self.here(end);
                self.clauses.push((ClauseKind::Finally, None, [start, try_end, try_end, end]));
            }
            _ => {
                self.block(Place { finally: true, catch: false, ..place });
                self.opcode(Opcode::Endfinally);
                self.here(end);
                self.clauses.push((ClauseKind::Fault, None, [start, try_end, try_end, end]));
            }
        }
    }

    fn method(mut self) -> Program {
        let arguments = (
            self.tape.int(),
            self.tape.long(),
            self.tape.double().to_bits().cast_signed(),
            self.tape.int(),
        );
        for _ in 0..=self.tape.below(6) {
            self.statement(Place {
                depth: 4,
                loops: 0,
                protected: false,
                finally: false,
                catch: false,
            });
        }
        self.here(self.exit);
        if self.returns.is_some() {
            self.load(LOCALS - 1);
        }
        self.opcode(Opcode::Ret);
        for (at, from, to) in std::mem::take(&mut self.distances) {
            let distance = self.marks[to.0].unwrap() as i32 - from as i32;
            self.code[at..at + 4].copy_from_slice(&distance.to_le_bytes());
        }
        let offset = |mark: Mark| self.marks[mark.0].unwrap() as u32;
        let clauses =
            self.clauses.iter().map(|(kind, _, [start, try_end, handler, end])| ExceptionClause {
                kind: *kind,
                try_block: CodeRange { start: offset(*start), end: offset(*try_end) },
                handler: CodeRange { start: offset(*handler), end: offset(*end) },
            });
        let mut types = vec![TypeSig::Primitive(Primitive::I8); usize::from(self.unused)];
        types.extend(Ty::ALL.iter().flat_map(|ty| (0..VARIABLES).map(|_| ty.primitive())));
        types.extend((0..COUNTERS).map(|_| Ty::Int.primitive()));
        types.push(self.returns.unwrap_or(Ty::Int).primitive());
        let header = MethodHeader {
            init_locals: true,
            local_signature: SIGNATURE,
            ..MethodHeader::default()
        };
        let mut body = MethodBody { header, clauses: clauses.collect(), code: self.code.into() };
        body.header.max_stack = max_stack(&body, self.returns.is_some(), self.known).unwrap();
        let (a, b, c, d) = arguments;
        Program {
            returns: self.returns,
            body,
            locals: encode_locals(&types).unwrap(),
            arguments: format!("{a} {b} {c} {d}"),
        }
    }
}

impl Program {
    fn of(decisions: &[u16], known: &Known) -> Self {
        let mut tape = Tape { decisions };
        let returns =
            [Some(Ty::Int), Some(Ty::Long), Some(Ty::Double), None][usize::from(tape.below(4))];
        let unused = [0, 0, 2, 250][usize::from(tape.below(4))];
        let writer = Writer {
            tape,
            known,
            returns,
            unused,
            code: Vec::new(),
            marks: vec![None],
            distances: Vec::new(),
            clauses: Vec::new(),
            exit: Mark(0),
        };
        writer.method()
    }

    fn shape(&self) -> MethodShape {
        MethodShape {
            arguments: ARGUMENTS,
            locals: cil::count_locals(&self.locals).unwrap(),
            returns: self.returns.is_some(),
        }
    }

    /// As the sample wants it.
    fn line(&self) -> String {
        let encoded = self.body.encode().unwrap();
        // Behind a fat header, which it has for its locals, the code, and what is put to a multiple
        // of four.
        let code = &encoded[12..12 + self.body.code.len()];
        let clauses = encoded.get((12 + code.len()).next_multiple_of(4)..).unwrap_or_default();
        let kind = match self.returns {
            Some(Ty::Int) => 'i',
            Some(Ty::Long) => 'l',
            Some(Ty::Double) => 'd',
            None => 'v',
        };
        let mut line = format!("{kind} {} ", self.body.header.max_stack);
        for bytes in [&self.locals, code, clauses] {
            if bytes.is_empty() {
                line.push('-');
            }
            for byte in bytes {
                write!(line, "{byte:02x}").unwrap();
            }
            line.push(' ');
        }
        line + &self.arguments
    }

    fn edit(&self) -> MethodEditor {
        let encoded = self.body.encode().unwrap();
        MethodEditor::new(&MethodBody::parse(&encoded).unwrap(), Some(&self.locals)).unwrap()
    }

    /// What the editor makes, checked.
    fn with(&self, editor: &MethodEditor, known: &Known) -> Self {
        let locals = editor.local_signature().unwrap();
        let shape = MethodShape { locals: cil::count_locals(&locals).unwrap(), ..self.shape() };
        let Edited { body, offsets } =
            editor.finish_verified(shape, known, &mut Verifier::default()).unwrap();
        assert!(offsets.is_sorted_by_key(|pair| pair.new));
        Self { body, locals, ..self.clone() }
    }
}

/// What calls of `Leave` and `Fail` a rewritten program adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Adds {
    Nothing,
    Finally,
    Template,
}

/// Numbers for the rewriters.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }
}

/// Does nothing, in a place that control may come to.
fn nop(editor: &mut MethodEditor, at: InstructionId, random: &mut Random) {
    let previous = editor.instruction(editor.previous(at));
    // Between a prefix and its instruction there is no place.
    if previous
        .as_ref()
        .is_some_and(|previous| matches!(previous.opcode, Opcode::Volatile | Opcode::Tail))
    {
        return;
    }
    match random.below(2) {
        0 if previous.is_none_or(|previous| previous.opcode.flow().continues()) => {
            editor.insert_before(at, Opcode::Nop);
        }
        _ => {
            editor.insert_at(at, Opcode::Nop);
        }
    }
}

fn nops(editor: &mut MethodEditor, random: &mut Random) {
    for at in editor.ids().collect::<Vec<_>>() {
        if random.below(3) == 0 {
            nop(editor, at, random);
        }
    }
}

/// Adds enough nops to make branches long and clauses large.
fn far(editor: &mut MethodEditor, random: &mut Random) {
    let ids: Vec<_> = editor.ids().collect();
    for _ in 0..3 {
        let at = ids[random.below(ids.len())];
        for _ in 0..random.below(300) {
            nop(editor, at, random);
        }
    }
}

/// Puts locals in front of all others. The program that comes out has to be edited anew: the editor
/// only adds behind.
fn shifted(program: &Program, known: &Known, random: &mut Random) -> Program {
    let new = [
        TypeSig::Primitive(Primitive::Object),
        TypeSig::Primitive(Primitive::I1),
        TypeSig::Primitive(Primitive::R8),
        TypeSig::Primitive(Primitive::String),
    ];
    let count = [1, 3, 5, 256, 300][random.below(5)];
    let mut types: Vec<TypeSig> = (0..count).map(|_| new[random.below(4)].clone()).collect();
    types.extend(decode_locals(&program.locals).unwrap());
    let mut editor = program.edit();
    for at in editor.ids().collect::<Vec<_>>() {
        let instruction = editor.instruction(at).unwrap();
        let name = instruction.opcode.mnemonic();
        let index = match (instruction.opcode.implied_local(), instruction.operand) {
            (Some(index), _) | (None, cil::NewOperand::Plain(Operand::Local(index))) => {
                index + count as u16
            }
            _ => continue,
        };
        let new = match name {
            name if name.starts_with("ldloca") => NewInstruction::ldloca(index),
            name if name.starts_with("ldloc") => NewInstruction::ldloc(index),
            _ => NewInstruction::stloc(index),
        };
        editor.replace(at, new);
    }
    let locals = encode_locals(&types).unwrap();
    let shape = MethodShape { locals: types.len() as u16, ..program.shape() };
    let body = editor.finish_with(program.body.header.max_stack).unwrap().body;
    verify(&body, shape, known).unwrap();
    Program { body, locals, ..program.clone() }
}

/// The local for the result of a body that is wrapped.
fn result(program: &Program, editor: &mut MethodEditor) -> Option<u16> {
    let result = program.returns.map(|ty| editor.add_local(&ty.primitive()).unwrap());
    editor.set_local_signature(SIGNATURE);
    result
}

fn in_finally(program: &Program, known: &Known) -> Program {
    let mut editor = program.edit();
    let result = result(program, &mut editor);
    let leave = NewInstruction::token(Opcode::Call, known.token("Leave"));
    editor.wrap_body(Handler::Finally(vec![leave]), result).unwrap();
    program.with(&editor, known)
}

/// As timing does it: a call in a fault handler, and one in front of the one return.
fn in_template(program: &Program, known: &Known) -> Program {
    let mut editor = program.edit();
    let result = result(program, &mut editor);
    let call = |name| NewInstruction::token(Opcode::Call, known.token(name));
    editor.wrap_body(Handler::Fault(vec![call("Fail")]), result).unwrap();
    let mut at = editor.previous(MethodEditor::END);
    if editor.instruction(at).is_some_and(|last| last.opcode == Opcode::Ret) {
        if result.is_some() {
            at = editor.previous(at);
        }
        editor.insert_at(at, call("Leave"));
    }
    editor.insert_before(editor.first(), Opcode::Nop);
    program.with(&editor, known)
}

fn variants(program: &Program, known: &Known, seed: u64) -> [(&'static str, Program, Adds); WAYS] {
    let random = &mut Random(seed | 1);
    let edited =
        |edit: &dyn Fn(&mut MethodEditor, &mut Random), program: &Program, random: &mut Random| {
            let mut editor = program.edit();
            edit(&mut editor, random);
            program.with(&editor, known)
        };
    let unchanged = edited(&|_, _| {}, program, random);
    let with_nops = edited(&nops, program, random);
    let with_many = edited(&far, program, random);
    let with_locals = shifted(program, known, random);
    let with_finally = in_finally(program, known);
    let timed = in_template(program, known);
    let all = in_finally(
        &shifted(&edited(&far, &edited(&nops, &timed, random), random), known, random),
        known,
    );
    [
        ("laid out anew", unchanged, Adds::Nothing),
        ("nops", with_nops, Adds::Nothing),
        ("long branches", with_many, Adds::Nothing),
        ("locals in front", with_locals, Adds::Nothing),
        ("in try and finally", with_finally, Adds::Finally),
        ("as timing does", timed, Adds::Template),
        ("timed, far, shifted, in try and finally", all, Adds::Finally),
    ]
}

/// A process that runs programs.
struct Runner {
    process: TargetProcess,
    known: Known,
}

impl Runner {
    fn start(runtime: Runtime) -> Self {
        let mut process = Sample::named("differential").start(runtime, &[""; 0]);
        let tokens = process.wait_for_line(LIMIT, |line| line.starts_with("tokens ")).unwrap();
        process.wait_for_ready();
        Self { process, known: Known::read(&tokens) }
    }

    /// The answers; fewer if the process ends. Each is what came out, the notes, and calls of
    /// `Leave` and of `Fail`.
    fn run(&mut self, lines: &[String]) -> Vec<(String, u32, u32)> {
        let _ = self.process.send_line(&(lines.join("\n") + "\n"));
        let mut answers = Vec::new();
        for _ in lines {
            let Ok(answer) = self.process.wait_for_line(LIMIT, |_| true) else { break };
            let words: Vec<&str> = answer.split(' ').collect();
            let [what, notes, left, failed] = words[..] else { break };
            answers.push((
                format!("{what} {notes}"),
                left.parse().unwrap(),
                failed.parse().unwrap(),
            ));
        }
        answers
    }
}

/// What was made: a generator that makes next to nothing would find nothing.
#[derive(Debug, Default)]
struct Seen {
    bodies: u32,
    programs: u32,
    protected: u32,
    thrown: u32,
    long: u32,
}

fn check(
    runner: &RefCell<Runner>,
    runtime: Runtime,
    seen: &RefCell<Seen>,
    decisions: &[u16],
) -> Result<(), String> {
    let runner = &mut *runner.borrow_mut();
    let known = runner.known.clone();
    let program = Program::of(decisions, &known);
    let shown = |program: &Program| {
        let mut text = String::new();
        disassemble(&mut text, &program.body, &decode_locals(&program.locals).unwrap(), &NoNames)
            .unwrap();
        text
    };
    verify(&program.body, program.shape(), &known)
        .map_err(|error| format!("{error}\n{}", shown(&program)))?;
    let seed = decisions.iter().fold(0x9e37_79b9_7f4a_7c15_u64, |seed, next| {
        (seed ^ u64::from(*next)).wrapping_mul(0x0100_0000_01b3)
    });
    let variants = variants(&program, &known, seed);
    let lines: Vec<String> = [program.line()]
        .into_iter()
        .chain(variants.iter().map(|(_, program, _)| program.line()))
        .collect();
    let answers = runner.run(&lines);
    if answers.len() < lines.len() {
        let transcript = runner.process.transcript();
        *runner = Runner::start(runtime);
        return Err(format!(
            "the process ended at body {}\n{}\n{transcript}",
            answers.len(),
            shown(&program)
        ));
    }
    let (expected, ..) = &answers[0];
    let thrown = expected.starts_with('!');
    if expected.starts_with("!InvalidProgramException") {
        return Err(format!("it is not valid\n{}", shown(&program)));
    }
    for ((name, variant, adds), (what, left, failed)) in variants.iter().zip(&answers[1..]) {
        let calls = match adds {
            Adds::Nothing => (0, 0),
            Adds::Finally if name.starts_with("timed") => {
                if thrown {
                    (1, 1)
                } else {
                    (2, 0)
                }
            }
            Adds::Finally => (1, 0),
            Adds::Template => {
                if thrown {
                    (0, 1)
                } else {
                    (1, 0)
                }
            }
        };
        if (what, (*left, *failed)) != (expected, calls) {
            let (before, after) = (shown(&program), shown(variant));
            return Err(format!(
                "{name}: {what} with {left} and {failed} calls instead of {expected} with {calls:?}; arguments {}\n{before}\n{after}",
                program.arguments
            ));
        }
    }
    let mut seen = seen.borrow_mut();
    seen.programs += 1;
    seen.bodies += lines.len() as u32;
    seen.protected += u32::from(!program.body.clauses.is_empty());
    seen.thrown += u32::from(thrown);
    seen.long += u32::from(program.body.code.len() > 200);
    Ok(())
}

#[test]
fn rewritten_bodies_do_the_same_on_real_runtimes() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let cases = number("CLRSCOPE_DIFFERENTIAL_CASES").map_or(CASES, |cases| cases as u32);
    let mut seed = [7; 32];
    seed[..8].copy_from_slice(&number("CLRSCOPE_DIFFERENTIAL_SEED").unwrap_or(1).to_le_bytes());
    on_sample_runtimes_at_once(|runtime| {
        let runner = RefCell::new(Runner::start(runtime));
        let seen = RefCell::new(Seen::default());
        let config = Config {
            cases,
            failure_persistence: None,
            max_shrink_iters: 2000,
            ..Config::default()
        };
        let mut tests =
            TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
        let result = tests.run(&prop::collection::vec(any::<u16>(), 0..400), |decisions| {
            check(&runner, runtime, &seen, &decisions).map_err(TestCaseError::fail)
        });
        if let Err(error) = result {
            panic!("{runtime}: {error}");
        }
        let seen = seen.into_inner();
        println!("{runtime}: {seen:?}");
        assert_eq!(seen.bodies, cases * (WAYS as u32 + 1), "{runtime}");
        assert!(seen.protected * 4 > cases && seen.long * 4 > cases, "{runtime}: {seen:?}");
        assert!(seen.thrown * 10 > cases && seen.thrown < cases, "{runtime}: {seen:?}");
    });
}
