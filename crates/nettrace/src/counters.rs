//! Values of EventCounters and of meters.
//!
//! EventCounters: `CounterPayload` and `IncrementingCounterPayload` of System.Private.CoreLib.
//! Meters: the events of `System.Diagnostics.Metrics.MetricsEventSource` of
//! System.Diagnostics.DiagnosticSource.

use crate::block::{EVENT_COUNTERS, METERS};
use crate::{Event, Field, Value};
use profilers::counters::{CounterDef, CounterKind};

/// A value at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// The counter: its number is not known here, and 0. The name of the quantile of a histogram
    /// has `p50`, `p95` … behind; the name for people is often the same.
    pub counter: CounterDef,
    /// The value.
    pub value: f64,
}

/// Takes values out of the events of one stream.
#[derive(Clone, Debug)]
pub struct Collector {
    /// Which session of meters is ours: events of all of them come to everybody.
    session: String,
    /// Length of the interval that the values of meters are of, where it was reported.
    seconds: Option<f64>,
}

/// What an event says.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Values: mostly one, and the quantiles of a histogram.
    Values(Vec<Counted>),
    /// Why there are none, or not all, in words for a user.
    Complaint(String),
}

impl Collector {
    /// For the session of meters of this id (`SessionId` in the arguments of the provider).
    pub fn new(session: &str) -> Self {
        Self { session: session.to_owned(), seconds: None }
    }

    /// What an event says; `None` for other events, and for those without a finite number.
    pub fn push(&mut self, event: &Event) -> Option<Output> {
        let is_meter = event.ty.provider == METERS;
        if !is_meter && event.ty.name != EVENT_COUNTERS {
            return None;
        }
        let fields = Fields(Field::read(&event.ty.fields, &event.payload)?);
        if is_meter {
            return self.meter(&event.ty.name, &fields);
        }
        let counted = fields
            .of_event_counter(&event.ty.provider)
            .filter(|counted| counted.value.is_finite())?;
        Some(Output::Values(vec![counted]))
    }

    fn meter(&mut self, event: &str, fields: &Fields<'_>) -> Option<Output> {
        let complaint = |text: &str| Some(Output::Complaint(text.to_owned()));
        if event == "MultipleSessionsNotSupportedError"
            && fields.text("runningSessionId") != Some(&self.session)
        {
            return complaint("no meters: another tool is listening to the meters of this process");
        }
        if fields.text("sessionId") != Some(&self.session) {
            return None;
        }
        match event {
            "CollectionStart" => {
                // Both in units of 100 ns.
                let length =
                    fields.number("intervalEndTime").zip(fields.number("intervalStartTime"));
                self.seconds =
                    length.map(|(end, start)| (end - start) / 1e7).filter(|seconds| *seconds > 0.0);
                None
            }
            "TimeSeriesLimitReached" => complaint(
                "the meters have more combinations of tags than are recorded: some are missing",
            ),
            "HistogramLimitReached" => {
                complaint("the meters have more histograms than are recorded: some are missing")
            }
            "Error" => {
                complaint(&format!("meters: {}", fields.text("errorMessage").unwrap_or_default()))
            }
            _ => {
                let mut values = fields.of_meter(event, self.seconds);
                values.retain(|counted| counted.value.is_finite());
                (!values.is_empty()).then_some(Output::Values(values))
            }
        }
    }
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
        value.number().or_else(|| number(value.text()?))
    }

    fn of_event_counter(&self, provider: &str) -> Option<Counted> {
        let name = self.text("Name")?;
        let (kind, value) = match self.number("Increment") {
            Some(increment) => {
                // The first interval may be short, and none is as long as it should be.
                let seconds = self.number("IntervalSec").filter(|seconds| *seconds > 0.0)?;
                (CounterKind::Rate, increment / seconds)
            }
            None => (CounterKind::Level, self.number("Mean")?),
        };
        let title = self.text("DisplayName").filter(|title| !title.is_empty()).unwrap_or(name);
        let counter = CounterDef {
            counter: 0,
            source: provider.to_owned(),
            name: name.to_owned(),
            title: title.to_owned(),
            unit: self.text("DisplayUnits").unwrap_or_default().to_owned(),
            tags: tags_of(self.text("Metadata").unwrap_or_default()),
            kind,
        };
        Some(Counted { counter, value })
    }

    /// `seconds` is the length of the interval: what the runtime calls a rate is the increase over
    /// all of it.
    fn of_meter(&self, event: &str, seconds: Option<f64>) -> Vec<Counted> {
        let values: Vec<(String, CounterKind, Option<f64>)> = match event {
            "UpDownCounterRateValuePublished" => {
                vec![(String::new(), CounterKind::Level, self.number("value"))]
            }
            "CounterRateValuePublished" => {
                let rate =
                    self.number("rate").zip(seconds).map(|(increase, seconds)| increase / seconds);
                vec![(String::new(), CounterKind::Rate, rate)]
            }
            "GaugeValuePublished" => {
                vec![(String::new(), CounterKind::Level, self.number("lastValue"))]
            }
            "HistogramValuePublished" => {
                // 0.5=12;0.95=20;0.99=31;
                let quantiles = self.text("quantiles").unwrap_or_default().split(';');
                let quantiles = quantiles.filter_map(|pair| {
                    let (quantile, value) = pair.split_once('=')?;
                    let quantile =
                        number(quantile).filter(|quantile| (0.0..=1.0).contains(quantile))?;
                    Some((
                        format!(" p{}", (quantile * 1000.0).round() / 10.0),
                        CounterKind::Level,
                        number(value),
                    ))
                });
                quantiles.collect()
            }
            _ => return Vec::new(),
        };
        let (Some(source), Some(name)) = (self.text("meterName"), self.text("instrumentName"))
        else {
            return Vec::new();
        };
        let of = |(suffix, kind, value): (String, CounterKind, Option<f64>)| {
            let name = format!("{name}{suffix}");
            let counter = CounterDef {
                counter: 0,
                source: source.to_owned(),
                title: name.clone(),
                name,
                unit: self.text("unit").unwrap_or_default().to_owned(),
                tags: self.text("tags").unwrap_or_default().to_owned(),
                kind,
            };
            Some(Counted { counter, value: value? })
        };
        values.into_iter().filter_map(of).collect()
    }
}

/// EventCounters write `key:value,…`.
fn tags_of(metadata: &str) -> String {
    let tags = metadata.split(',').map(|tag| tag.replacen(':', "=", 1));
    tags.collect::<Vec<_>>().join(",")
}

/// A number as the program writes it: up to .NET 8 in the culture of the process, perhaps with a
/// comma.
fn number(text: &str) -> Option<f64> {
    text.replace(',', ".").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(values: &[(&'static str, &str)]) -> Fields<'static> {
        let value =
            |text: &str| text.parse().map_or_else(|_| Value::Text(text.to_owned()), Value::Number);
        Fields(values.iter().map(|(name, text)| (*name, value(text))).collect())
    }

    #[test]
    fn levels_and_rates_of_event_counters() {
        let level = fields(&[
            ("Name", "cpu-usage"),
            ("DisplayName", "CPU Usage"),
            ("Mean", "12.5"),
            ("DisplayUnits", "%"),
            ("Metadata", "host:a:1,zone:b"),
        ]);
        let level = level.of_event_counter("System.Runtime").unwrap();
        assert_eq!(
            (level.counter.title.as_str(), level.counter.unit.as_str(), level.counter.kind),
            ("CPU Usage", "%", CounterKind::Level)
        );
        assert_eq!((level.value, level.counter.tags.as_str()), (12.5, "host=a:1,zone=b"));
        let rate = fields(&[
            ("Name", "alloc-rate"),
            ("Increment", "300"),
            ("IntervalSec", "2"),
            ("DisplayUnits", "B"),
        ]);
        let rate = rate.of_event_counter("System.Runtime").unwrap();
        assert_eq!(
            (rate.counter.title.as_str(), rate.counter.kind, rate.value),
            ("alloc-rate", CounterKind::Rate, 150.0)
        );
        assert_eq!(
            fields(&[("Name", "x"), ("Increment", "3"), ("IntervalSec", "0")])
                .of_event_counter("A"),
            None
        );
        assert_eq!(fields(&[("Mean", "3")]).of_event_counter("A"), None);
    }

    /// As meters write them: all texts.
    fn texts(values: &[(&'static str, &str)]) -> Fields<'static> {
        Fields(values.iter().map(|(name, text)| (*name, Value::Text((*text).to_owned()))).collect())
    }

    #[test]
    fn instruments_of_meters() {
        let mut collector = Collector::new("ours");
        let mut of = |event: &str, session: &str, more: &[(&'static str, &str)]| {
            let common = [
                ("meterName", "Shop"),
                ("instrumentName", "orders"),
                ("unit", "{order}"),
                ("tags", "kind=new"),
            ];
            match collector.meter(
                event,
                &texts(&[common.as_slice(), &[("sessionId", session)], more].concat()),
            ) {
                Some(Output::Values(values)) => values,
                Some(Output::Complaint(text)) => panic!("{text}"),
                None => Vec::new(),
            }
        };
        let rate = [("rate", "7"), ("value", "70")];
        assert!(of("CounterRateValuePublished", "ours", &rate).is_empty(), "of which interval?");
        assert!(
            of(
                "CollectionStart",
                "ours",
                &[("intervalStartTime", "0"), ("intervalEndTime", "20000000")]
            )
            .is_empty()
        );
        let found = of("CounterRateValuePublished", "ours", &rate);
        assert_eq!(
            (found.len(), found[0].counter.kind, found[0].value, found[0].counter.tags.as_str()),
            (1, CounterKind::Rate, 3.5, "kind=new")
        );
        assert!(of("CounterRateValuePublished", "theirs", &rate).is_empty());
        let level = of("UpDownCounterRateValuePublished", "ours", &rate);
        assert_eq!((level[0].counter.kind, level[0].value), (CounterKind::Level, 70.0));
        assert!(
            of("UpDownCounterRateValuePublished", "ours", &rate[..1]).is_empty(),
            "the first version has no level"
        );
        assert_eq!(of("GaugeValuePublished", "ours", &[("lastValue", "1.5")])[0].value, 1.5);
        let quantiles = of(
            "HistogramValuePublished",
            "ours",
            &[("quantiles", "0.5=12;0,95=20,5;0.999=31;broken")],
        );
        let names: Vec<_> =
            quantiles.iter().map(|value| (value.counter.name.as_str(), value.value)).collect();
        assert_eq!(names, [("orders p50", 12.0), ("orders p95", 20.5), ("orders p99.9", 31.0)]);
        assert!(of("BeginInstrumentReporting", "ours", &[]).is_empty());
        assert!(of("GaugeValuePublished", "ours", &[("lastValue", "NaN")]).is_empty());
    }

    #[test]
    fn complaints_of_meters_are_told_once_they_are_ours() {
        let mut collector = Collector::new("ours");
        let mut of = |event: &str, fields: &[(&'static str, &str)]| match collector
            .meter(event, &texts(fields))
        {
            Some(Output::Complaint(text)) => text,
            Some(Output::Values(values)) => panic!("{values:?}"),
            None => String::new(),
        };
        assert!(
            of("MultipleSessionsNotSupportedError", &[("runningSessionId", "theirs")])
                .contains("another tool")
        );
        assert_eq!(of("MultipleSessionsNotSupportedError", &[("runningSessionId", "ours")]), "");
        assert!(of("TimeSeriesLimitReached", &[("sessionId", "ours")]).contains("tags"));
        assert_eq!(of("TimeSeriesLimitReached", &[("sessionId", "theirs")]), "");
        assert_eq!(of("Error", &[("sessionId", "ours"), ("errorMessage", "no")]), "meters: no");
    }
}
