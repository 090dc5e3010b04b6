//! Which values of a file become samples of what.

use super::Head;
use session::ImportedUnit;

/// Values of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// Samples of this profiler; `imported` for none of ours.
    pub id: &'static str,
    /// What the weight counts, where it is `imported`.
    pub unit: ImportedUnit,
    /// Index of the value, and of the number of samples.
    pub weight: usize,
    pub count: Option<usize>,
    /// What a weight is multiplied by.
    pub scale: u64,
    /// As the file calls it.
    name: String,
}

/// What a file has, and what of it is left out.
#[derive(Default)]
pub struct Measures {
    pub list: Vec<Measure>,
    left_out: Vec<String>,
}

impl Measures {
    pub fn of(head: &Head) -> Self {
        let name = |index: usize| head.types.get(index).map_or("", |ty| head.text(ty.ty));
        let unit = |index: usize| head.types.get(index).map_or("", |ty| head.text(ty.unit));
        let all = || 0..head.types.len();
        let mut measures = Self::default();
        let is_own = head.is_own();
        for index in all() {
            let (known, scale) = match (name(index), unit_of(unit(index))) {
                ("cpu", Some((ImportedUnit::Nanoseconds, scale))) => ("cpu", scale),
                ("wall", Some((ImportedUnit::Nanoseconds, scale))) => ("wall", scale),
                ("exceptions", _) if is_own => ("exceptions", 1),
                ("allocations", _) if is_own => ("allocations", 1),
                _ => continue,
            };
            // Go calls the number of CPU samples `samples`.
            let counts = [format!("{known}_samples"), "samples".to_owned()];
            let count = counts.iter().find_map(|count| all().find(|at| name(*at) == count));
            let name = name(index).to_owned();
            let unit = ImportedUnit::Samples;
            measures.list.push(Measure { id: known, unit, weight: index, count, scale, name });
        }
        let default = head.text(head.default_type);
        let default = all().find(|at| !default.is_empty() && name(*at) == default);
        // The default comes first, and so gets its unit. By convention it is the last one.
        for index in default.into_iter().chain(all().rev()) {
            let is_taken = measures
                .list
                .iter()
                .any(|measure| measure.weight == index || measure.count == Some(index));
            // Numbers of samples go with their weights, and numbers of objects are estimates.
            let is_known = |name: &str| name.ends_with("_samples") || name == "allocated_objects";
            if is_taken || (is_own && is_known(name(index))) {
                continue;
            }
            let name = name(index).to_owned();
            let free = unit_of(unit(index)).filter(|(unit, _)| {
                let mut others = measures.list.iter().filter(|measure| measure.id == "imported");
                !others.any(|measure| measure.unit == *unit)
            });
            let Some((unit, scale)) = free else {
                measures.left_out.push(name);
                continue;
            };
            let count = format!("{name}_samples");
            let count =
                all().find(|at| head.types.get(*at).is_some_and(|ty| head.text(ty.ty) == count));
            measures.list.push(Measure { id: "imported", unit, weight: index, count, scale, name });
        }
        measures.pair();
        measures
    }

    /// Go's heap profiles count objects beside their bytes, and waits beside their time: those are
    /// the samples, and a row of the other.
    fn pair(&mut self) {
        let only = |list: &[Measure], unit| {
            let mut of_unit =
                list.iter().filter(|measure| measure.id == "imported" && measure.unit == unit);
            of_unit.next().map(|measure| (measure.weight, measure.name.clone()))
        };
        let Some((count, count_name)) = only(&self.list, ImportedUnit::Samples) else { return };
        let goes_with = [("objects", "space"), ("contentions", "delay")];
        for measure in self.list.iter_mut().filter(|measure| measure.id == "imported") {
            let pairs = goes_with.iter().any(|(counted, weighed)| {
                let stem = count_name.strip_suffix(counted);
                stem.is_some_and(|stem| measure.name == format!("{stem}{weighed}"))
            });
            if pairs {
                measure.count = Some(count);
            }
        }
    }

    /// Ids of the profilers whose samples these are.
    pub fn profilers(&self) -> impl Iterator<Item = &'static str> {
        let mut ids: Vec<&'static str> = self.list.iter().map(|measure| measure.id).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.into_iter()
    }

    /// Where the numbers of samples of CPU and wall time are.
    pub fn counts(&self) -> impl Iterator<Item = usize> {
        let timed = self.list.iter().filter(|measure| matches!(measure.id, "cpu" | "wall"));
        timed.filter_map(|measure| measure.count)
    }

    /// What a reader has to know.
    pub fn notes(&self, head: &Head) -> Vec<String> {
        let mut notes = Vec::new();
        for measure in self.list.iter().filter(|measure| measure.id == "imported") {
            let unit = head.types.get(measure.weight).map_or("", |ty| head.text(ty.unit));
            let shown = match measure.unit {
                ImportedUnit::Samples => "Samples",
                ImportedUnit::Nanoseconds => "Time",
                ImportedUnit::Bytes => "Bytes",
            };
            notes.push(format!("{shown} are the values `{}` ({unit}) of the file.", measure.name));
        }
        if !self.left_out.is_empty() {
            let names = self.left_out.join("`, `");
            notes.push(format!(
                "Of each unit one value is imported. Left out: `{names}`. Export these alone to see \
                 them."
            ));
        }
        notes
    }
}

/// What a unit counts, and by what its values are multiplied; `None` where they cannot be shown.
fn unit_of(unit: &str) -> Option<(ImportedUnit, u64)> {
    Some(match unit {
        "nanoseconds" | "ns" => (ImportedUnit::Nanoseconds, 1),
        "microseconds" | "us" => (ImportedUnit::Nanoseconds, 1_000),
        "milliseconds" | "ms" => (ImportedUnit::Nanoseconds, 1_000_000),
        "seconds" | "s" => (ImportedUnit::Nanoseconds, 1_000_000_000),
        "bytes" => (ImportedUnit::Bytes, 1),
        "kilobytes" => (ImportedUnit::Bytes, 1 << 10),
        "megabytes" => (ImportedUnit::Bytes, 1 << 20),
        "count" | "" | "objects" | "samples" => (ImportedUnit::Samples, 1),
        _ => return None,
    })
}
