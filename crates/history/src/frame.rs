//! What was measured in a step of time, as it is written down, one after the other.
//!
//! Layout, little-endian: length of the body (u32), CRC-32C of the body (u32), the body: version (u8), and as numbers of seven
//! bits each: the beginning in seconds since 1970, the length in seconds, how many series, and each with its sample.
//!
//! Invariants:
//! - a frame is read whole and as it was written, or not at all;
//! - however many names hosts make up, a frame that others were added to, or that is [bounded](Frame::bounded), has so many at most.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use holdfast_model::VolumeId;
use holdfast_stdx::crc32c;

use crate::codec::{Reader, Writer};
use crate::{HistoryError, Sample, Series};

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 8;
/// Bytes of a frame at most: ten thousand series that are busy in all that is measured.
pub const FRAME_BYTES_MAX: usize = 16 << 20;
/// Series in a frame that is read at most.
const SERIES_MAX: usize = 1 << 16;
/// Initiators of volumes that are told apart in a frame: they say themselves how they are called.
const INITIATORS_MAX: usize = 4096;
/// What the others of a volume are called: no name of an initiator (RFC 3722).
const OTHERS: &str = "(others)";

/// What was measured, of everything, in a step of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// When the step began, in seconds since 1970.
    pub from: u64,
    /// How long it was, in seconds.
    pub seconds: u32,
    /// Of what something was measured.
    pub samples: BTreeMap<Series, Sample>,
}

impl Frame {
    /// Adds what was measured of a thing; nothing, if that was nothing.
    pub fn add(&mut self, series: Series, sample: &Sample) {
        if !sample.is_empty() {
            self.samples.entry(series).or_default().merge(sample);
        }
    }

    /// Adds what was measured in another step. Of more initiators than can be told apart those that are new are one for each volume.
    pub fn merge(&mut self, other: &Self) {
        let mut initiators = None;
        for (series, sample) in &other.samples {
            if let Some(known) = self.samples.get_mut(series) {
                known.merge(sample);
                continue;
            }
            let mut series = series.clone();
            if let Series::Initiator(_, name) = &mut series {
                let known = initiators.get_or_insert_with(|| self.initiators());
                if *known < INITIATORS_MAX {
                    *known += 1;
                } else {
                    *name = OTHERS.into();
                }
            }
            self.add(series, sample);
        }
    }

    fn initiators(&self) -> usize {
        let from = Series::Initiator(VolumeId(0), String::new());
        self.samples.range(from..Series::Tier(0)).count()
    }

    /// The same with no more initiators than can be told apart.
    #[must_use]
    pub fn bounded(self) -> Self {
        if self.samples.len() <= INITIATORS_MAX {
            return self;
        }
        let mut bounded = Self {
            from: self.from,
            seconds: self.seconds,
            ..Self::default()
        };
        bounded.merge(&self);
        bounded
    }

    /// As it is written down; of what is beyond [`FRAME_BYTES_MAX`] the last series are left out.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut series = Writer::default();
        let mut count = 0_u64;
        for (name, sample) in &self.samples {
            let before = series.bytes.len();
            name.write(&mut series);
            sample.write(&mut series);
            if series.bytes.len() > FRAME_BYTES_MAX - 64 || count == SERIES_MAX as u64 {
                series.bytes.truncate(before);
                break;
            }
            count += 1;
        }
        let mut out = Writer::default();
        out.bytes.resize(HEADER_BYTES, 0);
        out.byte(VERSION);
        out.number(self.from);
        out.number(u64::from(self.seconds));
        out.number(count);
        out.bytes.extend_from_slice(&series.bytes);
        let body = &out.bytes[HEADER_BYTES..];
        let (length, checksum) = (body.len() as u32, crc32c(body));
        out.bytes[..4].copy_from_slice(&length.to_le_bytes());
        out.bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        out.bytes
    }

    fn decode(body: &[u8]) -> Result<Self, HistoryError> {
        let mut from = Reader::new(body);
        if from.byte()? != VERSION {
            return Err(HistoryError::Malformed);
        }
        let beginning = from.number()?;
        let seconds = u32::try_from(from.number()?).map_err(|_| HistoryError::Malformed)?;
        let count = from.count(SERIES_MAX)?;
        let mut samples = BTreeMap::new();
        for _ in 0..count {
            let series = Series::read(&mut from)?;
            if samples.insert(series, Sample::read(&mut from)?).is_some() {
                return Err(HistoryError::Malformed);
            }
        }
        if !from.is_empty() || seconds == 0 {
            return Err(HistoryError::Malformed);
        }
        Ok(Self {
            from: beginning,
            seconds,
            samples,
        })
    }
}

/// Frames as they lie one behind the other. After one that is wrong there is nothing more: where the next would begin is not
/// known.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    rest: &'a [u8],
}

impl<'a> Frames<'a> {
    /// Those in these bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn take(&mut self) -> Result<Frame, HistoryError> {
        let (header, rest) = self
            .rest
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or(HistoryError::Short)?;
        let number = |at: usize| {
            let bytes = [header[at], header[at + 1], header[at + 2], header[at + 3]];
            u32::from_le_bytes(bytes)
        };
        let (length, checksum) = (number(0) as usize, number(4));
        if length > FRAME_BYTES_MAX {
            return Err(HistoryError::Malformed);
        }
        let (body, rest) = rest.split_at_checked(length).ok_or(HistoryError::Short)?;
        if crc32c(body) != checksum {
            return Err(HistoryError::Checksum);
        }
        let frame = Frame::decode(body)?;
        self.rest = rest;
        Ok(frame)
    }
}

impl Iterator for Frames<'_> {
    type Item = Result<Frame, HistoryError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let taken = self.take();
        if taken.is_err() {
            self.rest = &[];
        }
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use holdfast_stdx::Prng;

    use super::*;
    use crate::{Latencies, Measure, Value};

    fn frame(seed: u64) -> Frame {
        let mut prng = Prng::from_seed(seed);
        let mut latencies = Latencies::default();
        for _ in 0..prng.below(100) {
            latencies.record(prng.below(1 << 20));
        }
        let mut sample = Sample::default();
        sample.add(Measure(1), Value::Count(prng.below(1 << 40)));
        sample.add(Measure(2), Value::level(prng.below(1000)));
        sample.add(Measure(200), Value::Latencies(latencies));
        let mut frame = Frame {
            from: 1_795_000_000 + seed,
            seconds: 1,
            ..Frame::default()
        };
        let volume = VolumeId(prng.below(u64::MAX));
        frame.add(Series::Node, &sample);
        frame.add(Series::Volume(volume), &sample);
        frame.add(Series::Device(3), &sample);
        frame.add(Series::Tier(1), &sample);
        let name = "iqn.2026-11.example:host".to_string();
        frame.add(Series::Initiator(volume, name), &sample);
        frame.add(Series::Device(4), &Sample::default());
        frame
    }

    #[test]
    fn frames_are_read_as_they_were_written() {
        let all: Vec<Frame> = (0..50).map(frame).collect();
        assert_eq!(all[0].samples.len(), 5, "what was not measured is not told");
        let bytes: Vec<u8> = all.iter().flat_map(Frame::encode).collect();
        let mut frames = Frames::new(&bytes);
        let read: Vec<Frame> = frames.by_ref().map(|it| it.expect("it is whole")).collect();
        assert_eq!(read, all);
        assert_eq!(frames.next(), None);
    }

    /// An hour of a host that logs in with another name each time.
    #[test]
    fn names_that_hosts_make_up_are_bounded() {
        let mut hour = Frame::default();
        let mut sample = Sample::default();
        sample.add(Measure(1), Value::Count(1));
        let of = |name: u64| Series::Initiator(VolumeId(7), alloc::format!("iqn.x:{name}"));
        for second in 0..3000 {
            let mut frame = Frame::default();
            frame.add(of(2 * second), &sample);
            frame.add(of(2 * second + 1), &sample);
            frame.add(of(0), &sample);
            frame.add(Series::Volume(VolumeId(7)), &sample);
            hour.merge(&frame);
        }
        assert_eq!(hour.samples.len(), INITIATORS_MAX + 2);
        let count = |series: &Series| match hour.samples[series].get(Measure(1)) {
            Some(Value::Count(count)) => *count,
            other => panic!("{other:?}"),
        };
        assert_eq!(count(&of(0)), 3001, "who is known stays known");
        let others = Series::Initiator(VolumeId(7), OTHERS.into());
        assert_eq!(count(&others), 6000 - INITIATORS_MAX as u64);
        assert_eq!(count(&Series::Volume(VolumeId(7))), 3000);
        let mut second = Frame::default();
        for name in 0..5000 {
            second.add(of(name), &sample);
        }
        assert_eq!(second.samples.len(), 5000);
        assert_eq!(second.bounded().samples.len(), INITIATORS_MAX + 1);
    }

    /// Power fails in the middle of the last one.
    #[test]
    fn what_is_torn_ends_the_frames() {
        let (first, second) = (frame(1).encode(), frame(2).encode());
        for length in 1..second.len() {
            let bytes = [&first[..], &second[..length]].concat();
            let mut frames = Frames::new(&bytes);
            assert_eq!(frames.next(), Some(Ok(frame(1))));
            assert_eq!(frames.next(), Some(Err(HistoryError::Short)));
            assert_eq!(frames.next(), None);
        }
    }

    #[test]
    fn a_changed_bit_is_noticed() {
        let bytes = frame(1).encode();
        for position in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[position / 8] ^= 1 << (position % 8);
            let read = Frames::new(&changed).next();
            assert!(matches!(read, Some(Err(_))), "bit {position}");
        }
    }

    /// With a checksum that fits, too.
    #[test]
    fn any_bytes_are_refused_or_read_and_never_a_panic() {
        let mut prng = Prng::from_seed(3);
        for _ in 0..20_000 {
            let mut body = alloc::vec![0; prng.below(60) as usize];
            prng.fill(&mut body);
            if let Some(version) = body.first_mut() {
                *version = VERSION;
            }
            let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
            bytes.extend(crc32c(&body).to_le_bytes());
            bytes.extend(body);
            if let Some(Ok(frame)) = Frames::new(&bytes).next() {
                let again = frame.encode();
                assert_eq!(Frames::new(&again).next(), Some(Ok(frame)));
            }
        }
    }
}
