//! What was measured of something in a time.

use alloc::collections::BTreeMap;

use crate::codec::{Reader, Writer};
use crate::{HistoryError, Latencies};

/// What is measured. A number, once given, is never given to another measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Measure(pub u8);

/// What it came to in the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// So many happened: commands, or bytes.
    Count(u64),
    /// It was so high when it was looked at: the sum, how often that was, and the highest.
    Level {
        /// Of all looks together.
        sum: u64,
        /// How often it was looked.
        looks: u64,
        /// The highest that was seen.
        most: u64,
    },
    /// They took so long.
    Latencies(Latencies),
}

impl Value {
    /// A level that was looked at once.
    #[must_use]
    pub const fn level(value: u64) -> Self {
        Self::Level {
            sum: value,
            looks: 1,
            most: value,
        }
    }

    /// Adds another time's. One of another kind takes the place of this: whoever measures has changed its mind.
    pub fn merge(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Count(sum), Self::Count(count)) => *sum = sum.saturating_add(*count),
            (
                Self::Level { sum, looks, most },
                Self::Level {
                    sum: other_sum,
                    looks: other_looks,
                    most: other_most,
                },
            ) => {
                *sum = sum.saturating_add(*other_sum);
                *looks = looks.saturating_add(*other_looks);
                *most = (*most).max(*other_most);
            }
            (Self::Latencies(all), Self::Latencies(latencies)) => all.merge(latencies),
            (this, other) => *this = other.clone(),
        }
    }

    fn write(&self, out: &mut Writer) {
        match self {
            Self::Count(count) => {
                out.byte(0);
                out.number(*count);
            }
            Self::Level { sum, looks, most } => {
                out.byte(1);
                for number in [sum, looks, most] {
                    out.number(*number);
                }
            }
            Self::Latencies(latencies) => {
                out.byte(2);
                latencies.write(out);
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, HistoryError> {
        match from.byte()? {
            0 => Ok(Self::Count(from.number()?)),
            1 => Ok(Self::Level {
                sum: from.number()?,
                looks: from.number()?,
                most: from.number()?,
            }),
            2 => Latencies::read(from).map(Self::Latencies),
            _ => Err(HistoryError::Malformed),
        }
    }
}

/// All that was measured of one thing in a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    values: BTreeMap<Measure, Value>,
}

impl Sample {
    /// Adds what was measured; nothing, where that says nothing.
    pub fn add(&mut self, measure: Measure, value: Value) {
        let says_nothing = match &value {
            Value::Count(count) => *count == 0,
            Value::Level { looks, .. } => *looks == 0,
            Value::Latencies(latencies) => latencies.count() == 0,
        };
        if says_nothing {
            return;
        }
        match self.values.get_mut(&measure) {
            Some(known) => known.merge(&value),
            None => {
                self.values.insert(measure, value);
            }
        }
    }

    /// What it came to.
    #[must_use]
    pub fn get(&self, measure: Measure) -> Option<&Value> {
        self.values.get(&measure)
    }

    /// How many happened; none, if that was not measured.
    #[must_use]
    pub fn count(&self, measure: Measure) -> u64 {
        match self.get(measure) {
            Some(Value::Count(count)) => *count,
            _ => 0,
        }
    }

    /// How long they took, if that was measured.
    #[must_use]
    pub fn latencies(&self, measure: Measure) -> Option<&Latencies> {
        match self.get(measure) {
            Some(Value::Latencies(latencies)) => Some(latencies),
            _ => None,
        }
    }

    /// Whether nothing was measured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Adds another time's.
    pub fn merge(&mut self, other: &Self) {
        for (measure, value) in &other.values {
            match self.values.get_mut(measure) {
                Some(known) => known.merge(value),
                None => {
                    self.values.insert(*measure, value.clone());
                }
            }
        }
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.number(self.values.len() as u64);
        for (measure, value) in &self.values {
            out.byte(measure.0);
            value.write(out);
        }
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, HistoryError> {
        let count = from.count(1 << u8::BITS)?;
        let mut values = BTreeMap::new();
        for _ in 0..count {
            let measure = Measure(from.byte()?);
            if values.insert(measure, Value::read(from)?).is_some() {
                return Err(HistoryError::Malformed);
            }
        }
        Ok(Self { values })
    }
}
