use crate::{SingleCall, Tables, TracedMethod};
use schemars::JsonSchema;
use serde::Serialize;
use session::{Argument, Parameter, ParameterShown};
use std::fmt;

/// The argument of one parameter in a single call. As JSON: `name`, `type`, and what there is of
/// the rest.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Argument")]
pub struct ShownArgument {
    /// Name of the parameter.
    pub name: String,
    /// Type of the parameter, as C# writes it.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The value, where that was recorded: not of objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<ArgumentValue>,
    /// How many UTF-16 units the whole string has, if only its beginning was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated_from: Option<u32>,
    /// Class of the object, if it was one and that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// Elements of the array, if it was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elements: Option<u32>,
    /// Whether it was never read, because of the name of the parameter.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
    /// Whether there was no room for it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
}

/// The value of an argument: a truth value, a number or a text; null for no object.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ArgumentValue {
    /// No object.
    Null,
    /// A truth value.
    Bool(bool),
    /// A number, also of an enumeration.
    Number(i64),
    /// A number without a sign.
    Unsigned(u64),
    /// A number with a fraction.
    Float(f64),
    /// A string, a character, or a number with a fraction that is none: NaN or infinite.
    Text(String),
}

impl ShownArgument {
    /// The arguments of a call, in the order of the parameters; none if they were not asked for.
    pub fn of(tables: &Tables, method: &TracedMethod, call: &SingleCall) -> Vec<Self> {
        let told = call.arguments.as_deref().unwrap_or_default();
        let shown = |(index, parameter): (usize, &Parameter)| {
            let argument = told.iter().find(|(place, _)| usize::from(*place) == index);
            Self::new(tables, parameter, argument.map(|(_, argument)| argument))
        };
        method.parameters.iter().enumerate().map(shown).collect()
    }

    fn new(tables: &Tables, parameter: &Parameter, argument: Option<&Argument>) -> Self {
        let type_name = parameter.type_name.as_str();
        let mut shown = Self {
            name: parameter.name.clone(),
            type_name: type_name.to_owned(),
            value: None,
            truncated_from: None,
            object: None,
            elements: None,
            redacted: parameter.shown == ParameterShown::Redacted,
            lost: parameter.shown == ParameterShown::ByValue && argument.is_none(),
        };
        match argument {
            Some(Argument::Number(number)) => shown.value = Some(number_of(type_name, *number)),
            Some(Argument::Float(number)) => shown.value = Some(float_of(type_name, *number)),
            Some(Argument::Text { text, length }) => {
                let units = text.encode_utf16().count();
                shown.truncated_from = Some(*length).filter(|length| *length as usize > units);
                shown.value = Some(ArgumentValue::Text(text.clone()));
            }
            Some(Argument::Null) => shown.value = Some(ArgumentValue::Null),
            Some(Argument::Object { class, elements }) => {
                shown.object = class.map(|class| tables.ty(class).name.clone());
                shown.elements = *elements;
            }
            None => {}
        }
        shown
    }

    /// The value as text, on one line.
    pub fn value_text(&self) -> String {
        match &self.value {
            _ if self.redacted => "<redacted>".to_owned(),
            _ if self.lost => "<no room>".to_owned(),
            Some(ArgumentValue::Null) => "null".to_owned(),
            Some(ArgumentValue::Bool(value)) => value.to_string(),
            Some(ArgumentValue::Number(value)) => value.to_string(),
            Some(ArgumentValue::Unsigned(value)) => value.to_string(),
            Some(ArgumentValue::Float(value)) => value.to_string(),
            Some(ArgumentValue::Text(text)) if self.type_name == "char" => {
                format!("'{}'", text.escape_debug())
            }
            Some(ArgumentValue::Text(text)) if self.type_name != "string" => text.clone(),
            Some(ArgumentValue::Text(text)) => match self.truncated_from {
                Some(length) => format!("\"{}…\" ({length} characters)", text.escape_debug()),
                None => format!("\"{}\"", text.escape_debug()),
            },
            None => {
                let of = self.object.as_deref().unwrap_or(&self.type_name);
                match self.elements {
                    Some(elements) => format!("<{of}, {elements} elements>"),
                    None => format!("<{of}>"),
                }
            }
        }
    }
}

impl fmt::Display for ShownArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value_text())
    }
}

fn number_of(type_name: &str, number: i64) -> ArgumentValue {
    match type_name {
        "bool" => ArgumentValue::Bool(number != 0),
        "ulong" | "nuint" => ArgumentValue::Unsigned(number.cast_unsigned()),
        // Half of a letter is none.
        "char" => match u32::try_from(number).ok().and_then(char::from_u32) {
            Some(letter) => ArgumentValue::Text(letter.to_string()),
            None => ArgumentValue::Number(number),
        },
        _ => ArgumentValue::Number(number),
    }
}

fn float_of(type_name: &str, number: f64) -> ArgumentValue {
    if !number.is_finite() {
        return ArgumentValue::Text(number.to_string());
    }
    // The shortest number that stands for the same, which has fewer digits for a shorter type.
    let short = if type_name == "float" { (number as f32).to_string().parse().ok() } else { None };
    ArgumentValue::Float(short.unwrap_or(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(type_name: &str, shown: ParameterShown, argument: Option<Argument>) -> String {
        let parameter = Parameter { name: "a".into(), type_name: type_name.into(), shown };
        ShownArgument::new(&Tables::default(), &parameter, argument.as_ref()).to_string()
    }

    fn value(type_name: &str, argument: Argument) -> String {
        shown(type_name, ParameterShown::ByValue, Some(argument))
    }

    #[test]
    fn values_are_written_by_their_types() {
        assert_eq!(value("int", Argument::Number(-3)), "a=-3");
        assert_eq!(value("bool", Argument::Number(1)), "a=true");
        assert_eq!(value("ulong", Argument::Number(-1)), "a=18446744073709551615");
        assert_eq!(value("char", Argument::Number(0x41)), "a='A'");
        assert_eq!(value("char", Argument::Number(0xd800)), "a=55296");
        assert_eq!(value("float", Argument::Float(f64::from(0.1_f32))), "a=0.1");
        assert_eq!(value("double", Argument::Float(f64::NAN)), "a=NaN");
        assert_eq!(value("string", Argument::Null), "a=null");
        let text = |text: &str, length| Argument::Text { text: text.into(), length };
        assert_eq!(value("string", text("x\n\"é", 4)), "a=\"x\\n\\\"é\"");
        assert_eq!(value("string", text("ab", 1000)), "a=\"ab…\" (1000 characters)");
        assert_eq!(
            value("long[]", Argument::Object { class: None, elements: Some(3) }),
            "a=<long[], 3 elements>"
        );
        assert_eq!(shown("Point", ParameterShown::ByType, None), "a=<Point>");
        assert_eq!(shown("string", ParameterShown::Redacted, None), "a=<redacted>");
        assert_eq!(shown("string", ParameterShown::ByValue, None), "a=<no room>");
    }
}
