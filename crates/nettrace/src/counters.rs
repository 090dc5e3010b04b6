//! Values of EventCounters and of meters.
//!
//! EventCounters: `CounterPayload` and `IncrementingCounterPayload` of System.Private.CoreLib. Meters: the events of
//! `System.Diagnostics.Metrics.MetricsEventSource` of System.Diagnostics.DiagnosticSource.

use crate::{Event, Field, Value};

/// The provider of the values of all meters.
pub const METERS: &str = "System.Diagnostics.Metrics";

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A level: the mean over the interval, or the last value.
    Level,
    /// An increase per second.
    Rate,
}

/// A value at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// The EventSource or meter.
    pub source: String,
    /// Name of the counter or instrument; for a quantile of a histogram with `p50`, `p95` … behind.
    pub name: String,
    /// Name for people; often the same.
    pub title: String,
    /// Unit, such as `MB` or `%`; empty for none.
    pub unit: String,
    /// Tags of the instrument, `key=value,…`; empty for none.
    pub tags: String,
    /// What the value is.
    pub kind: Kind,
    /// The value.
    pub value: f64,
}

/// The values of an event, mostly one: a histogram gives its quantiles and its rate. None for other events, and for
/// those without a finite number.
pub fn parse(event: &Event) -> Vec<Counted> {
    let is_meter = event.ty.provider == METERS;
    if !is_meter && event.ty.name != "EventCounters" {
        return Vec::new();
    }
    let Some(values) = Field::read(&event.ty.fields, &event.payload) else { return Vec::new() };
    let fields = Fields(values);
    let mut counted = if is_meter {
        fields.of_meter(&event.ty.name)
    } else {
        fields.of_event_counter(&event.ty.provider).into_iter().collect()
    };
    counted.retain(|counted| counted.value.is_finite());
    counted
}

struct Fields<'a>(Vec<(&'a str, Value)>);

impl Fields<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.text()
    }

    /// A number, or a text that is one: meters write their values as texts.
    fn number(&self, name: &str) -> Option<f64> {
        let value = self.get(name)?;
        value.number().or_else(|| value.text()?.parse().ok())
    }

    fn of_event_counter(&self, provider: &str) -> Option<Counted> {
        let name = self.text("Name")?;
        let (kind, value) = match self.number("Increment") {
            Some(increment) => {
                // The first interval may be short, and none is as long as it should be.
                let seconds = self.number("IntervalSec").filter(|seconds| *seconds > 0.0)?;
                (Kind::Rate, increment / seconds)
            }
            None => (Kind::Level, self.number("Mean")?),
        };
        let title = self.text("DisplayName").filter(|title| !title.is_empty()).unwrap_or(name);
        Some(Counted {
            source: provider.to_owned(),
            name: name.to_owned(),
            title: title.to_owned(),
            unit: self.text("DisplayUnits").unwrap_or_default().to_owned(),
            tags: self.text("Metadata").unwrap_or_default().to_owned(),
            kind,
            value,
        })
    }

    fn of_meter(&self, event: &str) -> Vec<Counted> {
        let values: Vec<(String, Kind, Option<f64>)> = match event {
            "UpDownCounterRateValuePublished" => {
                vec![(String::new(), Kind::Level, self.number("value").or_else(|| self.number("rate")))]
            }
            "CounterRateValuePublished" => vec![(String::new(), Kind::Rate, self.number("rate"))],
            "GaugeValuePublished" => vec![(String::new(), Kind::Level, self.number("lastValue"))],
            "HistogramValuePublished" => {
                // 0.5=12;0.95=20;0.99=31;
                let quantiles = self.text("quantiles").unwrap_or_default().split(';');
                let quantiles = quantiles.filter_map(|pair| {
                    let (quantile, value) = pair.split_once('=')?;
                    let quantile = quantile.parse::<f64>().ok().filter(|quantile| (0.0..=1.0).contains(quantile))?;
                    Some((format!(" p{}", (quantile * 1000.0).round() / 10.0), Kind::Level, value.parse().ok()))
                });
                quantiles.collect()
            }
            _ => return Vec::new(),
        };
        let (Some(source), Some(name)) = (self.text("meterName"), self.text("instrumentName")) else {
            return Vec::new();
        };
        let of = |(suffix, kind, value): (String, Kind, Option<f64>)| {
            let name = format!("{name}{suffix}");
            Some(Counted {
                source: source.to_owned(),
                title: name.clone(),
                name,
                unit: self.text("unit").unwrap_or_default().to_owned(),
                tags: self.text("tags").unwrap_or_default().to_owned(),
                kind,
                value: value?,
            })
        };
        values.into_iter().filter_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(values: &[(&'static str, &str)]) -> Fields<'static> {
        let value = |text: &str| text.parse().map_or_else(|_| Value::Text(text.to_owned()), Value::Number);
        Fields(values.iter().map(|(name, text)| (*name, value(text))).collect())
    }

    #[test]
    fn levels_and_rates_of_event_counters() {
        let level =
            fields(&[("Name", "cpu-usage"), ("DisplayName", "CPU Usage"), ("Mean", "12.5"), ("DisplayUnits", "%")]);
        let level = level.of_event_counter("System.Runtime").unwrap();
        assert_eq!(
            (level.title.as_str(), level.unit.as_str(), level.kind, level.value),
            ("CPU Usage", "%", Kind::Level, 12.5)
        );
        let rate = fields(&[("Name", "alloc-rate"), ("Increment", "300"), ("IntervalSec", "2"), ("DisplayUnits", "B")]);
        let rate = rate.of_event_counter("System.Runtime").unwrap();
        assert_eq!((rate.title.as_str(), rate.kind, rate.value), ("alloc-rate", Kind::Rate, 150.0));
        assert_eq!(fields(&[("Name", "x"), ("Increment", "3"), ("IntervalSec", "0")]).of_event_counter("A"), None);
        assert_eq!(fields(&[("Mean", "3")]).of_event_counter("A"), None);
    }

    #[test]
    fn instruments_of_meters() {
        let common = [("meterName", "Shop"), ("instrumentName", "orders"), ("unit", "{order}"), ("tags", "kind=new")];
        let of = |event: &str, more: &[(&'static str, &str)]| fields(&[&common, more].concat()).of_meter(event);
        let rate = of("CounterRateValuePublished", &[("rate", "7"), ("value", "70")]);
        assert_eq!((rate.len(), rate[0].kind, rate[0].value, rate[0].tags.as_str()), (1, Kind::Rate, 7.0, "kind=new"));
        let level = of("UpDownCounterRateValuePublished", &[("rate", "7"), ("value", "70")]);
        assert_eq!((level[0].kind, level[0].value), (Kind::Level, 70.0));
        assert_eq!(of("GaugeValuePublished", &[("lastValue", "1.5")])[0].value, 1.5);
        let quantiles = of("HistogramValuePublished", &[("quantiles", "0.5=12;0.95=20.5;0.999=31;broken")]);
        let names: Vec<_> = quantiles.iter().map(|value| (value.name.as_str(), value.value)).collect();
        assert_eq!(names, [("orders p50", 12.0), ("orders p95", 20.5), ("orders p99.9", 31.0)]);
        assert!(of("BeginInstrumentReporting", &[]).is_empty());
        assert!(fields(&[("rate", "7")]).of_meter("CounterRateValuePublished").is_empty());
    }
}
