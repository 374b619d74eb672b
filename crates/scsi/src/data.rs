//! Data that is in several parts.

use alloc::vec::Vec;

use holdfast_stdx::Bytes;

/// Where two differ first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// Bytes before it.
    pub(crate) offset: u64,
}

/// How many bytes the parts have.
pub(crate) fn length(parts: &[Bytes]) -> u64 {
    parts.iter().map(|part| part.len() as u64).sum()
}

/// Drops what is beyond the first `length` bytes.
pub(crate) fn truncate(parts: &mut Vec<Bytes>, length: u64) {
    let mut room = length;
    for part in parts.iter_mut() {
        let kept = room.min(part.len() as u64);
        part.truncate(kept as usize);
        room -= kept;
    }
    parts.retain(|part| !part.is_empty());
}

/// Takes the first `length` bytes out.
///
/// Panics if there are fewer.
pub(crate) fn split_front(parts: &mut Vec<Bytes>, length: u64) -> Vec<Bytes> {
    let mut front = Vec::new();
    let mut missing = length;
    let mut rest = core::mem::take(parts).into_iter();
    while missing > 0 {
        let mut part = rest.next().expect("there is as much as is taken");
        let taken = missing.min(part.len() as u64);
        front.push(part.split_to(taken as usize));
        missing -= taken;
        if !part.is_empty() {
            parts.push(part);
        }
    }
    parts.extend(rest);
    front
}

/// The parts in one piece; not copied if there is just one.
pub(crate) fn join(mut parts: Vec<Bytes>) -> Bytes {
    match parts.len() {
        0 => Bytes::new(),
        1 => parts.remove(0),
        _ => Bytes::from(parts.concat()),
    }
}

/// Compares `actual` with `expected`, which is repeated if it is shorter.
///
/// Panics unless `actual` is a whole number of times as long.
pub(crate) fn compare(actual: &[Bytes], expected: &[Bytes]) -> Result<(), Mismatch> {
    let period = length(expected);
    assert!(period > 0, "there is something to compare with");
    assert!(
        length(actual).is_multiple_of(period),
        "the expected data fits a whole number of times"
    );
    let mut repeated = expected.iter().cycle().map(|part| &part[..]);
    let mut wanted: &[u8] = &[];
    let mut offset = 0;
    for part in actual {
        let mut rest = &part[..];
        while !rest.is_empty() {
            while wanted.is_empty() {
                wanted = repeated.next().expect("a cycle of parts does not end");
            }
            let count = rest.len().min(wanted.len());
            if rest[..count] != wanted[..count] {
                let same = rest.iter().zip(wanted).take_while(|(a, b)| a == b).count();
                return Err(Mismatch {
                    offset: offset + same as u64,
                });
            }
            offset += count as u64;
            rest = &rest[count..];
            wanted = &wanted[count..];
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn parts(texts: &[&'static str]) -> Vec<Bytes> {
        texts
            .iter()
            .map(|text| Bytes::from_static(text.as_bytes()))
            .collect()
    }

    #[test]
    fn parts_need_not_agree() {
        assert_eq!(
            compare(&parts(&["ab", "", "cdef"]), &parts(&["abc", "d", "ef"])),
            Ok(())
        );
        assert_eq!(
            compare(&parts(&["ab", "cdeX"]), &parts(&["abc", "def"])),
            Err(Mismatch { offset: 5 })
        );
    }

    #[test]
    fn what_is_shorter_is_repeated() {
        assert_eq!(
            compare(&parts(&["abab", "ab"]), &parts(&["a", "b"])),
            Ok(())
        );
        assert_eq!(
            compare(&parts(&["abab", "aX"]), &parts(&["ab"])),
            Err(Mismatch { offset: 5 })
        );
    }

    #[test]
    fn the_front_is_split_off() {
        for (length, front, back) in [
            (0, parts(&[]), parts(&["ab", "cd"])),
            (1, parts(&["a"]), parts(&["b", "cd"])),
            (2, parts(&["ab"]), parts(&["cd"])),
            (4, parts(&["ab", "cd"]), parts(&[])),
        ] {
            let mut data = parts(&["ab", "cd"]);
            assert_eq!(split_front(&mut data, length), front);
            assert_eq!(data, back);
        }
    }

    #[test]
    fn truncation_keeps_the_front() {
        for (length, expected) in [
            (0, vec![]),
            (2, parts(&["ab"])),
            (3, parts(&["ab", "c"])),
            (9, parts(&["ab", "cd"])),
        ] {
            let mut data = parts(&["ab", "cd"]);
            truncate(&mut data, length);
            assert_eq!(data, expected);
        }
        assert_eq!(join(parts(&["ab", "cd"])), "abcd");
    }
}
