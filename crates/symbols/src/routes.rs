use crate::assembly_code::{AssemblyCode, Callee};
use cil::{MethodBody, Opcode, Operand, Token, TokenKind};
use metadata::{Assembly, Metadata, column, table};
use std::collections::HashMap;

/// The type whose methods map the routes of a minimal API to its handlers, and its name without the
/// namespace.
const MAPS: &str = "Microsoft.AspNetCore.Builder.EndpointRouteBuilderExtensions";
const MAPS_NAME: &str = "EndpointRouteBuilderExtensions";

/// Its methods, with the HTTP method that each stands for; `Map` and `MapMethods` take others or
/// any.
const HTTP_METHODS: [(&str, &str); 8] = [
    ("Map", ""),
    ("MapMethods", ""),
    ("MapFallback", ""),
    ("MapGet", "GET "),
    ("MapPost", "POST "),
    ("MapPut", "PUT "),
    ("MapDelete", "DELETE "),
    ("MapPatch", "PATCH "),
];

/// The one that puts a prefix in front of several routes.
const MAP_GROUP: &str = "MapGroup";

/// Longest pattern and prefix, in bytes, and most routes of an assembly: files may come from
/// anywhere.
const MOST_TEXT: usize = 256;
const MOST_ROUTES: usize = 4096;

/// Most instructions of an assembly that are looked at.
const MOST_INSTRUCTIONS: usize = 10_000_000;

/// What is shown for a prefix that is not known.
const SOME_PREFIX: &str = "…";

impl AssemblyCode {
    /// The routes of a minimal API (`app.MapGet("/price", …)`), by the token of the lambda, local
    /// function or method that handles each: `GET /price`. Of an async handler the method that
    /// runs, `MoveNext`, has it as well. Only those whose pattern stands literally in the code;
    /// empty where there are none.
    #[must_use]
    pub fn routes(&self) -> HashMap<u32, String> {
        self.find_routes().unwrap_or_default()
    }

    fn find_routes(&self) -> Option<HashMap<u32, String>> {
        let metadata = self.metadata()?;
        let named = |row| metadata.name(table::TYPE_REF, row, column::TYPE_NAME);
        if !(1..=metadata.rows(table::TYPE_REF))
            .any(|row| named(row).is_some_and(|name| name == MAPS_NAME))
        {
            return None;
        }
        let assembly = Assembly::parse(&self.bytes).ok()?;
        let (mut routes, mut left) = (HashMap::new(), MOST_INSTRUCTIONS);
        for method in assembly.methods() {
            if let Ok(Some(body)) = method.body() {
                add_routes(&body, assembly.metadata(), &mut left, &mut routes);
            }
        }
        if routes.is_empty() {
            return None;
        }
        let named = |method: &metadata::Method<'_, '_>| Some((method.type_name()?, method.name()));
        let by_name: HashMap<(String, String), &String> = assembly
            .methods()
            .filter_map(|method| Some((named(&method)?, routes.get(&method.token().0)?)))
            .collect();
        let mut of_machines = Vec::new();
        for method in assembly.methods().filter(|method| method.name() == "MoveNext") {
            let route = method.type_name().and_then(|name| {
                let (outer, machine) = name.rsplit_once('/')?;
                // `<Name>d` or `<Name>d__3`; the name itself may have brackets.
                let handler = machine.strip_prefix('<')?.rsplit_once(">d")?.0;
                by_name.get(&(outer.to_owned(), handler.to_owned()))
            });
            of_machines.extend(route.map(|route| (method.token().0, (*route).clone())));
        }
        routes.extend(of_machines);
        Some(routes)
    }
}

/// What is known in the middle of a method. Compilers write the arguments of one call after each
/// other: the routes, the pattern, and the handler.
#[derive(Default)]
struct State {
    /// The local variable that was loaded before the literal.
    receiver: Option<u16>,
    literal: Option<String>,
    handler: Option<Token>,
    /// Prefixes of groups in local variables, and of the last one that is in none.
    groups: HashMap<u16, String>,
    group: Option<String>,
    any_group: bool,
}

impl State {
    /// What stands in front of the pattern of the next route.
    fn prefix(&self) -> String {
        match self.receiver {
            Some(local) => self.groups.get(&local).cloned().unwrap_or_default(),
            None if self.any_group => self.group.clone().unwrap_or_else(|| SOME_PREFIX.to_owned()),
            None => String::new(),
        }
    }

    fn called(&mut self, callee: Option<Callee>, routes: &mut HashMap<u32, String>) {
        let literal = self.literal.take();
        let handler = self.handler.take();
        match callee {
            Some(Callee { type_name, name, .. }) if type_name == MAPS => {
                let pattern = literal
                    .map(|literal| self.prefix() + &literal)
                    .filter(|text| text.len() <= MOST_TEXT);
                if name == MAP_GROUP {
                    (self.group, self.any_group) = (pattern, true);
                } else if let (Some(pattern), Some(handler)) = (pattern, handler)
                    && routes.len() < MOST_ROUTES
                    && let Some((_, method)) = HTTP_METHODS.iter().find(|(known, _)| *known == name)
                {
                    routes.insert(handler.0, format!("{method}{pattern}"));
                }
            }
            // What says more of a route or a group leaves it where it is.
            Some(Callee { type_name, .. }) if type_name.starts_with("Microsoft.AspNetCore.") => {}
            _ => self.group = None,
        }
        self.receiver = None;
    }
}

fn add_routes(
    body: &MethodBody<'_>,
    metadata: &Metadata<'_>,
    left: &mut usize,
    routes: &mut HashMap<u32, String>,
) {
    let mut state = State::default();
    for instruction in body.instructions() {
        let (Ok(instruction), Some(less)) = (instruction, left.checked_sub(1)) else { return };
        *left = less;
        let local = match instruction.operand {
            Operand::Local(local) => Some(local),
            _ => instruction.opcode.implied_local(),
        };
        match (instruction.opcode, instruction.operand) {
            (Opcode::Ldstr, Operand::Token(token)) => {
                let literal = metadata.literal(token).filter(|literal| literal.len() <= MOST_TEXT);
                state.literal = literal.map(|literal| String::from_utf16_lossy(&literal));
            }
            (Opcode::Ldftn, Operand::Token(token))
                if token.kind() == Some(TokenKind::MethodDef) =>
            {
                state.handler = Some(token);
            }
            (Opcode::Call | Opcode::Callvirt, Operand::Token(token)) => {
                state.called(Callee::of(metadata, token), routes);
            }
            (
                Opcode::Stloc
                | Opcode::StlocS
                | Opcode::Stloc0
                | Opcode::Stloc1
                | Opcode::Stloc2
                | Opcode::Stloc3,
                _,
            ) => {
                if let (Some(local), Some(group)) = (local, state.group.take()) {
                    state.groups.insert(local, group);
                }
            }
            (
                Opcode::Ldloc
                | Opcode::LdlocS
                | Opcode::Ldloc0
                | Opcode::Ldloc1
                | Opcode::Ldloc2
                | Opcode::Ldloc3,
                _,
            ) if state.literal.is_none() => {
                state.receiver = local;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(state: &mut State, type_name: &str, name: &str, routes: &mut HashMap<u32, String>) {
        state.called(
            Some(Callee { type_name: type_name.into(), name: name.into(), is_native: false }),
            routes,
        );
    }

    /// Maps a route: the local that it is called on, if any, the pattern if it is literal, and the
    /// handler.
    fn map(
        state: &mut State,
        on: Option<u16>,
        name: &str,
        pattern: Option<&str>,
        routes: &mut HashMap<u32, String>,
    ) {
        state.receiver = on;
        state.literal = pattern.map(str::to_owned);
        state.handler = Some(Token::new(TokenKind::MethodDef, routes.len() as u32 + 1));
        called(state, MAPS, name, routes);
    }

    #[test]
    fn groups_put_their_prefix_in_front() {
        let (mut state, mut routes) = (State::default(), HashMap::new());
        map(&mut state, Some(0), "MapPost", Some("/a"), &mut routes);
        map(&mut state, Some(0), MAP_GROUP, Some("/api"), &mut routes);
        called(
            &mut state,
            "Microsoft.AspNetCore.Builder.RoutingEndpointConventionBuilderExtensions",
            "WithTags",
            &mut routes,
        );
        // As optimized code has it: the group is on the stack.
        map(&mut state, None, "MapGet", Some("/b"), &mut routes);
        state.groups.insert(1, state.group.take().unwrap());
        map(&mut state, Some(1), "MapDelete", Some("/c"), &mut routes);
        map(&mut state, Some(0), "Map", Some("/d"), &mut routes);
        map(&mut state, None, "MapGet", Some("/e"), &mut routes);
        let of = |row| routes.get(&Token::new(TokenKind::MethodDef, row).0).map(String::as_str);
        let expected = ["POST /a", "GET /api/b", "DELETE /api/c", "/d", "GET …/e"];
        assert_eq!((1..=5).map(of).collect::<Vec<_>>(), expected.map(Some));
    }

    #[test]
    fn only_literal_patterns_of_known_methods_count() {
        let (mut state, mut routes) = (State::default(), HashMap::new());
        map(&mut state, Some(0), "MapGet", None, &mut routes);
        map(&mut state, Some(0), "MapHub", Some("/hub"), &mut routes);
        map(&mut state, Some(0), "MapGet", Some(&"/long".repeat(60)), &mut routes);
        // A pattern that is put together.
        state.literal = Some("/x".into());
        called(&mut state, "System.String", "Concat", &mut routes);
        map(&mut state, Some(0), "MapGet", None, &mut routes);
        assert!(routes.is_empty(), "{routes:?}");
    }
}
