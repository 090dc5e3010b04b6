//! The handler of an AWS Lambda function.

use super::{Point, Points};
use crate::environment::Environment;
use rules::VersionRange;

/// The factory for handlers.
const FACTORY: &str = "NewRelic.Providers.Wrapper.AwsLambda.HandlerMethod";

/// The point for the handler that the environment names, `assembly::class::method`. A first
/// variable that names none leaves it to the second. Ignore rules do not count for it.
#[must_use]
pub fn lambda_point(environment: &Environment) -> Option<Point> {
    environment.lambda_handlers().iter().find_map(|handler| {
        let mut parts = handler.split("::");
        let (Some(assembly), Some(class), Some(method), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return None;
        };
        if assembly.is_empty() || class.is_empty() || method.is_empty() {
            return None;
        }
        Some(Point {
            assembly: assembly.to_owned(),
            class: class.to_owned(),
            method: method.to_owned(),
            parameters: None,
            versions: VersionRange::default(),
            factory: FACTORY.to_owned(),
            metric: String::new(),
            flags: 0,
        })
    })
}

impl Points {
    /// Adds the point of a Lambda handler, if the environment names one. To be done at each refresh
    /// too.
    pub fn add_lambda(&mut self, environment: &Environment) {
        if let Some(point) = lambda_point(environment) {
            self.add(point);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Platform;

    fn point(variables: &[(&str, &str)]) -> Option<Point> {
        lambda_point(&Environment::new(Platform::Unix, variables.iter().copied()))
    }

    #[test]
    fn handlers() {
        let found = point(&[("_HANDLER", "Asm::Space.Class::Method")]).unwrap();
        assert_eq!(
            (found.assembly.as_str(), found.class.as_str(), found.method.as_str()),
            ("Asm", "Space.Class", "Method")
        );
        assert_eq!((found.factory.as_str(), found.metric.as_str(), found.flags), (FACTORY, "", 0));
        assert_eq!(found.parameters, None);
        let both = [("NEW_RELIC_LAMBDA_HANDLER", "A::B::C"), ("_HANDLER", "X::Y::Z")];
        assert_eq!(point(&both).unwrap().assembly, "A");
        let malformed = [("NEW_RELIC_LAMBDA_HANDLER", "A::B"), ("_HANDLER", "X::Y::Z")];
        assert_eq!(point(&malformed).unwrap().assembly, "X");
    }

    #[test]
    fn malformed_handlers() {
        for handler in ["", "A", "A::B", "A::B::C::D", "::B::C", "A::::C", "A::B::"] {
            assert_eq!(point(&[("_HANDLER", handler)]), None, "{handler}");
        }
        assert_eq!(point(&[]), None);
    }
}
