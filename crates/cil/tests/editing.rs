//! Programs made at random do the same after they are edited. What they do is found out by an
//! interpreter of the few instructions that they use, with exceptions and all.

use cil::{
    CallEffect, ClauseKind, CodeRange, EditError, Edited, ExceptionClause, Handler, Instruction,
    InstructionId, Label, MethodBody, MethodEditor, MethodHeader, MethodShape, NewInstruction,
    NoNames, Opcode, Operand, Primitive, Token, Tokens, TypeSig, disassemble, verify,
};
use proptest::prelude::*;

/// Locals that programs work on.
const VARIABLES: u16 = 4;
/// Counters of loops, by depth of nesting.
const COUNTERS: u16 = 8;
/// The value to be returned.
const RESULT: u16 = VARIABLES + COUNTERS;
const LOCALS: u16 = RESULT + 1;
const EXCEPTION: Token = Token(0x0100_0001);
const SIGNATURE: Token = Token(0x1100_0001);

struct NoCalls;

impl Tokens for NoCalls {
    fn call_effect(&self, _: Token) -> Option<CallEffect> {
        None
    }
}

#[derive(Clone, Debug)]
enum Statement {
    Nops(u8),
    Set(u16, i32),
    Add(u16, u16),
    If(u16, Vec<Statement>, Vec<Statement>),
    Loop(u8, Vec<Statement>),
    Switch(u16, Vec<Vec<Statement>>),
    Try(Kind, Vec<Statement>, Vec<Statement>),
    Throw(u16),
    Return(u16),
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Catch,
    Filter,
    Finally,
    Fault,
}

fn any_statement() -> impl Strategy<Value = Statement> {
    let variable = 0..VARIABLES;
    let leaf = prop_oneof![
        3 => any::<u8>().prop_map(Statement::Nops),
        5 => (variable.clone(), -3_i32..4).prop_map(|(to, value)| Statement::Set(to, value)),
        5 => (variable.clone(), variable.clone()).prop_map(|(to, from)| Statement::Add(to, from)),
        1 => variable.clone().prop_map(Statement::Throw),
        1 => variable.clone().prop_map(Statement::Return),
    ];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        let block = || prop::collection::vec(inner.clone(), 0..4);
        let kind =
            prop::sample::select(vec![Kind::Catch, Kind::Filter, Kind::Finally, Kind::Fault]);
        prop_oneof![
            (variable.clone(), block(), block())
                .prop_map(|(on, yes, no)| Statement::If(on, yes, no)),
            (0_u8..4, block()).prop_map(|(count, body)| Statement::Loop(count, body)),
            (variable.clone(), prop::collection::vec(block(), 0..4))
                .prop_map(|(on, cases)| Statement::Switch(on, cases)),
            (kind, block(), block())
                .prop_map(|(kind, body, handler)| Statement::Try(kind, body, handler)),
        ]
    })
}

/// Where a statement is.
#[derive(Clone, Copy)]
struct Place {
    loops: u16,
    /// Inside a try block or handler, so that one has to leave.
    protected: bool,
    /// Inside a finally or fault handler, so that one cannot return.
    finally: bool,
}

struct Compiler {
    editor: MethodEditor,
    exit: Label,
    /// For each list of statements, where they start, and where the last one ends.
    blocks: Vec<Vec<Label>>,
}

impl Compiler {
    /// Gives the blocks as well.
    fn compile(statements: &[Statement]) -> (MethodEditor, Vec<Vec<Label>>) {
        let mut editor = MethodEditor::empty();
        for _ in 0..LOCALS {
            editor.add_local(&TypeSig::Primitive(Primitive::I4)).unwrap();
        }
        editor.set_local_signature(SIGNATURE);
        let exit = editor.label();
        let mut compiler = Self { editor, exit, blocks: Vec::new() };
        compiler.block(statements, Place { loops: 0, protected: false, finally: false });
        compiler.mark(exit);
        compiler.emit(NewInstruction::ldloc(RESULT));
        compiler.emit(Opcode::Ret);
        (compiler.editor, compiler.blocks)
    }

    fn emit(&mut self, instruction: impl Into<NewInstruction>) -> InstructionId {
        self.editor.push(instruction)
    }

    /// Binds a label to what comes next: there always comes something.
    fn mark(&mut self, label: Label) {
        self.editor.bind(label, MethodEditor::END);
    }

    fn here(&mut self) -> Label {
        let label = self.editor.label();
        self.mark(label);
        label
    }

    fn block(&mut self, statements: &[Statement], place: Place) {
        let mut starts = vec![self.here()];
        for statement in statements {
            self.statement(statement, place);
            starts.push(self.here());
        }
        self.blocks.push(starts);
    }

    fn statement(&mut self, statement: &Statement, place: Place) {
        match statement {
            Statement::Nops(count) => (0..*count).for_each(|_| _ = self.emit(Opcode::Nop)),
            Statement::Set(to, value) => {
                self.emit(NewInstruction::ldc_i4(*value));
                self.emit(NewInstruction::stloc(*to));
            }
            Statement::Add(to, from) => {
                self.emit(NewInstruction::ldloc(*to));
                self.emit(NewInstruction::ldloc(*from));
                self.emit(Opcode::Add);
                self.emit(NewInstruction::stloc(*to));
            }
            Statement::If(on, yes, no) => {
                let (otherwise, end) = (self.editor.label(), self.editor.label());
                self.emit(NewInstruction::ldloc(*on));
                self.emit(NewInstruction::branch(Opcode::Brfalse, otherwise));
                self.block(yes, place);
                self.emit(NewInstruction::branch(Opcode::Br, end));
                self.mark(otherwise);
                self.block(no, place);
                self.mark(end);
            }
            Statement::Loop(count, body) => {
                let counter = VARIABLES + place.loops;
                let end = self.editor.label();
                self.emit(NewInstruction::ldc_i4((*count).into()));
                self.emit(NewInstruction::stloc(counter));
                let start = self.here();
                self.emit(NewInstruction::ldloc(counter));
                self.emit(NewInstruction::branch(Opcode::Brfalse, end));
                self.block(body, Place { loops: place.loops + 1, ..place });
                self.emit(NewInstruction::ldloc(counter));
                self.emit(NewInstruction::ldc_i4(-1));
                self.emit(Opcode::Add);
                self.emit(NewInstruction::stloc(counter));
                self.emit(NewInstruction::branch(Opcode::Br, start));
                self.mark(end);
            }
            Statement::Switch(on, cases) => {
                let labels: Vec<Label> = cases.iter().map(|_| self.editor.label()).collect();
                let end = self.editor.label();
                self.emit(NewInstruction::ldloc(*on));
                self.emit(NewInstruction::switch(labels.clone()));
                self.emit(NewInstruction::branch(Opcode::Br, end));
                for (label, case) in labels.into_iter().zip(cases) {
                    self.mark(label);
                    self.block(case, place);
                    self.emit(NewInstruction::branch(Opcode::Br, end));
                }
                self.mark(end);
            }
            Statement::Try(kind, body, handler) => self.protected(*kind, body, handler, place),
            Statement::Throw(what) => {
                // Never the last instruction of a block: what follows is dead, and still has to be
                // right.
                self.emit(NewInstruction::ldloc(*what));
                self.emit(Opcode::Throw);
            }
            Statement::Return(_) if place.finally => {}
            Statement::Return(what) => {
                self.emit(NewInstruction::ldloc(*what));
                if place.protected {
                    self.emit(NewInstruction::stloc(RESULT));
                    self.emit(NewInstruction::branch(Opcode::Leave, self.exit));
                } else {
                    self.emit(Opcode::Ret);
                }
            }
        }
    }

    fn protected(&mut self, kind: Kind, body: &[Statement], handler: &[Statement], place: Place) {
        let place = Place { protected: true, ..place };
        let end = self.editor.label();
        let try_start = self.here();
        self.block(body, place);
        self.emit(NewInstruction::branch(Opcode::Leave, end));
        let mut filter = None;
        let handler_start = match kind {
            Kind::Catch => self.editor.label(),
            Kind::Filter => {
                // Takes the exceptions that are not zero.
                filter = Some(self.here());
                self.emit(Opcode::Endfilter);
                self.editor.label()
            }
            Kind::Finally | Kind::Fault => self.editor.label(),
        };
        self.mark(handler_start);
        let clause = match kind {
            Kind::Catch | Kind::Filter => {
                self.emit(NewInstruction::stloc(0));
                self.block(handler, place);
                self.emit(NewInstruction::branch(Opcode::Leave, end));
                if filter.is_some() { ClauseKind::Filter(0) } else { ClauseKind::Catch(EXCEPTION) }
            }
            Kind::Finally | Kind::Fault => {
                self.block(handler, Place { finally: true, ..place });
                self.emit(Opcode::Endfinally);
                if matches!(kind, Kind::Finally) { ClauseKind::Finally } else { ClauseKind::Fault }
            }
        };
        self.mark(end);
        let try_end = filter.unwrap_or(handler_start);
        self.editor.add_clause(clause, filter, (try_start, try_end), (handler_start, end));
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Returned(i32),
    Thrown(i32),
    /// It runs for very long: nothing is said about it.
    TooLong,
}

/// What follows when a finally handler has ended.
#[derive(Clone, Copy, Debug)]
enum After {
    Leave { from: u32, to: u32 },
    Throw { from: u32, exception: i32 },
}

struct Interpreter<'a> {
    clauses: &'a [ExceptionClause],
    /// Running finally handlers: where they are, which clause they belong to.
    finally: Vec<(CodeRange, usize, After)>,
}

enum Go {
    To(u32),
    Handle { at: u32, exception: i32 },
    Uncaught(i32),
}

impl Interpreter<'_> {
    /// Enters a handler: those that it is not inside of are over.
    fn enter(&mut self, at: u32) {
        while self.finally.last().is_some_and(|(range, ..)| !range.contains(at)) {
            self.finally.pop();
        }
    }

    fn leave(&mut self, from: u32, to: u32, first: usize) -> Go {
        for (index, clause) in self.clauses.iter().enumerate().skip(first) {
            let exits = clause.try_block.contains(from) && !clause.try_block.contains(to);
            if exits && clause.kind == ClauseKind::Finally {
                self.finally.push((clause.handler, index, After::Leave { from, to }));
                return Go::To(clause.handler.start);
            }
        }
        Go::To(to)
    }

    fn throw(&mut self, from: u32, exception: i32, first: usize) -> Go {
        for (index, clause) in self.clauses.iter().enumerate().skip(first) {
            if !clause.try_block.contains(from) {
                continue;
            }
            let at = clause.handler.start;
            match clause.kind {
                ClauseKind::Filter(_) if exception == 0 => {}
                ClauseKind::Catch(_) | ClauseKind::Filter(_) => {
                    self.enter(at);
                    return Go::Handle { at, exception };
                }
                ClauseKind::Finally | ClauseKind::Fault => {
                    self.enter(at);
                    self.finally.push((clause.handler, index, After::Throw { from, exception }));
                    return Go::To(at);
                }
            }
        }
        Go::Uncaught(exception)
    }
}

/// Runs a body; gives the locals at the end as well.
fn run(body: &MethodBody<'_>, locals: usize, steps: u32) -> (Outcome, Vec<i32>) {
    let mut locals = vec![0; locals];
    let mut machine = Interpreter { clauses: &body.clauses, finally: Vec::new() };
    let mut stack = Vec::new();
    let mut at = 0;
    for _ in 0..steps {
        let instruction = Instruction::decode(&body.code, at).unwrap();
        let local = usize::from(instruction.local().unwrap_or(0));
        let mut go = Go::To(instruction.end());
        match (instruction.opcode.long().unwrap_or(instruction.opcode), instruction.operand) {
            (Opcode::Nop, _) => {}
            (Opcode::Pop, _) => drop(stack.pop().unwrap()),
            (Opcode::Add, _) => {
                let (b, a): (i32, i32) = (stack.pop().unwrap(), stack.pop().unwrap());
                stack.push(a.wrapping_add(b));
            }
            (Opcode::LdcI4 | Opcode::LdcI4S, Operand::Int32(value)) => stack.push(value),
            (Opcode::LdcI4S, Operand::Int8(value)) => stack.push(value.into()),
            (opcode, _) if (Opcode::LdcI4M1..=Opcode::LdcI48).contains(&opcode) => {
                stack.push(opcode as i32 - Opcode::LdcI40 as i32);
            }
            (
                Opcode::Ldloc0 | Opcode::Ldloc1 | Opcode::Ldloc2 | Opcode::Ldloc3 | Opcode::LdlocS,
                _,
            ) => {
                stack.push(locals[local]);
            }
            (
                Opcode::Stloc0 | Opcode::Stloc1 | Opcode::Stloc2 | Opcode::Stloc3 | Opcode::StlocS,
                _,
            ) => {
                locals[local] = stack.pop().unwrap();
            }
            (Opcode::Br, Operand::Target(target)) => go = Go::To(target),
            (Opcode::Brfalse, Operand::Target(target)) => {
                if stack.pop().unwrap() == 0 {
                    go = Go::To(target);
                }
            }
            (Opcode::Switch, Operand::Switch(targets)) => {
                let case = stack.pop().unwrap();
                let target = usize::try_from(case).ok().and_then(|case| targets.iter().nth(case));
                go = target.map_or(go, Go::To);
            }
            (Opcode::Leave, Operand::Target(target)) => {
                stack.clear();
                go = machine.leave(at, target, 0);
            }
            (Opcode::Endfinally, _) => {
                let (_, clause, after) = machine.finally.pop().unwrap();
                go = match after {
                    After::Leave { from, to } => machine.leave(from, to, clause + 1),
                    After::Throw { from, exception } => machine.throw(from, exception, clause + 1),
                };
            }
            (Opcode::Throw, _) => go = machine.throw(at, stack.pop().unwrap(), 0),
            (Opcode::Ret, _) => return (Outcome::Returned(stack.pop().unwrap()), locals),
            other => panic!("{other:?} is not understood"),
        }
        match go {
            Go::To(target) => at = target,
            Go::Handle { at: handler, exception } => {
                stack.clear();
                stack.push(exception);
                at = handler;
            }
            Go::Uncaught(exception) => return (Outcome::Thrown(exception), locals),
        }
    }
    (Outcome::TooLong, locals)
}

/// Lays out, verifies, encodes, parses and compares.
fn finish(editor: &MethodEditor, locals: u16) -> Edited {
    let edited = editor.finish(true, &NoCalls).unwrap();
    let shape = MethodShape { arguments: 0, locals, returns: true };
    let heights = verify(&edited.body, shape, &NoCalls).unwrap_or_else(|error| {
        let mut text = String::new();
        disassemble(&mut text, &edited.body, &[], &NoNames).unwrap();
        panic!("{error}\n{text}")
    });
    assert_eq!(heights.max(), edited.body.header.max_stack);
    let encoded = edited.body.encode().unwrap();
    let again = MethodBody::parse(&encoded).unwrap();
    assert_eq!((&again.code, &again.clauses), (&edited.body.code, &edited.body.clauses));
    edited
}

fn add_local(editor: &mut MethodEditor) -> u16 {
    let local = editor.add_local(&TypeSig::Primitive(Primitive::I4)).unwrap();
    editor.set_local_signature(SIGNATURE);
    local
}

/// Adds 1 to a local.
fn count(local: u16) -> Vec<NewInstruction> {
    vec![
        NewInstruction::ldloc(local),
        NewInstruction::ldc_i4(1),
        Opcode::Add.into(),
        NewInstruction::stloc(local),
    ]
}

/// What a program does and leaves in its variables; `None` if it runs too long.
fn observe(
    body: &MethodBody<'_>,
    locals: u16,
    steps: u32,
) -> Option<(Outcome, Vec<i32>, Vec<i32>)> {
    let (outcome, mut all) = run(body, locals.into(), steps);
    let added = all.split_off(LOCALS.into());
    all.truncate(VARIABLES.into());
    (outcome != Outcome::TooLong).then_some((outcome, all, added))
}

/// The same for an edit that adds little.
fn observe_edited(editor: &MethodEditor, locals: u16) -> (Outcome, Vec<i32>, Vec<i32>) {
    observe(&finish(editor, locals).body, locals, 100_000).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn programs_survive(
        program in prop::collection::vec(any_statement(), 1..6),
        places in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index, prop::sample::Index)>(), 8),
    ) {
        let (built, blocks) = Compiler::compile(&program);
        let original = finish(&built, LOCALS).body;
        let Some((outcome, variables, _)) = observe(&original, LOCALS, 10_000) else { return Ok(()) };

        // Read and written without a change: nothing is different.
        let blob = built.local_signature().unwrap();
        let loaded = MethodEditor::new(&original, Some(&blob)).unwrap();
        prop_assert_eq!(&finish(&loaded, LOCALS).body, &original);

        // A probe in front of each instruction, for those who fall into it and for those who branch
        // to it.
        for everyone in [false, true] {
            let mut editor = loaded.clone();
            let local = add_local(&mut editor);
            for id in loaded.ids() {
                // Code in front of a handler belongs to nobody, and may not run into it.
                let before = loaded.instruction(loaded.previous(id));
                let fallen_into = before.is_none_or(|instruction| instruction.opcode.flow().continues());
                for instruction in count(local) {
                    if everyone || !fallen_into {
                        editor.insert_at(id, instruction);
                    } else {
                        editor.insert_before(id, instruction);
                    }
                }
            }
            let edited = finish(&editor, LOCALS + 1);
            prop_assert_eq!(edited.offsets.len(), loaded.ids().count());
            let (again, after, _) = observe(&edited.body, LOCALS + 1, 100_000).unwrap();
            prop_assert_eq!((&again, &after), (&outcome, &variables));
        }

        // All of it in a try block, whose finally handler runs exactly once.
        let mut editor = loaded.clone();
        let (result, counter) = (add_local(&mut editor), add_local(&mut editor));
        editor.wrap_body(Handler::Finally(count(counter)), Some(result)).unwrap();
        let (again, after, added) = observe_edited(&editor, LOCALS + 2);
        prop_assert_eq!((&again, &after, added[1]), (&outcome, &variables, 1));

        // A fault handler runs only on exceptions, and a catch handler swallows them.
        let mut editor = loaded.clone();
        let (result, counter) = (add_local(&mut editor), add_local(&mut editor));
        editor.wrap_body(Handler::Fault(count(counter)), Some(result)).unwrap();
        let (again, after, added) = observe_edited(&editor, LOCALS + 2);
        let thrown = matches!(outcome, Outcome::Thrown(_));
        prop_assert_eq!((&again, &after, added[1]), (&outcome, &variables, i32::from(thrown)));
        let result = add_local(&mut editor);
        let handler = Handler::Catch { exception: EXCEPTION, code: vec![NewInstruction::stloc(result)] };
        editor.wrap_body(handler, Some(result)).unwrap();
        let (again, after, _) = observe_edited(&editor, LOCALS + 3);
        let (Outcome::Returned(value) | Outcome::Thrown(value)) = outcome else { unreachable!() };
        prop_assert_eq!((&again, &after), (&Outcome::Returned(value), &variables));

        // Some statements in a try block, in any block of the program, and others in what that made
        // of it.
        let mut editor = built.clone();
        let (result, counter) = (add_local(&mut editor), add_local(&mut editor));
        for (block, a, b) in places {
            let block = block.get(&blocks);
            let (a, b) = (a.index(block.len()), b.index(block.len()));
            let at = |index: usize| editor.bound_to(block[index]).unwrap();
            let (start, end) = (at(a.min(b)), at(a.max(b)));
            if start == end {
                continue;
            }
            let mut next = editor.clone();
            match next.wrap(start, end, Handler::Finally(count(counter)), Some(result)) {
                Ok(()) => editor = next,
                // Labels of a block that was cut by an earlier round.
                Err(EditError::EmptyRange | EditError::BranchInto | EditError::CutsClause { .. }) => continue,
                Err(error) => panic!("{error}"),
            }
            let (again, after, _) = observe_edited(&editor, LOCALS + 2);
            prop_assert_eq!((&again, &after), (&outcome, &variables));
        }
    }

    #[test]
    fn any_code_is_edited_or_an_error(
        code in prop::collection::vec(
            prop_oneof![prop::sample::select(vec![0x00, 0x17, 0x26, 0x2a, 0x2b, 0x2d, 0x45, 0x7a, 0xdc, 0xde]), any::<u8>()],
            0..40,
        ),
        ranges in prop::collection::vec((0_u32..12, 0_u32..12, 0_u32..12, 0_u32..12), 0..3),
        (start, end) in (0_u32..20, 0_u32..20),
    ) {
        let range = |start, end| CodeRange { start, end };
        let clauses = ranges.into_iter().map(|(a, b, c, d)| ExceptionClause {
            kind: ClauseKind::Finally,
            try_block: range(a, b),
            handler: range(c, d),
        });
        let body = MethodBody { header: MethodHeader::default(), code: code.into(), clauses: clauses.collect() };
        let Ok(mut editor) = MethodEditor::new(&body, None) else { return Ok(()) };
        let at = |offset| editor.at_offset(offset).unwrap_or(MethodEditor::END);
        let (start, end) = (at(start), at(end));
        let wrapped = editor.wrap(start, end, Handler::Fault(Vec::new()), None);
        editor.remove(start);
        editor.insert_at(end, Opcode::Nop);
        let edited = editor.finish_with(8).unwrap();
        let _ = (wrapped, verify(&edited.body, MethodShape::default(), &NoCalls));
        prop_assert!(MethodBody::parse(&edited.body.encode().unwrap()).is_ok());
    }
}
