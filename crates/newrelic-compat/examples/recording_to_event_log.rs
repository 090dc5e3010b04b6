//! Makes an event log of a recording of the agent's own native profiler, for `clrscope validate`.
//!
//! `recording_to_event_log METHODS LINES AGENT RUNTIME NAME=ASSEMBLY…` prints the log. `METHODS` is
//! a JSON list of the methods in the order in which they were rewritten: `token`, `assembly`,
//! `type`, `method`, `functionId`, `before`, `after`, `before_localsig`, `after_localsig`, and
//! `tokens`, what the tokens of the bodies stand for. `LINES` is the profiler's own log. The
//! assemblies are those that the methods belong to, as they were before: they have the names of
//! what a recording names by its signature only.
//!
//! Everything that was added to a module is named as the recording names it. Recordings do not name
//! types that were added and occur in nothing but signatures; [`CLASSES`] does.

use cil::{
    MethodBody, MethodSig, Names, Token, TokenKind, TypeSig, decode_field, decode_locals,
    decode_method_spec, disassemble, method_text, nested, quoted, type_text, types_text,
};
use metadata::{Assembly, Metadata, Row, column, table};
use newrelic_compat::event_log::{Body, Event, Head, What};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::time::SystemTime;
use std::{env, fs};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Classes in the signatures of members of the framework, in their order: facts about the
/// framework.
const CLASSES: [(&str, &[&str]); 7] = [
    ("System.Reflection.Assembly::LoadFrom", &["System.Reflection.Assembly"]),
    ("System.Reflection.Assembly::GetType", &["System.Type"]),
    ("System.Type::GetMethod", &["System.Reflection.MethodInfo", "System.Type"]),
    ("System.Type::GetTypeFromHandle", &["System.Type", "System.RuntimeTypeHandle"]),
    (
        "System.CannotUnloadAppDomainException::GetAgentShimMethodFromAppDomainStorageOrReflectionOrThrow",
        &["System.Reflection.MethodInfo", "System.Type"],
    ),
    (
        "System.CannotUnloadAppDomainException::GetMethodFromAppDomainStorageOrReflectionOrThrow",
        &["System.Reflection.MethodInfo", "System.Type"],
    ),
    ("Invoke", &["System.Action`2", "System.Exception"]),
];

/// Where the agent's own profiler looks for a class: an assembly that the module refers to, or a
/// new reference.
fn scope(class: &str, agent: &str) -> &'static str {
    match class {
        "System.Type" | "System.Exception" => "System.Runtime",
        "System.Action`2" => "System.Core",
        "System.RuntimeTypeHandle" if agent != "10.53" => "System.Private.CoreLib",
        "System.RuntimeTypeHandle" => "System.Runtime",
        _ => "System.Reflection",
    }
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [methods, lines, agent, runtime, assemblies @ ..] = &arguments[..] else {
        return Err("give METHODS LINES AGENT RUNTIME NAME=ASSEMBLY…".into());
    };
    let recorded: Vec<Value> = serde_json::from_str(&fs::read_to_string(methods)?)?;
    let files = assemblies.iter().map(|assembly| {
        let (name, path) = assembly.split_once('=').ok_or("give assemblies as NAME=PATH")?;
        Ok((name, fs::read(path)?))
    });
    let files = files.collect::<Outcome<Vec<_>>>()?;
    let mut modules = BTreeMap::new();
    for (name, bytes) in &files {
        let of_module: Vec<_> =
            recorded.iter().filter(|method| method["assembly"] == *name).collect();
        modules.insert(*name, Module::new(Assembly::parse(bytes)?, &of_module, agent)?);
    }
    let head = Head { process: "Target", pid: 0, runtime, agent, mode: "recorded" };
    print!("{}", head.line(SystemTime::UNIX_EPOCH));
    let mut rest: VecDeque<&Value> = recorded.iter().collect();
    for (number, (method, rule, refusal)) in (1_u64..).zip(decisions(&fs::read_to_string(lines)?)) {
        let (module, name) =
            method.strip_prefix('[').and_then(|rest| rest.split_once(']')).ok_or("no assembly")?;
        let line = match refusal {
            Some(reason) => Event { module, name, rule, what: What::Refusal(reason) }.line(),
            None => {
                let recorded =
                    rest.pop_front().ok_or_else(|| format!("no body is recorded for {method}"))?;
                let found = format!(
                    "[{}]{}.{}(",
                    text(recorded, "assembly")?,
                    text(recorded, "type")?,
                    text(recorded, "method")?
                );
                if !method.starts_with(&found) {
                    return Err(format!("{found} is recorded where {method} was rewritten").into());
                }
                let names = modules.get(module).ok_or_else(|| format!("{module} is missing"))?;
                rewrite(recorded, names, (module, name, rule))?
            }
        };
        print!("{}", line.at(number));
    }
    if let Some(more) = rest.front() {
        return Err(format!("no line tells that {} was rewritten", text(more, "method")?).into());
    }
    for module in modules.values() {
        for (token, class) in &module.deduced {
            eprintln!("{token}: {class}, which occurs in signatures only");
        }
    }
    Ok(())
}

/// What the lines of a log say of methods: the method, what it is instrumented as, and why it was
/// left alone.
fn decisions(log: &str) -> Vec<(&str, &str, Option<&str>)> {
    const BY_REFERENCE: &str = "By ref tokenization not supported.";
    let mut found: Vec<(&str, &str, Option<&str>)> = Vec::new();
    for line in log.lines() {
        if let Some((rule, method)) =
            line.strip_prefix("[Info ] Instrumenting ").and_then(|rest| rest.split_once(": "))
        {
            found.push((method, rule, None));
        } else if let Some(refused) = line.strip_prefix("[Error] ") {
            if refused == BY_REFERENCE {
                // The line before it names the method.
                if let Some((_, _, refusal)) = found.last_mut() {
                    *refusal = Some(BY_REFERENCE);
                }
            } else if let Some((reason, method)) = refused.split_once(": ") {
                found.push((method, "method", Some(reason)));
            }
        }
    }
    found
}

fn rewrite(
    recorded: &Value,
    module: &Module<'_>,
    (assembly, name, rule): (&str, &str, &str),
) -> Outcome<newrelic_compat::event_log::EventLine> {
    let id = u64::from_str_radix(text(recorded, "functionId")?, 16)?;
    let (before, after) = (hex(text(recorded, "before")?)?, hex(text(recorded, "after")?)?);
    let token = Token(u32::from_str_radix(text(recorded, "token")?, 16)?);
    if module.is_original(token) {
        let original = module.original.method(token.rid()).ok_or("no such method")?;
        // The bytes continue behind the body.
        if !original.body_bytes()?.is_some_and(|bytes| bytes.starts_with(&before)) {
            return Err(
                format!("{name} has another body in the assembly than in the recording").into()
            );
        }
    }
    let of = |body: &[u8], locals: &str| -> Outcome<String> {
        let locals = text(recorded, locals)?;
        let locals = hex(locals.strip_prefix("sig:").unwrap_or(locals))?;
        let locals = if locals.is_empty() { Vec::new() } else { decode_locals(&locals)? };
        let mut out = String::new();
        disassemble(&mut out, &MethodBody::parse(body)?, &locals, &OfMethod { module, id })?;
        match out.contains("mdtoken(") {
            true => Err(format!("{name}: a token has no name:\n{out}").into()),
            false => Ok(out),
        }
    };
    let (text_before, text_after) =
        (of(&before, "before_localsig")?, of(&after, "after_localsig")?);
    // Helpers name no method.
    let function = (rule != "helper method").then_some(id);
    let before = Body { bytes: &before, text: Some(&text_before) };
    let after = Body { bytes: &after, text: Some(&text_after) };
    Ok(Event { module: assembly, name, rule, what: What::Rewrite { function, before, after } }
        .line())
}

fn text<'a>(value: &'a Value, key: &str) -> Outcome<&'a str> {
    Ok(value[key].as_str().ok_or_else(|| format!("`{key}` is missing"))?)
}

fn hex(digits: &str) -> Outcome<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| Ok(u8::from_str_radix(str::from_utf8(pair)?, 16)?)).collect()
}

/// What the tokens of a module stand for.
struct Module<'a> {
    original: Assembly<'a>,
    tokens: BTreeMap<Token, String>,
    deduced: BTreeMap<Token, String>,
}

impl<'a> Module<'a> {
    fn new(original: Assembly<'a>, methods: &[&Value], agent: &str) -> Outcome<Self> {
        let mut tokens = BTreeMap::new();
        for method in methods {
            for (token, text) in method["tokens"].as_object().ok_or("`tokens` are missing")? {
                let token = Token(u32::from_str_radix(token, 16)?);
                let text = text.as_str().ok_or("a token without a text")?.to_owned();
                if tokens.insert(token, text.clone()).is_some_and(|earlier| earlier != text) {
                    return Err(format!("{token} stands for two things").into());
                }
            }
        }
        let mut module = Self { original, tokens, deduced: BTreeMap::new() };
        module.deduced = module.deduce(agent)?;
        Ok(module)
    }

    /// Names of added types that occur in nothing but signatures.
    fn deduce(&self, agent: &str) -> Outcome<BTreeMap<Token, String>> {
        let mut found = BTreeMap::new();
        for text in self.tokens.values() {
            let Some((member, signature)) = text.split_once(" sig:") else { continue };
            let in_framework = member.split_once(']').map_or(member, |(_, member)| member);
            let invoke = member.starts_with("typespec:") && member.ends_with("::Invoke");
            let key = if invoke { "Invoke" } else { in_framework };
            let Some((_, classes)) = CLASSES.iter().find(|(known, _)| *known == key) else {
                continue;
            };
            let seen = Seen::default();
            if invoke {
                let owner = member
                    .strip_prefix("typespec:")
                    .and_then(|owner| owner.strip_suffix("::Invoke"));
                let _type = type_text(&TypeSig::decode(&hex(owner.unwrap_or_default())?)?, &seen);
            } else {
                let _method = method_text(&MethodSig::decode(&hex(signature)?)?, "", &seen);
            }
            for (token, class) in seen.0.into_inner().into_iter().zip(*classes) {
                if token.kind() != Some(TokenKind::TypeRef)
                    || self.is_original(token)
                    || self.tokens.contains_key(&token)
                {
                    continue;
                }
                let name = format!("[{}]{class}", scope(class, agent));
                if found.insert(token, name.clone()).is_some_and(|earlier| earlier != name) {
                    return Err(format!("{token} would be two types").into());
                }
            }
        }
        Ok(found)
    }

    const fn metadata(&self) -> &Metadata<'a> {
        self.original.metadata()
    }

    fn is_original(&self, token: Token) -> bool {
        Row::of(token).is_some_and(|row| row.row <= self.metadata().rows(row.table))
    }

    fn blob(&self, row: Row, column: usize) -> Option<&[u8]> {
        self.metadata().blob_of(row.table, row.row, column)
    }

    fn type_def(&self, row: u32) -> Option<String> {
        let name = self.metadata().type_name(row, '/')?;
        Some(nested(&name.split('/').map(str::to_owned).collect::<Vec<_>>()))
    }

    /// A type that the original module refers to.
    fn type_ref(&self, row: u32) -> Option<String> {
        let metadata = self.metadata();
        let name = metadata.name(table::TYPE_REF, row, column::TYPE_NAME)?;
        let space = metadata.name(table::TYPE_REF, row, column::TYPE_SPACE)?;
        let name =
            quoted(&if space.is_empty() { name.into_owned() } else { format!("{space}.{name}") });
        match metadata.reference(table::TYPE_REF, row, column::TYPE_REF_SCOPE)? {
            Row { table: table::ASSEMBLY_REF, row } => {
                let assembly =
                    metadata.name(table::ASSEMBLY_REF, row, column::ASSEMBLY_REF_NAME)?;
                Some(format!("[{}]{name}", quoted(&assembly)))
            }
            Row { table: table::TYPE_REF, row } => Some(format!("{}/{name}", self.type_ref(row)?)),
            _ => None,
        }
    }

    /// A field of the original module.
    fn field(&self, row: Row, names: &impl Names) -> Option<String> {
        let metadata = self.metadata();
        let fields = |owner: &u32| metadata.members(table::TYPE_DEF, *owner, column::TYPE_FIELDS);
        let owner = (1..=metadata.rows(table::TYPE_DEF))
            .find(|owner| fields(owner).any(|field| field == row.row))?;
        let field = decode_field(self.blob(row, column::FIELD_SIGNATURE)?).ok()?;
        let name = metadata.name(table::FIELD, row.row, column::FIELD_NAME)?;
        Some(format!("{} {}::{}", type_text(&field, names), self.type_def(owner)?, quoted(&name)))
    }
}

/// The tokens of one method.
struct OfMethod<'b, 'a> {
    module: &'b Module<'a>,
    id: u64,
}

impl OfMethod<'_, '_> {
    /// `[Assembly,version]Space.Type`, `Space.Type` or `typespec:…`.
    fn owner(&self, text: &str) -> Option<String> {
        if let Some(signature) = text.strip_prefix("typespec:") {
            return Some(type_text(&TypeSig::decode(&hex(signature).ok()?).ok()?, self));
        }
        let Some((assembly, name)) = text.strip_prefix('[').and_then(|text| text.split_once(']'))
        else {
            return Some(quoted(text));
        };
        let assembly = assembly.split_once(',').map_or(assembly, |(name, _)| name);
        Some(format!("[{}]{}", quoted(assembly), quoted(name)))
    }

    /// `Type::Member sig:… inst:…`.
    fn member(&self, text: &str) -> Option<String> {
        const FIELD: u8 = 6;
        let (member, signature) = text.split_once(" sig:")?;
        let (signature, arguments) = match signature.split_once(" inst:") {
            Some((signature, arguments)) => {
                let arguments = decode_method_spec(&hex(arguments).ok()?).ok()?;
                (signature, format!("<{}>", types_text(&arguments, self)))
            }
            None => (signature, String::new()),
        };
        let (owner, name) = member.rsplit_once("::")?;
        let called = format!("{}::{}{arguments}", self.owner(owner)?, quoted(name));
        let signature = hex(signature).ok()?;
        if signature.first()? & 0xf == FIELD {
            return Some(format!("{} {called}", type_text(&decode_field(&signature).ok()?, self)));
        }
        Some(method_text(&MethodSig::decode(&signature).ok()?, &called, self))
    }

    fn original(&self, token: Token) -> Option<String> {
        let row = Row::of(token)?;
        match row.table {
            table::TYPE_DEF => self.module.type_def(row.row),
            table::TYPE_REF => self.module.type_ref(row.row),
            table::TYPE_SPEC => Some(type_text(
                &TypeSig::decode(self.module.blob(row, column::SIGNATURE)?).ok()?,
                self,
            )),
            table::FIELD => self.module.field(row, self),
            table::METHOD_DEF => self.module.original.method(row.row)?.reference(),
            _ => self.member(self.module.tokens.get(&token)?),
        }
    }
}

impl Names for OfMethod<'_, '_> {
    fn name(&self, token: Token) -> Option<String> {
        if self.module.is_original(token) {
            return self.original(token);
        }
        if let Some(class) = self.module.deduced.get(&token) {
            return Some(class.clone());
        }
        let text = self.module.tokens.get(&token)?;
        match token.kind()? {
            TokenKind::TypeRef | TokenKind::TypeSpec => self.owner(text),
            // The signature of an added field is not recorded. All of them are objects.
            TokenKind::FieldDef => self.member(&format!("{text} sig:061c")),
            _ => self.member(text),
        }
    }

    fn literal(&self, token: Token) -> Option<Vec<u16>> {
        let text = self.module.tokens.get(&token)?.strip_prefix("str:")?;
        let text = match text {
            "$CORECLR_NEW_RELIC_HOME/NewRelic.Agent.Core.dll" => "&agent".to_owned(),
            text => text.replace("_$FUNCTIONID", "_&function"),
        };
        Some(text.encode_utf16().collect())
    }

    fn number(&self, value: i64) -> Option<String> {
        (value.cast_unsigned() == self.id).then(|| "&function".to_owned())
    }
}

/// Tokens in the order in which a signature names them.
#[derive(Default)]
struct Seen(RefCell<Vec<Token>>);

impl Names for Seen {
    fn name(&self, token: Token) -> Option<String> {
        self.0.borrow_mut().push(token);
        None
    }

    fn literal(&self, _: Token) -> Option<Vec<u16>> {
        None
    }
}
