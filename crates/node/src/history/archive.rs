//! Keeps the performance history of this node: frames of all resolutions in files of bounded size, in a directory of its own.
//!
//! It runs beside the data path, which hands over a frame a second and never waits. Files are not flushed to stable storage: the
//! seconds that a power loss takes along are no loss of data.
//!
//! Invariants:
//! - files take no more than the budget, and a segment of each resolution;
//! - whatever the directory holds, the node starts: what is not understood is left where it is, and nothing is written behind it;
//! - of a volume nothing is told from before it was there, or was used, as far as the files know;
//! - a file that cannot be written is told of once, and the history goes on with a new one after a pause.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use holdfast_api::documents::{KeptHistory, KeptResolution};
use holdfast_history::{
    Frame, Frames, RESOLUTIONS, Resolution, Rollup, Sample, Segment, Series, Span, surplus,
};
use holdfast_model::VolumeId;

use super::measure;

/// How much of the time for which a resolution is kept is in a segment, and of its share of the bytes: one in so many goes at a
/// time.
const SEGMENTS: u64 = 12;
const ENDING: &str = "frames";
/// Seconds for which nothing is written where that has failed: each attempt makes a file.
const PAUSE: u64 = 60;
/// Seconds between two frames from which on it is the clock that was set.
const JUMP: u64 = 3600;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// One thing.
    One(Series),
    /// All that an initiator of this name does, with whichever volumes.
    Host(String),
}

/// What was measured of a thing in a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    /// Seconds of it in which the node measured.
    pub(crate) seconds: u64,
    pub(crate) sample: Sample,
}

/// What is written down, and what is under way.
#[derive(Debug)]
pub(crate) struct Archive {
    directory: PathBuf,
    bytes_max: u64,
    segments: Vec<Segment>,
    /// The newest of each resolution, by its place, while it can be written.
    open: [Option<File>; RESOLUTIONS.len()],
    /// Before this moment none of a resolution is written, by its place.
    paused_until: [u64; RESOLUTIONS.len()],
    rollup: Rollup,
    /// When what the first frame of a file tells began to be measured, by place and beginning of the file: a node that starts within
    /// a step has measured none of what was before.
    measured: BTreeMap<(usize, u64), u64>,
    /// When a volume was first seen, as far as frames tell.
    first_seen: BTreeMap<VolumeId, u64>,
    /// When the last frame of the finest began.
    now: Option<u64>,
    /// It was told that something cannot be written.
    told: bool,
}

impl Archive {
    /// Goes on with what a directory holds, or with nothing.
    pub(crate) fn open(directory: PathBuf, bytes_max: u64) -> Self {
        let mut archive = Self {
            directory,
            bytes_max,
            segments: Vec::new(),
            open: [const { None }; RESOLUTIONS.len()],
            paused_until: [0; RESOLUTIONS.len()],
            rollup: Rollup::default(),
            measured: BTreeMap::new(),
            first_seen: BTreeMap::new(),
            now: None,
            told: false,
        };
        if let Err(error) = archive.find() {
            archive.tell(&error);
        }
        archive.go_on();
        archive
    }

    /// Takes what was measured in a second.
    pub(crate) fn take(&mut self, frame: Frame) {
        let now = frame.from;
        let before = self.now.replace(now);
        note_first(&mut self.first_seen, &frame);
        for (place, frame) in self.rollup.take(frame) {
            self.write(place, &frame);
        }
        // A clock that was wrong for a moment makes nothing old.
        if before.is_some_and(|before| now.abs_diff(before) <= JUMP) {
            self.clear_away(now);
        }
    }

    /// What is known of a thing, by the beginnings of the steps in which the node ran.
    pub(crate) fn of(&self, whose: &Whose, span: Span) -> BTreeMap<u64, Step> {
        let mut steps = BTreeMap::new();
        let place = span.place();
        let Some(first) = self.first_of(whose) else {
            return steps;
        };
        let of_it = self.segments.iter().filter(|it| it.place == place);
        for segment in of_it.filter(|it| it.until > span.from && it.from < span.until) {
            // One that cannot be read is a gap.
            let bytes = fs::read(self.path(segment)).unwrap_or_default();
            for frame in Frames::new(&bytes).map_while(Result::ok) {
                add(&mut steps, whose, span, &frame, first);
            }
        }
        for frame in self.rollup.under_way(place) {
            add(&mut steps, whose, span, frame, first);
        }
        steps
    }

    /// From when on something is told: from the beginning of all but volumes; nothing of a volume that was never seen.
    fn first_of(&self, whose: &Whose) -> Option<u64> {
        match whose {
            Whose::One(Series::Volume(volume) | Series::Initiator(volume, _)) => {
                self.first_seen.get(volume).copied()
            }
            Whose::One(Series::Node | Series::Device(_) | Series::Tier(_)) | Whose::Host(_) => {
                Some(0)
            }
        }
    }

    /// How much is in the files, and how far back they reach.
    pub(crate) fn kept(&self) -> KeptHistory {
        let resolution = |(place, resolution): (usize, &Resolution)| {
            let of_it = self.segments.iter().filter(|it| it.place == place);
            let written = of_it.filter(|it| it.until > it.from);
            KeptResolution {
                step_seconds: resolution.seconds,
                kept_seconds: resolution.kept,
                oldest_ms: written
                    .map(|it| self.measured.get(&(place, it.from)).unwrap_or(&it.from))
                    .min()
                    .copied()
                    .map(|from| from.saturating_mul(1000)),
            }
        };
        KeptHistory {
            bytes: self.segments.iter().map(|it| it.bytes).sum(),
            bytes_max: self.bytes_max,
            resolutions: RESOLUTIONS.iter().enumerate().map(resolution).collect(),
        }
    }

    fn path(&self, segment: &Segment) -> PathBuf {
        let seconds = RESOLUTIONS[segment.place].seconds;
        self.directory
            .join(format!("{seconds}-{}.{ENDING}", segment.from))
    }

    /// Looks at what is in the directory.
    fn find(&mut self) -> io::Result<()> {
        fs::create_dir_all(&self.directory)?;
        let mut failed = None;
        let mut firsts = [const { BTreeMap::new() }; RESOLUTIONS.len()];
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            let Some((place, from)) = named(&path) else {
                continue;
            };
            match fs::read(&path) {
                Ok(bytes) => {
                    let mut until = from;
                    for frame in Frames::new(&bytes).map_while(Result::ok) {
                        until = until.max(end_of(&frame));
                        note_first(&mut firsts[place], &frame);
                        let key = (place, from);
                        self.measured.entry(key).or_insert(measured_from(&frame));
                    }
                    self.segments.push(Segment {
                        place,
                        from,
                        until,
                        bytes: bytes.len() as u64,
                    });
                }
                Err(error) => failed = Some(error),
            }
        }
        self.first_seen = first_of_all(&firsts);
        failed.map_or(Ok(()), Err)
    }

    /// Adds up again what is in no frame of the next resolution yet.
    fn go_on(&mut self) {
        for place in (0..RESOLUTIONS.len() - 1).rev() {
            let coarser = self.segments.iter().filter(|it| it.place == place + 1);
            let from = coarser.map(|it| it.until).max().unwrap_or(0);
            let mut frames = Vec::new();
            for segment in self
                .segments
                .iter()
                .filter(|it| it.place == place && it.until > from)
            {
                let bytes = fs::read(self.path(segment)).unwrap_or_default();
                let read = Frames::new(&bytes).map_while(Result::ok);
                frames.extend(read.filter(|frame| frame.from >= from));
            }
            frames.sort_by_key(|frame| frame.from);
            for frame in frames {
                for (place, complete) in self.rollup.take_again(place, &frame) {
                    self.write(place, &complete);
                }
            }
        }
    }

    fn write(&mut self, place: usize, frame: &Frame) {
        // A clock that is set back does not make it longer.
        let left = self.paused_until[place].saturating_sub(frame.from);
        if (1..=PAUSE).contains(&left) {
            return;
        }
        if let Err(error) = self.try_write(place, frame) {
            self.open[place] = None;
            self.paused_until[place] = frame.from.saturating_add(PAUSE);
            self.tell(&error);
        }
    }

    fn try_write(&mut self, place: usize, frame: &Frame) -> io::Result<()> {
        let kept = RESOLUTIONS[place].kept;
        let bytes_max = self.bytes_max / RESOLUTIONS.len() as u64 / SEGMENTS;
        let newest = self.segments.iter().rposition(|it| it.place == place);
        let fits = |segment: &Segment| {
            // Where the clock was set back a new one begins, so that each is in order.
            let is_next = segment.until <= frame.from && segment.bytes < bytes_max;
            is_next && frame.from < segment.from.saturating_add(kept / SEGMENTS)
        };
        let newest = newest.filter(|at| self.open[place].is_some() && fits(&self.segments[*at]));
        let at = match newest {
            Some(at) => at,
            None => self.begin(place, frame.from)?,
        };
        let bytes = frame.encode();
        let file = self.open[place]
            .as_mut()
            .expect("it has just been looked at");
        file.write_all(&bytes)?;
        self.segments[at].bytes += bytes.len() as u64;
        self.segments[at].until = end_of(frame);
        let key = (place, self.segments[at].from);
        self.measured.entry(key).or_insert(measured_from(frame));
        Ok(())
    }

    /// Begins a segment. One that begins with the same second as another goes on with its file.
    fn begin(&mut self, place: usize, from: u64) -> io::Result<usize> {
        let mut segment = Segment {
            place,
            from,
            until: from,
            bytes: 0,
        };
        let path = self.path(&segment);
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        segment.bytes = file.metadata()?.len();
        self.open[place] = Some(file);
        self.segments
            .retain(|it| (it.place, it.from) != (place, from));
        self.segments.push(segment);
        Ok(self.segments.len() - 1)
    }

    fn clear_away(&mut self, now: u64) {
        for segment in surplus(&self.segments, now, self.bytes_max) {
            self.segments.retain(|it| *it != segment);
            self.measured.remove(&(segment.place, segment.from));
            if let Err(error) = fs::remove_file(self.path(&segment)) {
                self.tell(&error);
            }
        }
    }

    fn tell(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.told, true) {
            tracing::warn!(
                "the performance history in {} has gaps: {error}; see that there is room, and that it may be written",
                self.directory.display()
            );
        }
    }
}

fn end_of(frame: &Frame) -> u64 {
    frame.from.saturating_add(u64::from(frame.seconds))
}

/// When what a frame tells began to be measured, if the node has measured since then until its end.
fn measured_from(frame: &Frame) -> u64 {
    let own = frame.samples.get(&Series::Node);
    let seconds = own.map_or(0, |own| own.count(measure::SECONDS));
    let seconds = Some(seconds).filter(|it| *it > 0);
    let begun = seconds.map(|it| end_of(frame).saturating_sub(it));
    begun.unwrap_or_default().max(frame.from)
}

/// Takes note of the volumes that a frame tells of.
fn note_first(first_seen: &mut BTreeMap<VolumeId, u64>, frame: &Frame) {
    for series in frame.samples.keys() {
        if let Series::Volume(volume) = series {
            let first = first_seen.entry(*volume).or_insert(frame.from);
            *first = frame.from.min(*first);
        }
    }
}

/// When volumes were first seen, by what the frames of all resolutions say: one of a longer step says that it was within that step, and
/// a finer one, as long as there is one, when.
fn first_of_all(firsts: &[BTreeMap<VolumeId, u64>; RESOLUTIONS.len()]) -> BTreeMap<VolumeId, u64> {
    let mut first_seen = BTreeMap::new();
    for (place, finer) in firsts.iter().enumerate().rev() {
        let coarser = RESOLUTIONS
            .get(place + 1)
            .map_or(0, |it| u64::from(it.seconds));
        for (volume, at) in finer {
            let first = first_seen.entry(*volume).or_insert(*at);
            if *at < first.saturating_add(coarser) {
                *first = *at;
            }
        }
    }
    first_seen
}

/// Adds what a frame says to the step in which it is, unless all of it is before there was something to tell.
fn add(steps: &mut BTreeMap<u64, Step>, whose: &Whose, span: Span, frame: &Frame, first: u64) {
    if end_of(frame) <= first {
        return;
    }
    let Some(at) = span.step_of(frame.from) else {
        return;
    };
    let step = steps.entry(at).or_default();
    if let Some(own) = frame.samples.get(&Series::Node) {
        step.seconds += own.count(measure::SECONDS);
    }
    match whose {
        Whose::One(series) => {
            let sample = frame.samples.get(series);
            sample.into_iter().for_each(|it| step.sample.merge(it));
        }
        Whose::Host(name) => {
            let is_its = |series: &Series| matches!(series, Series::Initiator(_, of) if of == name);
            let samples = frame.samples.iter().filter(|(series, _)| is_its(series));
            samples.for_each(|(_, it)| step.sample.merge(it));
        }
    }
}

/// The place and the beginning that a file's name says.
fn named(path: &Path) -> Option<(usize, u64)> {
    if path.extension()? != ENDING {
        return None;
    }
    let (seconds, from) = path.file_stem()?.to_str()?.split_once('-')?;
    let seconds: u32 = seconds.parse().ok()?;
    let place = RESOLUTIONS.iter().position(|it| it.seconds == seconds)?;
    Some((place, from.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use holdfast_history::{Measure, Value};

    use super::*;

    const START: u64 = 1_795_000_000 / 3600 * 3600;
    const VOLUME: Series = Series::Device(1);
    const BYTES: Measure = measure::READ_BYTES;

    fn second(at: u64) -> Frame {
        let count = |measure, count| {
            let mut sample = Sample::default();
            sample.add(measure, Value::Count(count));
            sample
        };
        let mut frame = Frame {
            from: at,
            seconds: 1,
            ..Frame::default()
        };
        frame.add(Series::Node, &count(measure::SECONDS, 1));
        frame.add(VOLUME, &count(BYTES, at - START + 1));
        frame
    }

    fn filled(directory: &Path, bytes_max: u64, seconds: u64) -> Archive {
        let mut archive = Archive::open(directory.to_owned(), bytes_max);
        for at in START..START + seconds {
            archive.take(second(at));
        }
        archive
    }

    /// Beginnings, seconds, and bytes.
    fn told(archive: &Archive, until: u64, step: u32) -> Vec<(u64, u64, u64)> {
        let span = Span {
            from: START,
            until: START + until,
            step,
        };
        let steps = archive.of(&Whose::One(VOLUME), span);
        let bytes = |step: &Step| match step.sample.get(BYTES) {
            Some(Value::Count(bytes)) => *bytes,
            other => panic!("{other:?}"),
        };
        let steps = steps.iter();
        steps
            .map(|(at, step)| (at - START, step.seconds, bytes(step)))
            .collect()
    }

    /// The sum of the numbers of the seconds.
    fn expected(from: u64, until: u64) -> (u64, u64, u64) {
        (from, until - from, (from + 1..=until).sum())
    }

    #[test]
    fn every_resolution_tells_the_same_and_a_start_changes_nothing() {
        let folder = tempfile::tempdir().expect("there is room");
        let mut archive = filled(folder.path(), 64 << 20, 1234);
        for start in 0..2 {
            assert_eq!(told(&archive, 3, 1), [(0, 1, 1), (1, 1, 2), (2, 1, 3)]);
            assert_eq!(told(&archive, 1240, 10).len(), 124);
            assert_eq!(
                told(&archive, 1500, 300),
                [(0, 300), (300, 600), (600, 900), (900, 1200), (1200, 1234)]
                    .map(|(from, until)| expected(from, until)),
                "start {start}"
            );
            assert_eq!(told(&archive, 3600, 3600), [expected(0, 1234)]);
            assert_eq!(told(&archive, 900, 450).len(), 2, "a multiple of ten");
            archive = Archive::open(folder.path().to_owned(), 64 << 20);
        }
        assert_eq!(told(&archive, 0, 1), []);
    }

    #[test]
    fn files_take_no_more_than_the_budget() {
        let folder = tempfile::tempdir().expect("there is room");
        let archive = filled(folder.path(), 40_000, 4000);
        let bytes = |place| {
            let of_it = archive.segments.iter().filter(|it| it.place == place);
            of_it.map(|it| it.bytes).sum::<u64>()
        };
        // A segment is 300 frames of some thirty bytes, and the newest stays in any case.
        assert!((1..=20_000).contains(&bytes(0)), "{}", bytes(0));
        let files = fs::read_dir(folder.path()).expect("it is there");
        let files: u64 = files
            .map(|it| it.and_then(|it| it.metadata()).expect("it is there").len())
            .sum();
        assert_eq!(files, (0..4).map(bytes).sum::<u64>());
        let newest = told(&archive, 4000, 1);
        assert_eq!(newest.last(), Some(&(3999, 1, 4000)));
        let kept = archive.kept();
        assert_eq!((kept.bytes, kept.bytes_max), (files, 40_000));
        let oldest = |place: usize| kept.resolutions[place].oldest_ms;
        // What was thrown away is not told as kept.
        for (place, step) in [(0, 1), (1, 10), (2, 300), (3, 3600)] {
            let first = told(&archive, 4000, step)[0].0;
            assert_eq!(first > 0, place < 2, "{step}");
            assert_eq!(oldest(place), Some((START + first) * 1000), "{step}");
        }
        assert!(newest[0].0 > 3000, "the oldest went: {:?}", newest[0]);
    }

    #[test]
    fn behind_what_is_torn_nothing_is_written_and_what_is_not_understood_stays() {
        let folder = tempfile::tempdir().expect("there is room");
        drop(filled(folder.path(), 64 << 20, 100));
        let path = folder.path().join(format!("1-{START}.frames"));
        let whole = fs::read(&path).expect("it is there");
        fs::write(&path, &whole[..whole.len() - 3]).expect("there is room");
        for name in ["notes", "7-1.frames", "1-x.frames", "1.frames"] {
            fs::write(folder.path().join(name), "mine").expect("there is room");
        }
        // No file can be read there, and the others are.
        fs::create_dir(folder.path().join("1-5.frames")).expect("there is room");
        let mut archive = Archive::open(folder.path().to_owned(), 64 << 20);
        assert_eq!(told(&archive, 100, 1).len(), 99);
        archive.take(second(START + 100));
        assert_eq!(told(&archive, 101, 1).len(), 100);
        let still = fs::read(&path).expect("it stays");
        assert_eq!(
            still.len(),
            whole.len() - 3,
            "a later version may understand it"
        );
        for name in ["notes", "7-1.frames", "1-x.frames", "1.frames"] {
            let text = fs::read_to_string(folder.path().join(name));
            assert_eq!(text.expect("it stays"), "mine");
        }
    }

    #[test]
    fn a_clock_that_is_wrong_for_a_second_deletes_nothing() {
        let folder = tempfile::tempdir().expect("there is room");
        let mut archive = filled(folder.path(), 64 << 20, 1000);
        archive.take(second(START + 500 * 86_400));
        for at in START + 1000..START + 1010 {
            archive.take(second(at));
        }
        assert_eq!(told(&archive, 1010, 1).len(), 1010);
    }

    /// The directory cannot be made, and the node goes on.
    #[test]
    fn without_a_directory_there_is_what_is_under_way() {
        let folder = tempfile::tempdir().expect("there is room");
        let file = folder.path().join("history");
        fs::write(&file, "a file").expect("there is room");
        let mut archive = filled(&file, 64 << 20, 7);
        assert!(archive.told);
        assert_eq!(told(&archive, 10, 1), []);
        assert_eq!(told(&archive, 10, 10), [expected(0, 7)]);
        fs::remove_file(&file).expect("it is there");
        fs::create_dir(&file).expect("there is room");
        for at in START + 7..START + 70 {
            archive.take(second(at));
        }
        let first = told(&archive, 70, 1)[0].0;
        assert_eq!(first, PAUSE, "it is tried again after a pause");
    }

    /// The volume is there from the 700th second on, and idle until the 900th.
    #[test]
    fn of_a_volume_nothing_is_told_from_before_it_was_there() {
        let folder = tempfile::tempdir().expect("there is room");
        let volume = Series::Volume(VolumeId(7));
        let mut archive = Archive::open(folder.path().to_owned(), 64 << 20);
        let mark = |frame: &mut Frame, measure| {
            let mut sample = Sample::default();
            sample.add(measure, Value::Count(1));
            frame.add(volume.clone(), &sample);
        };
        for at in 0..1000 {
            let mut frame = second(START + at);
            match at {
                700 => mark(&mut frame, measure::SEEN),
                900.. => mark(&mut frame, BYTES),
                _ => {}
            }
            archive.take(frame);
        }
        for start in 0..2 {
            let told = |series: &Series, until, step| {
                let span = Span {
                    from: START,
                    until: START + until,
                    step,
                };
                let steps = archive.of(&Whose::One(series.clone()), span).into_iter();
                let steps = steps.map(|(at, step)| (at - START, step.seconds));
                steps.collect::<Vec<_>>()
            };
            let seconds: Vec<_> = (700..1000).map(|at| (at, 1)).collect();
            assert_eq!(told(&volume, 1000, 1), seconds, "start {start}");
            assert_eq!(told(&volume, 1000, 10)[0], (700, 10), "start {start}");
            assert_eq!(told(&volume, 1000, 300), [(600, 300), (900, 100)]);
            let host = Series::Initiator(VolumeId(7), "iqn.2026-11.host".to_owned());
            assert_eq!(told(&host, 1000, 1)[0], (700, 1));
            assert_eq!(told(&Series::Volume(VolumeId(8)), 1000, 1), []);
            archive = Archive::open(folder.path().to_owned(), 64 << 20);
        }
    }

    #[test]
    fn what_a_host_does_with_all_volumes_is_added_up_and_nobody_elses() {
        let folder = tempfile::tempdir().expect("there is room");
        let mut archive = Archive::open(folder.path().to_owned(), 64 << 20);
        for at in START..START + 20 {
            let mut frame = second(at);
            for (volume, host, bytes) in [(7, "a", 1), (8, "a", 10), (8, "ab", 100)] {
                let mut sample = Sample::default();
                sample.add(BYTES, Value::Count(bytes));
                let series = Series::Initiator(VolumeId(volume), format!("iqn.2026-11.{host}"));
                frame.add(series, &sample);
            }
            archive.take(frame);
        }
        let span = Span {
            from: START,
            until: START + 20,
            step: 10,
        };
        for (host, bytes) in [("a", 110), ("ab", 1000), ("b", 0)] {
            let steps = archive.of(&Whose::Host(format!("iqn.2026-11.{host}")), span);
            let steps: Vec<_> = steps.values().collect();
            assert_eq!(steps.len(), 2, "{host}");
            for step in steps {
                assert_eq!((step.seconds, step.sample.count(BYTES)), (10, bytes));
            }
        }
    }

    /// The node starts 100 s before the end of an hour, and what is from before that is nobody's.
    #[test]
    fn how_far_a_resolution_reaches_back_is_since_when_there_was_something_to_measure() {
        let folder = tempfile::tempdir().expect("there is room");
        let mut archive = Archive::open(folder.path().to_owned(), 64 << 20);
        let begun = START + 3500;
        for at in begun..begun + 500 {
            archive.take(second(at));
        }
        for start in 0..2 {
            let oldest = archive.kept().resolutions.into_iter();
            let oldest: Vec<_> = oldest.map(|it| it.oldest_ms).collect();
            assert_eq!(oldest, [Some(begun * 1000); 4], "start {start}");
            archive = Archive::open(folder.path().to_owned(), 64 << 20);
        }
    }

    #[test]
    fn a_clock_that_is_set_back_hides_nothing_that_was_measured_before() {
        let folder = tempfile::tempdir().expect("there is room");
        let mut archive = filled(folder.path(), 64 << 20, 50);
        for at in START + 20..START + 30 {
            archive.take(second(at));
        }
        let archive = Archive::open(folder.path().to_owned(), 64 << 20);
        let steps = told(&archive, 50, 1);
        assert_eq!(steps.len(), 50);
        assert_eq!((steps[19].1, steps[20].1, steps[30].1), (1, 2, 1));
    }
}
