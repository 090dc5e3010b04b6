//! Which methods a running process has, by name.

/// What to search for, and how much of it to give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodSearch {
    /// Each has to be in `assembly!Namespace.Type.Method`, in any order; lower case.
    words: Vec<String>,
    /// Most methods that are given.
    rows: usize,
}

impl MethodSearch {
    /// Reads what somebody types: words with blanks between them. Case does not count, `::` stands
    /// for a dot, and `/` for the `+` before a nested type. `None` if there is no word.
    #[must_use]
    pub fn new(text: &str, rows: usize) -> Option<Self> {
        let text = text.to_lowercase().replace("::", ".").replace('/', "+");
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        (!words.is_empty()).then_some(Self { words, rows })
    }

    /// Most methods that are given.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// The words that are not in the assembly and type already.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) fn left_in(&self, assembly_and_type: &str) -> Vec<&str> {
        let in_type = |word: &&String| assembly_and_type.contains(word.as_str());
        self.words.iter().filter(|word| !in_type(word)).map(String::as_str).collect()
    }

    /// How well the name of a method, in lower case, fits: less is better.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) fn distance(&self, name: &str) -> u8 {
        let word = self.words.last().map_or("", String::as_str);
        let word = word.rsplit('.').next().unwrap_or(word);
        match () {
            () if name == word => 0,
            () if name.starts_with(word) => 1,
            () if name.contains(word) => 2,
            () => 3,
        }
    }
}

/// Methods of one name in one type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundMethod {
    /// Simple name of the assembly.
    pub assembly: String,
    /// Full name of the type, with `+` before nested ones.
    pub type_name: String,
    /// Name of the methods.
    pub name: String,
    /// How many methods with code of the type have this name.
    pub overloads: u32,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundMethods {
    /// The methods that fit best, best first.
    pub methods: Vec<FoundMethod>,
    /// How many names of methods fit, each counted once for each type.
    pub matched: u64,
    /// Assemblies that were searched.
    pub assemblies: u32,
    /// Assemblies that could not be read.
    pub unread: u32,
    /// Whether all of them were searched: the search ends when it takes too long.
    pub complete: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_in_any_order_and_case() {
        let search = MethodSearch::new(" Load  shop.Orders::sa ", 5).unwrap();
        assert_eq!(search.words, ["load", "shop.orders.sa"]);
        assert_eq!(search.left_in("shop!shop.orders"), ["load", "shop.orders.sa"]);
        assert_eq!(search.left_in("shop!shop.loader"), ["shop.orders.sa"]);
        let distances = ["sa", "save", "presave", "load"].map(|name| search.distance(name));
        assert_eq!(distances, [0, 1, 2, 3]);
        assert_eq!(MethodSearch::new("Outer/Inner", 5).unwrap().words, ["outer+inner"]);
        assert_eq!(MethodSearch::new(" \t", 5), None);
    }
}
