//! Where tasks keep what a heap snapshot reads of them: the state of an asynchronous method, and
//! the continuation of a task.
//!
//! Metadata must not be queried while the runtime is suspended. So classes are queried after a
//! snapshot that met them, and the fields of their objects are read from the next snapshot on.

use crate::host::runtime::Runtime;
use cil::{MethodBody, Opcode, Operand, TokenKind};
use corprof::ids::{ClassId, ModuleId};
use corprof::metadata::Metadata;
use corprof::metadata::token::{MemberRef, TypeDef};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use wire::Machine;

/// What the names of boxes have in them, before the type of the state machine: those of tasks, the
/// same in programs that look for forgotten tasks, and those of pooled `ValueTask`s.
const BOXES: [&str; 3] =
    ["+AsyncStateMachineBox<", "+DebugFinalizableAsyncStateMachineBox<", "+StateMachineBox<"];

/// The field of a box that is the state machine, or refers to it.
const MACHINE: &str = "StateMachine";
/// The field of a task that holds its continuation.
const CONTINUATION: &str = "m_continuationObject";
/// The field of a state machine that is its state, as Roslyn, mcs, and the compilers of Visual
/// Basic and F# call it.
const STATES: [&str; 4] = ["<>1__state", "$PC", "$State", "ResumptionPoint"];

/// Slots for classes whose objects are read: a power of two, of which three quarters are used.
const SLOTS: usize = 32 << 10;
/// Classes from which a class is derived that are followed.
const MOST_PARENTS: usize = 8;
/// Places in one method where it waits.
const MOST_POINTS: usize = 4096;

/// Where the fields of an object are, in bytes from its address; 0 for one that it does not have:
/// the class stands there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The state of its state machine, 32 bits.
    pub state: u32,
    /// The continuation of the task, a reference.
    pub continuation: u32,
}

/// What is read of the objects of which classes.
pub struct Plans {
    slots: Box<[(u64, Plan)]>,
    count: usize,
}

impl Plans {
    fn new() -> Self {
        Self { slots: vec![(0, Plan::default()); SLOTS].into_boxed_slice(), count: 0 }
    }

    /// Bytes that this holds.
    pub fn memory(&self) -> usize {
        size_of_val(&*self.slots)
    }

    fn place(&self, class: u64) -> usize {
        (class.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (self.slots.len() - 1)
    }

    /// What is read of objects of a class, if anything is. It is asked for each object of the heap.
    pub fn of(&self, class: u64) -> Option<Plan> {
        let mut at = self.place(class);
        // There is always a free slot.
        loop {
            match self.slots.get(at) {
                Some((0, _)) | None => return None,
                Some((known, plan)) if *known == class => return Some(*plan),
                Some(_) => at = (at + 1) & (self.slots.len() - 1),
            }
        }
    }

    /// False if there is no room for it.
    fn insert(&mut self, class: u64, plan: Plan) -> bool {
        let mut at = self.place(class);
        while let Some(slot) = self.slots.get_mut(at) {
            if slot.0 == class {
                slot.1 = plan;
                return true;
            }
            if slot.0 == 0 {
                if self.count >= SLOTS / 4 * 3 {
                    return false;
                }
                *slot = (class, plan);
                self.count += 1;
                return true;
            }
            at = (at + 1) & (SLOTS - 1);
        }
        false
    }
}

/// What is known of classes.
pub struct Machines {
    /// What is read of the objects of each class. Snapshots borrow it while the runtime is
    /// suspended.
    pub plans: Arc<Plans>,
    /// Classes that were asked about.
    asked: HashSet<u64>,
    /// The class of tasks, and where its objects hold their continuation; `None` until that was
    /// looked up.
    task: Option<Option<(ClassId, u32)>>,
    /// Classes that there was no room for.
    pub left_out: u64,
}

impl Default for Machines {
    /// Nothing is known yet.
    fn default() -> Self {
        Self { plans: Arc::new(Plans::new()), asked: HashSet::new(), task: None, left_out: 0 }
    }
}

impl Machines {
    /// Forgets all: classes may have been unloaded, and others may come at their addresses.
    pub fn forget(&mut self) {
        self.plans = Arc::new(Plans::new());
        self.asked.clear();
        self.task = None;
    }

    /// Asks about a class; gives the asynchronous method, if it is that of a box.
    pub fn learn(&mut self, runtime: &Runtime, class: u64) -> Option<Machine> {
        if !self.asked.insert(class) {
            return None;
        }
        let task = *self.task.get_or_insert_with(|| find_task(runtime));
        let id = ClassId(class as usize);
        let name = runtime.names().class(id).ok()?;
        let is_box = BOXES.iter().any(|part| name.contains(part));
        let mut plan = Plan::default();
        let (mut at, mut machine) = (id, None);
        for _ in 0..MOST_PARENTS {
            if let Some((_, offset)) = task.filter(|(class, _)| *class == at) {
                plan.continuation = offset;
                break;
            }
            let Ok(about) = runtime.info().class_info(at) else { break };
            if is_box
                && machine.is_none()
                && let Some(offset) = field(runtime, at, &[MACHINE])
            {
                machine = about.type_arguments.last().map(|machine| (*machine, offset));
            }
            let Some(parent) = about.parent else { break };
            at = parent;
        }
        let found =
            machine.filter(|(machine, _)| !machine.is_null()).and_then(|(machine, offset)| {
                let state = field(runtime, machine, &STATES);
                if let Some(state) = state {
                    // Compilers make classes of state machines when they do not optimise; boxes
                    // refer to those.
                    match runtime.info().box_value_offset(machine) {
                        Ok(_) => plan.state = offset.saturating_add(state),
                        Err(_) => self.insert(machine.0 as u64, Plan { state, continuation: 0 }),
                    }
                }
                about(runtime, class, machine)
            });
        if plan != Plan::default() {
            self.insert(class, plan);
        }
        found
    }

    fn insert(&mut self, class: u64, plan: Plan) {
        // No snapshot is under way, so nobody else holds it.
        let inserted = Arc::get_mut(&mut self.plans).is_some_and(|plans| plans.insert(class, plan));
        self.left_out += u64::from(!inserted);
    }
}

/// The class of tasks, from the module that has `System.Object`.
fn find_task(runtime: &Runtime) -> Option<(ClassId, u32)> {
    let info = runtime.info();
    let modules = info.modules().ok()?.filter_map(|module| module.ok()?.non_null());
    let found = modules.filter_map(|module| {
        let metadata = info.module_metadata(module).ok()?;
        metadata.find_type_def("System.Object", None).ok()??;
        let task = metadata.find_type_def("System.Threading.Tasks.Task", None).ok()??;
        let class = info.class_from_token(module, task).ok()?;
        Some((class, offset_of(runtime, &metadata, class, &[CONTINUATION])?))
    });
    found.into_iter().next()
}

/// Where the first field of one of these names is in objects (or values) of a class.
fn field(runtime: &Runtime, class: ClassId, wanted: &[&str]) -> Option<u32> {
    let (module, _) = runtime.info().class_token(class).ok()?;
    offset_of(runtime, &runtime.names().metadata(module.non_null()?).ok()?, class, wanted)
}

fn offset_of(
    runtime: &Runtime,
    metadata: &Metadata,
    class: ClassId,
    wanted: &[&str],
) -> Option<u32> {
    let layout = runtime.info().class_layout(class).ok()?;
    let is_it = |props: corprof::metadata::FieldProps<'_>| wanted.contains(&props.name.as_str());
    layout
        .fields
        .iter()
        .find(|field| metadata.field_props(field.field).is_ok_and(is_it))
        .map(|field| field.offset)
}

/// Where the method of a state machine waits.
fn about(runtime: &Runtime, class: u64, machine: ClassId) -> Option<Machine> {
    let (module, type_def) = runtime.info().class_token(machine).ok()?;
    let module: ModuleId = module.non_null()?;
    let metadata = runtime.names().metadata(module).ok()?;
    let method = metadata.methods_named(type_def, "MoveNext").ok()?.next()?.ok()?;
    let body = runtime.info().il_function_body(module, method).ok()?;
    let points = points(&metadata, type_def, body);
    let (_, path, _) = runtime.module(module);
    Some(Machine { class, path, mvid: runtime.mvid(module), token: method.raw(), points })
}

/// The states that a method sets in itself to wait, each with the IL offset where it does.
fn points(metadata: &Metadata, type_def: TypeDef, body: &[u8]) -> Vec<(i32, u32)> {
    let Ok(body) = MethodBody::parse(body) else { return Vec::new() };
    let own: HashSet<u32> = metadata
        .fields(type_def)
        .flatten()
        .filter(|field| {
            metadata.field_props(*field).is_ok_and(|props| STATES.contains(&props.name.as_str()))
        })
        .map(|field| field.raw())
        .collect();
    // In a generic type, fields are referred to by their name.
    let mut referred: HashMap<u32, bool> = HashMap::new();
    let mut is_state = |token: cil::Token| match token.kind() {
        Some(TokenKind::FieldDef) => own.contains(&token.0),
        Some(TokenKind::MemberRef) => *referred.entry(token.0).or_insert_with(|| {
            let props = metadata.member_ref_props(MemberRef::from_rid(token.rid()));
            props.is_ok_and(|props| STATES.contains(&props.name.as_str()))
        }),
        _ => false,
    };
    points_of(&body, &mut is_state)
}

/// As [`points`], where the fields are known that hold the state.
fn points_of(
    body: &MethodBody<'_>,
    is_state: &mut dyn FnMut(cil::Token) -> bool,
) -> Vec<(i32, u32)> {
    let mut points = Vec::new();
    // The number on top of the stack, where it was put there just before.
    let mut number = None;
    for instruction in body.instructions() {
        let Ok(instruction) = instruction else { break };
        number = match instruction.opcode {
            Opcode::LdcI4M1 => Some(-1),
            Opcode::LdcI40 => Some(0),
            Opcode::LdcI41 => Some(1),
            Opcode::LdcI42 => Some(2),
            Opcode::LdcI43 => Some(3),
            Opcode::LdcI44 => Some(4),
            Opcode::LdcI45 => Some(5),
            Opcode::LdcI46 => Some(6),
            Opcode::LdcI47 => Some(7),
            Opcode::LdcI48 => Some(8),
            Opcode::LdcI4S | Opcode::LdcI4 => match instruction.operand {
                Operand::Int8(number) => Some(i32::from(number)),
                Operand::Int32(number) => Some(number),
                _ => None,
            },
            // Roslyn keeps a copy in a variable.
            Opcode::Dup
            | Opcode::Stloc0
            | Opcode::Stloc1
            | Opcode::Stloc2
            | Opcode::Stloc3
            | Opcode::StlocS => number,
            Opcode::Stfld => {
                // Below zero it runs, or has ended.
                if let Some(state) = number.filter(|state| *state >= 0)
                    && instruction.token().is_some_and(&mut *is_state)
                    && points.len() < MOST_POINTS
                {
                    points.push((state, instruction.offset));
                }
                None
            }
            _ => None,
        };
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_found_again() {
        let mut plans = Plans::new();
        for class in 1..=20_000_u64 {
            let plan = Plan { state: class as u32, continuation: 8 };
            assert!(plans.insert(class * 0x78, plan));
        }
        for class in 1..=20_000_u64 {
            assert_eq!(plans.of(class * 0x78).map(|plan| plan.state), Some(class as u32));
        }
        assert_eq!(plans.of(1), None);
        assert_eq!(plans.of(0), None);
        let full = (0..SLOTS as u64)
            .filter(|class| !plans.insert((1 << 40) + class, Plan::default()))
            .count();
        assert_eq!(full, SLOTS - (SLOTS / 4 * 3 - 20_000));
        assert_eq!(plans.of(7 << 50), None);
    }

    #[test]
    fn states_in_which_a_method_waits_are_read_from_its_code() {
        // ldarg.0; ldc.i4.m1; dup; stloc.0; stfld state        runs on
        // ldarg.0; ldc.i4.0; dup; stloc.0; stfld state         waits
        // ldarg.0; ldc.i4.s 9; stfld state                     waits, as mcs writes it
        // ldarg.0; ldc.i4.3; stfld other
        // ldarg.0; ldc.i4.s -2; stfld state                    has ended
        // ret
        let state = [0x7d, 1, 0, 0, 4];
        let code: Vec<u8> = [
            &[0x02, 0x15, 0x25, 0x0a][..],
            &state,
            &[0x02, 0x16, 0x25, 0x0a],
            &state,
            &[0x02, 0x1f, 9],
            &state,
            &[0x02, 0x19, 0x7d, 2, 0, 0, 4],
            &[0x02, 0x1f, 0xfe],
            &state,
            &[0x2a],
        ]
        .concat();
        let body: Vec<u8> = [&[(code.len() as u8) << 2 | 2][..], &code].concat();
        let body = MethodBody::parse(&body).unwrap();
        let points = points_of(&body, &mut |token| token.0 == 0x0400_0001);
        assert_eq!(points, [(0, 13), (9, 21)]);
    }
}
