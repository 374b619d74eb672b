//! A directory as one small file: sparse files, most of whose bytes are told from other bytes of theirs.
//!
//! Layout, numbers in LEB128 (seven bits a byte, the lowest first, bit 7 set in all but the last byte):
//! the magic `HFGOLD1` with a line feed; how many files; of each its path (length, UTF-8), its length in
//! bytes, how many stretches of it are not all zeros, and of each stretch the distance from the end of the
//! one before it and its length, both in pieces of 4 KiB; then the length of all stretches together, and
//! these, compressed: literal bytes (how many, and the bytes), then a copy of bytes before (how many, and from
//! how far back), in turn, to the end of the file. A copy may reach into itself. The last one has no bytes,
//! and no distance.
//!
//! It refuses links and whatever else is no file and no directory.
//!
//! Invariants:
//! - what is packed is unpacked to the same bytes, and to files as sparse as they can be;
//! - nothing is made for lengths that the file itself does not bear out: it ends in an error.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Component, Path};

use anyhow::{Context, Result, bail, ensure};

const MAGIC: &[u8] = b"HFGOLD1\n";
/// What a file is cut into, to see what of it is zeros.
const PIECE: usize = 4096;
/// A copy has to be worth its two numbers.
const COPY_MIN: usize = 8;
/// Bytes of all stretches at most: images are small.
const BYTES_MAX: u64 = 256 << 20;

/// A file: its length, and its stretches by the place where they begin, in pieces.
type Stretches = Vec<(u64, Vec<u8>)>;

/// Packs everything in a directory, but what `leave_out` says of its path there.
///
/// # Errors
/// What the operating system says; something that is neither a file nor a directory.
pub fn pack(directory: &Path, leave_out: impl Fn(&str) -> bool) -> Result<Vec<u8>> {
    let mut files = BTreeMap::new();
    gather(directory, "", &leave_out, &mut files)?;
    let mut packed = MAGIC.to_vec();
    let mut bytes = Vec::new();
    number(&mut packed, files.len() as u64);
    for (path, (length, stretches)) in files {
        number(&mut packed, path.len() as u64);
        packed.extend(path.as_bytes());
        number(&mut packed, length);
        number(&mut packed, stretches.len() as u64);
        let mut end = 0;
        for (first, stretch) in stretches {
            let pieces = (stretch.len() / PIECE) as u64;
            number(&mut packed, first - end);
            number(&mut packed, pieces);
            end = first + pieces;
            bytes.extend(stretch);
        }
    }
    number(&mut packed, bytes.len() as u64);
    compress(&bytes, &mut packed);
    Ok(packed)
}

fn gather(
    directory: &Path,
    prefix: &str,
    leave_out: &impl Fn(&str) -> bool,
    files: &mut BTreeMap<String, (u64, Stretches)>,
) -> Result<()> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("list {}", directory.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let path = format!("{prefix}{}", name.to_str().context("a name in UTF-8")?);
        if leave_out(&path) {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            gather(&entry.path(), &format!("{path}/"), leave_out, files)?;
        } else {
            ensure!(kind.is_file(), "{path} is no file");
            let found = read_stretches(&entry.path()).with_context(|| format!("read {path}"))?;
            files.insert(path, found);
        }
    }
    Ok(())
}

/// The length of a file, and what of it is not zeros. Holes are not read.
fn read_stretches(path: &Path) -> Result<(u64, Stretches)> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut stretches: Stretches = Vec::new();
    let mut place = 0;
    while place < length {
        let from = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(place));
        // Nothing but a hole is left.
        let Ok(data) = from else { break };
        place = data / PIECE as u64 * PIECE as u64;
        let hole = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(data)).unwrap_or(length);
        file.seek(SeekFrom::Start(place))?;
        while place < hole {
            let mut piece = vec![0; PIECE];
            let count = (length - place).min(PIECE as u64) as usize;
            file.read_exact(&mut piece[..count])?;
            if piece.iter().any(|byte| *byte != 0) {
                add(&mut stretches, place / PIECE as u64, &piece);
            }
            place += PIECE as u64;
        }
    }
    Ok((length, stretches))
}

fn add(stretches: &mut Stretches, index: u64, piece: &[u8]) {
    match stretches.last_mut() {
        Some((first, stretch)) if *first + (stretch.len() / PIECE) as u64 == index => {
            stretch.extend(piece);
        }
        _ => stretches.push((index, piece.to_vec())),
    }
}

/// Makes the files again, in a directory that is there.
///
/// # Errors
/// It is not what [`pack`] made, or what the operating system says.
pub fn unpack(packed: &[u8], directory: &Path) -> Result<()> {
    let rest = packed.strip_prefix(MAGIC);
    let mut rest = rest.context("a packed directory begins with its magic")?;
    let mut files = Vec::new();
    for _ in 0..take_number(&mut rest)? {
        let length = take_number(&mut rest)?;
        let path = std::str::from_utf8(take(&mut rest, length)?).context("a path is UTF-8")?;
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        ensure!(
            Path::new(path).components().all(is_plain) && !path.is_empty(),
            "{path:?} leads out of the directory"
        );
        let length = take_number(&mut rest)?;
        let mut stretches = Vec::new();
        let mut end: u64 = 0;
        for _ in 0..take_number(&mut rest)? {
            let (gap, pieces) = (take_number(&mut rest)?, take_number(&mut rest)?);
            let first = end.checked_add(gap).context("a place in the file")?;
            end = first.checked_add(pieces).context("a place in the file")?;
            stretches.push((first, pieces));
        }
        ensure!(
            end <= length.div_ceil(PIECE as u64),
            "{path} ends before its last stretch"
        );
        files.push((path, length, stretches));
    }
    let length = take_number(&mut rest)?;
    ensure!(length <= BYTES_MAX, "{length} bytes are too many");
    let bytes = decompress(rest, length as usize)?;
    let mut left = &bytes[..];
    for (path, length, stretches) in files {
        let path = directory.join(path);
        fs::create_dir_all(path.parent().context("a file is in a directory")?)?;
        let file = File::create(&path).with_context(|| format!("make {}", path.display()))?;
        for (first, pieces) in stretches {
            let bytes = pieces.checked_mul(PIECE as u64).context("a stretch")?;
            file.write_all_at(take(&mut left, bytes)?, first * PIECE as u64)?;
        }
        file.set_len(length)?;
    }
    ensure!(left.is_empty(), "bytes are left over");
    Ok(())
}

/// Greedy: the last place with the same eight bytes, if there is one.
fn compress(bytes: &[u8], packed: &mut Vec<u8>) {
    let mut seen: BTreeMap<[u8; COPY_MIN], usize> = BTreeMap::new();
    let (mut place, mut literal) = (0, 0);
    while let Some(key) = bytes[place..].first_chunk::<COPY_MIN>() {
        let Some(before) = seen.insert(*key, place) else {
            place += 1;
            continue;
        };
        let same = bytes[before..].iter().zip(&bytes[place..]);
        let count = same.take_while(|(one, other)| one == other).count();
        number(packed, (place - literal) as u64);
        packed.extend(&bytes[literal..place]);
        number(packed, count as u64);
        number(packed, (place - before) as u64);
        place += count;
        literal = place;
    }
    number(packed, (bytes.len() - literal) as u64);
    packed.extend(&bytes[literal..]);
    number(packed, 0);
}

fn decompress(mut packed: &[u8], length: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let literal = take_number(&mut packed)?;
        bytes.extend(take(&mut packed, literal)?);
        let count = take_number(&mut packed)?;
        if count == 0 {
            break;
        }
        let back = take_number(&mut packed)?;
        let from = usize::try_from(back).ok().filter(|back| *back > 0);
        let from = from
            .and_then(|back| bytes.len().checked_sub(back))
            .context("a copy is of bytes before it")?;
        ensure!(
            count <= (length.saturating_sub(bytes.len())) as u64,
            "more bytes than were announced"
        );
        for from in from..from + count as usize {
            bytes.push(bytes[from]);
        }
    }
    ensure!(packed.is_empty(), "something follows the end");
    ensure!(bytes.len() == length, "fewer bytes than were announced");
    Ok(bytes)
}

fn number(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn take_number(from: &mut &[u8]) -> Result<u64> {
    let mut value = 0_u64;
    for shift in (0..63).step_by(7) {
        let (byte, rest) = from.split_first().context("a number is cut short")?;
        *from = rest;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    bail!("a number is too large");
}

fn take<'a>(from: &mut &'a [u8], length: u64) -> Result<&'a [u8]> {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let (taken, rest) = from.split_at_checked(length).context("bytes are missing")?;
    *from = rest;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use holdfast_stdx::Prng;

    use super::*;

    #[test]
    fn what_is_packed_is_unpacked_and_small() {
        let from = tempfile::tempdir().unwrap();
        let mut noise = vec![0; 10_000];
        Prng::from_seed(1).fill(&mut noise);
        let big = File::create(from.path().join("big")).unwrap();
        big.set_len(1 << 30).unwrap();
        big.write_all_at(&[7; 9000], 12_345_678).unwrap();
        big.write_all_at(&noise, 1 << 29).unwrap();
        big.write_all_at(&noise, (1 << 30) - 10_000).unwrap();
        big.write_all_at(&[0; PIECE], 4096).unwrap();
        fs::create_dir(from.path().join("below")).unwrap();
        fs::write(from.path().join("below/text"), "text").unwrap();
        fs::write(from.path().join("below/nothing"), "").unwrap();
        fs::write(from.path().join("left"), "out").unwrap();
        let packed = pack(from.path(), |path| path == "left").unwrap();
        assert!(packed.len() < 11_000, "{}", packed.len());
        let to = tempfile::tempdir().unwrap();
        unpack(&packed, to.path()).unwrap();
        assert!(!to.path().join("left").exists());
        for name in ["big", "below/text", "below/nothing"] {
            let (one, other) = (from.path().join(name), to.path().join(name));
            let found = read_stretches(&other).unwrap();
            assert_eq!(found, read_stretches(&one).unwrap(), "{name}");
        }
        let blocks = fs::metadata(to.path().join("big")).unwrap().blocks();
        assert!(blocks * 512 < 1 << 20, "it is sparse");
        // Cut short anywhere, or changed in what is not contents, it is refused, and nothing panics.
        for end in 0..packed.len() {
            assert!(unpack(&packed[..end], to.path()).is_err(), "{end}");
        }
        let mut longer = packed.clone();
        longer.push(0);
        assert!(unpack(&longer, to.path()).is_err());
        let mut prng = Prng::from_seed(2);
        for _ in 0..500 {
            let mut changed = packed[..200].to_vec();
            let at = prng.below(200) as usize;
            changed[at] ^= 1 << prng.below(8);
            let _ = unpack(&changed, to.path());
        }
    }

    #[test]
    fn paths_stay_in_the_directory() {
        let to = tempfile::tempdir().unwrap();
        for path in ["../x", "/x", "a/../../x", ""] {
            let mut packed = MAGIC.to_vec();
            number(&mut packed, 1);
            number(&mut packed, path.len() as u64);
            packed.extend(path.as_bytes());
            packed.extend([0; 5]);
            assert!(unpack(&packed, to.path()).is_err(), "{path}");
        }
    }
}
