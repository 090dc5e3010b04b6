//! All rules together, asked in the order in which a process shows its code: assembly, type,
//! method.

use crate::{MethodFacts, MethodPattern, Pattern, Rule, Version};

/// Rules in the order in which they count, and methods that none of them may take.
///
/// An exclusion of the set always wins; of the rules, the first that takes a method and does not
/// exclude it itself. The questions narrow down: most assemblies and types end with an empty answer
/// and cost no more than that.
///
/// ```
/// use rules::{Action, MethodFacts, MethodPattern, Rule, RuleSet, Version};
///
/// let methods = MethodPattern::parse("MyApp!MyApp.Orders.*.Load*")?;
/// let set = RuleSet::new(vec![Rule::new("orders", methods, Action::TRACE)], vec![]);
/// let assembly = set.for_assembly("MyApp", Version([1, 0, 0, 0]));
/// let types = assembly.for_type("MyApp.Orders.Service");
/// assert!(!types.needs_signatures());
/// let found = types.for_method(&MethodFacts { name: "LoadAll", signature: None, attributes: None });
/// assert_eq!(found.map(|found| found.rule.name.as_str()), Some("orders"));
/// # Ok::<(), rules::PatternError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(from = "Unsorted")
)]
pub struct RuleSet {
    rules: Vec<Rule>,
    exclude: Vec<MethodPattern>,
    redact: Vec<Pattern>,
}

/// What comes from elsewhere may be in any order.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Unsorted {
    rules: Vec<Rule>,
    exclude: Vec<MethodPattern>,
    redact: Vec<Pattern>,
}

#[cfg(feature = "serde")]
impl From<Unsorted> for RuleSet {
    fn from(Unsorted { rules, exclude, redact }: Unsorted) -> Self {
        Self::new(rules, exclude).redacting(redact)
    }
}

/// A rule that may still take something, with those of its exclusions that may.
#[derive(Clone, Debug)]
struct Candidate<'r> {
    index: usize,
    rule: &'r Rule,
    exclude: Vec<&'r MethodPattern>,
}

/// What rules may want of one assembly.
#[derive(Clone, Debug)]
pub struct AssemblyRules<'r> {
    rules: Vec<Candidate<'r>>,
    exclude: Vec<&'r MethodPattern>,
}

/// What rules may want of one type.
#[derive(Clone, Debug)]
pub struct TypeRules<'r> {
    rules: Vec<Candidate<'r>>,
    exclude: Vec<&'r MethodPattern>,
}

/// The rule that takes a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match<'r> {
    /// Its place in [`RuleSet::rules`].
    pub index: usize,
    /// The rule.
    pub rule: &'r Rule,
}

impl RuleSet {
    /// Most rules, most exclusions, and most redactions, that [`validate`](Self::validate) allows.
    pub const MAX_RULES: usize = 2000;

    /// Sorts rules by priority; those with the same one keep their order. Nothing is checked: see
    /// [`validate`](Self::validate).
    #[must_use]
    pub fn new(mut rules: Vec<Rule>, exclude: Vec<MethodPattern>) -> Self {
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.priority));
        Self { rules, exclude, redact: Vec::new() }
    }

    /// The same that also [redacts](Self::redacts) arguments of parameters with these names.
    #[must_use]
    pub fn redacting(mut self, names: Vec<Pattern>) -> Self {
        self.redact = names;
        self
    }

    /// The rules in the order in which they count.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Patterns of methods that no rule matches.
    #[must_use]
    pub fn exclude(&self) -> &[MethodPattern] {
        &self.exclude
    }

    /// Names of parameters whose arguments are not shown, beside the usual ones.
    #[must_use]
    pub fn redact(&self) -> &[Pattern] {
        &self.redact
    }

    /// What rules may want of an assembly with this simple name.
    #[must_use]
    pub fn for_assembly(&self, name: &str, version: Version) -> AssemblyRules<'_> {
        let fits = |methods: &&MethodPattern| methods.assembly().matches(name);
        let exclude: Vec<&MethodPattern> = self.exclude.iter().filter(fits).collect();
        if exclude
            .iter()
            .any(|methods| methods.type_name().is_everything() && methods.takes_all_methods())
        {
            return AssemblyRules { rules: Vec::new(), exclude: Vec::new() };
        }
        let rules = self.rules.iter().enumerate();
        let rules = rules.filter(|(_, rule)| {
            rule.methods.assembly().matches(name) && rule.versions.contains(version)
        });
        let rules = rules.map(|(index, rule)| Candidate {
            index,
            rule,
            exclude: rule.exclude.iter().filter(fits).collect(),
        });
        AssemblyRules { rules: rules.collect(), exclude }
    }

    /// Whether a rule matches all methods of all assemblies, except for those that are excluded.
    #[must_use]
    pub fn takes_everything(&self) -> bool {
        self.rules.iter().any(Rule::is_everything)
    }

    /// Whether any rule or exclusion asks for signatures at all.
    #[must_use]
    pub fn needs_signatures(&self) -> bool {
        let rules = self.rules.iter().flat_map(|rule| rule.exclude.iter().chain([&rule.methods]));
        rules.chain(&self.exclude).any(MethodPattern::needs_signature)
    }

    /// Whether any rule asks for attributes at all.
    #[must_use]
    pub fn needs_attributes(&self) -> bool {
        self.rules.iter().any(|rule| !rule.attributes.is_empty())
    }
}

impl<'r> AssemblyRules<'r> {
    /// Whether no rule can take anything of it.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The place in the set of the rule that takes every method there is, if what is known of them
    /// cannot make a difference.
    #[must_use]
    pub fn for_all(&self) -> Option<usize> {
        let first = self.rules.first()?;
        let is_alone = self.exclude.is_empty() && first.exclude.is_empty();
        (is_alone && first.rule.is_everything()).then_some(first.index)
    }

    /// What rules may want of a type, by its full name in metadata, with `+` in front of nested
    /// types.
    #[must_use]
    pub fn for_type(&self, full_name: &str) -> TypeRules<'r> {
        let fits = |methods: &&&'r MethodPattern| methods.type_name().matches(full_name);
        let mut rules = Vec::new();
        for candidate in self
            .rules
            .iter()
            .filter(|candidate| candidate.rule.methods.type_name().matches(full_name))
        {
            let exclude: Vec<_> = candidate.exclude.iter().filter(fits).copied().collect();
            if !exclude.iter().any(|methods| methods.takes_all_methods()) {
                rules.push(Candidate { exclude, ..*candidate });
            }
        }
        if rules.is_empty() {
            return TypeRules { rules, exclude: Vec::new() };
        }
        let exclude: Vec<_> = self.exclude.iter().filter(fits).copied().collect();
        if exclude.iter().any(|methods| methods.takes_all_methods()) {
            rules.clear();
        }
        TypeRules { rules, exclude }
    }
}

impl<'r> TypeRules<'r> {
    /// Whether no rule can take anything of it.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether a rule may take a method of this name. For many methods this is all that needs to be
    /// asked.
    #[must_use]
    pub fn may_take(&self, name: &str) -> bool {
        self.rules.iter().any(|candidate| candidate.rule.methods.method().matches(name))
    }

    /// Whether [`MethodFacts::signature`] can make a difference.
    #[must_use]
    pub fn needs_signatures(&self) -> bool {
        let rules = self
            .rules
            .iter()
            .flat_map(|one| one.exclude.iter().copied().chain([&one.rule.methods]));
        !self.is_empty()
            && rules.chain(self.exclude.iter().copied()).any(MethodPattern::needs_signature)
    }

    /// Whether [`MethodFacts::attributes`] can make a difference.
    #[must_use]
    pub fn needs_attributes(&self) -> bool {
        self.rules.iter().any(|candidate| !candidate.rule.attributes.is_empty())
    }

    /// The rule that takes a method of this type.
    #[must_use]
    pub fn for_method(&self, facts: &MethodFacts<'_>) -> Option<Match<'r>> {
        // What is not known of a method counts against it: rather one is missed than one touched
        // that should not be.
        let excluded =
            |exclude: &[&MethodPattern]| exclude.iter().any(|methods| methods.takes(facts, true));
        let takes = |candidate: &&Candidate<'r>| {
            let rule = candidate.rule;
            let has = |attributes: &[&str]| {
                attributes.iter().any(|attribute| rule.takes_attribute(attribute))
            };
            rule.methods.takes(facts, false)
                && (rule.attributes.is_empty() || facts.attributes.is_some_and(has))
                && !excluded(&candidate.exclude)
        };
        let candidate = self.rules.iter().find(takes)?;
        (!excluded(&self.exclude)).then_some(Match { index: candidate.index, rule: candidate.rule })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, Pattern, Signature};

    const VERSION: Version = Version([1, 0, 0, 0]);

    fn methods(text: &str) -> MethodPattern {
        MethodPattern::parse(text).unwrap()
    }

    fn rule(name: &str, text: &str) -> Rule {
        Rule::new(name, methods(text), Action::Count)
    }

    fn find<'r>(
        set: &'r RuleSet,
        assembly: &str,
        type_name: &str,
        facts: &MethodFacts<'_>,
    ) -> Option<&'r str> {
        let found = set.for_assembly(assembly, VERSION).for_type(type_name).for_method(facts)?;
        assert_eq!(set.rules()[found.index], *found.rule);
        Some(&found.rule.name)
    }

    fn named(name: &str) -> MethodFacts<'_> {
        MethodFacts { name, signature: None, attributes: None }
    }

    #[test]
    fn the_first_rule_wins_and_priority_makes_first() {
        let mut late = rule("late", "A.B.Load");
        let set = RuleSet::new(vec![rule("early", "A.*.*"), late.clone()], vec![]);
        assert_eq!(find(&set, "A", "A.B", &named("Load")), Some("early"));
        late.priority = 1;
        let set = RuleSet::new(vec![rule("early", "A.*.*"), late], vec![]);
        assert_eq!(find(&set, "A", "A.B", &named("Load")), Some("late"));
        assert_eq!(find(&set, "A", "A.B", &named("Save")), Some("early"));
        assert_eq!(find(&set, "A", "B", &named("Load")), None);
    }

    #[test]
    fn exclusions_of_the_set_win_and_those_of_a_rule_leave_the_others() {
        let mut first = rule("first", "A.*.*");
        first.exclude = vec![methods("A.B.Load"), methods("A.C.*")];
        let set = RuleSet::new(
            vec![first, rule("second", "A.*.Load")],
            vec![methods("A.*.Secret"), methods("X!*")],
        );
        assert_eq!(find(&set, "A", "A.B", &named("Save")), Some("first"));
        assert_eq!(find(&set, "A", "A.B", &named("Load")), Some("second"));
        assert_eq!(find(&set, "A", "A.C", &named("Save")), None);
        assert_eq!(find(&set, "A", "A.B", &named("Secret")), None);
        assert!(set.for_assembly("X", VERSION).is_empty());
        let set = RuleSet::new(vec![rule("all", "A.*.*")], vec![methods("A.B.*")]);
        assert!(set.for_assembly("A", VERSION).for_type("A.B").is_empty());
        assert!(!set.for_assembly("A", VERSION).for_type("A.C").is_empty());
    }

    #[test]
    fn assemblies_are_told_by_name_and_version() {
        let mut old = rule("old", "A!*.Run");
        old.versions.max = Some(Version([1, 0, 0, 0]));
        let mut new = rule("new", "A!*.Run");
        new.versions.min = Some(Version([1, 0, 0, 0]));
        let set = RuleSet::new(vec![old, new], vec![]);
        assert_eq!(find(&set, "A", "T", &named("Run")), Some("new"));
        assert!(set.for_assembly("B", VERSION).is_empty());
        assert!(set.for_assembly("a", VERSION).is_empty());
    }

    #[test]
    fn only_what_is_needed_is_asked_for() {
        let mut marked = rule("marked", "A.Marked.*");
        marked.attributes = vec![Pattern::parse("Trace").unwrap()];
        let set = RuleSet::new(
            vec![rule("one", "A.One.Load(int)"), marked, rule("plain", "A.Plain.*")],
            vec![],
        );
        assert!(set.needs_signatures() && set.needs_attributes());
        let assembly = set.for_assembly("A", VERSION);
        let needs = |name: &str| {
            let types = assembly.for_type(name);
            (types.needs_signatures(), types.needs_attributes())
        };
        assert_eq!(
            [needs("A.One"), needs("A.Marked"), needs("A.Plain")],
            [(true, false), (false, true), (false, false)]
        );
        assert_eq!(needs("B"), (false, false));
        assert!(
            assembly.for_type("A.One").may_take("Load")
                && !assembly.for_type("A.One").may_take("Save")
        );

        let signature = Some(Signature { type_parameters: 0, parameters: &["int"] });
        assert_eq!(
            find(&set, "A", "A.One", &MethodFacts { signature, ..named("Load") }),
            Some("one")
        );
        assert_eq!(find(&set, "A", "A.One", &named("Load")), None);
        let attributes = Some(&["System.ObsoleteAttribute", "My.TraceAttribute"][..]);
        assert_eq!(
            find(&set, "A", "A.Marked", &MethodFacts { attributes, ..named("X") }),
            Some("marked")
        );
        assert_eq!(
            find(&set, "A", "A.Marked", &MethodFacts { attributes: Some(&[]), ..named("X") }),
            None
        );
        assert_eq!(find(&set, "A", "A.Marked", &named("X")), None);
    }

    #[test]
    fn what_is_unknown_is_left_alone() {
        let set = RuleSet::new(vec![rule("all", "A.B.*")], vec![methods("Load(int)")]);
        assert!(set.for_assembly("A", VERSION).for_type("A.B").needs_signatures());
        assert_eq!(find(&set, "A", "A.B", &named("Load")), None);
        let signature = Some(Signature { type_parameters: 0, parameters: &[] });
        assert_eq!(
            find(&set, "A", "A.B", &MethodFacts { signature, ..named("Load") }),
            Some("all")
        );
    }

    #[cfg(feature = "serde")]
    #[test]
    fn rules_travel() {
        let mut all = rule("all", "A!A.*.{Load,Save}(int)");
        all.attributes = vec![Pattern::parse("Trace*").unwrap()];
        let set = RuleSet::new(vec![all, rule("b", "B.C")], vec![methods("X.**")]);
        let text = serde_json::to_string(&set).unwrap();
        assert_eq!(serde_json::from_str::<RuleSet>(&text).unwrap(), set);
        assert!(serde_json::from_str::<RuleSet>(&text.replace("{Load", "{{Load")).is_err());
    }
}
