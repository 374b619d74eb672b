//! Smaller answers: REPORT LUNS, GET LBA STATUS, LOG SENSE, MODE SENSE, REPORT SUPPORTED OPERATION CODES.

use super::{Malformed, byte, double, quad, word};

/// REPORT LUNS (SPC-4 6.33): addresses.
pub(crate) fn luns(data: &[u8]) -> Result<Vec<[u8; 8]>, Malformed> {
    const CUT: &str = "REPORT LUNS data that is shorter than it says";
    let length = double(data, 0, CUT)? as usize;
    let end = length.checked_add(8).ok_or(Malformed(CUT))?;
    let (luns, _) = data.get(8..end).ok_or(Malformed(CUT))?.as_chunks::<8>();
    Ok(luns.to_vec())
}

/// Blocks that are alike (SBC-3 5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) first: u64,
    pub(crate) count: u32,
    /// PROVISIONING STATUS: 0 is mapped, 1 deallocated, 2 anchored.
    pub(crate) status: u8,
}

/// GET LBA STATUS.
pub(crate) fn lba_status(data: &[u8]) -> Result<Vec<Extent>, Malformed> {
    const CUT: &str = "GET LBA STATUS data without a whole descriptor";
    // PARAMETER DATA LENGTH counts what there is, however much of it fits.
    double(data, 0, CUT)?;
    let (descriptors, _) = data.get(8..).ok_or(Malformed(CUT))?.as_chunks::<16>();
    let extents = descriptors.iter().map(|descriptor| {
        Ok(Extent {
            first: quad(descriptor, 0, CUT)?,
            count: double(descriptor, 8, CUT)?,
            status: byte(descriptor, 12, CUT)? & 0x0F,
        })
    });
    let extents: Vec<Extent> = extents.collect::<Result<_, _>>()?;
    match extents.is_empty() {
        true => Err(Malformed(CUT)),
        false => Ok(extents),
    }
}

/// Parameters of a log page (SPC-4 7.3): code and value.
pub(crate) fn log_parameters(data: &[u8], page: u8) -> Result<Vec<(u16, Vec<u8>)>, Malformed> {
    const CUT: &str = "a log page that is shorter than it says";
    if byte(data, 0, CUT)? & 0x3F != page {
        return Err(Malformed("another log page than was asked for"));
    }
    let length = usize::from(word(data, 2, CUT)?);
    let mut rest = data.get(4..4 + length).ok_or(Malformed(CUT))?;
    let mut parameters = Vec::new();
    while !rest.is_empty() {
        let length = usize::from(byte(rest, 3, CUT)?);
        let value = rest.get(4..4 + length).ok_or(Malformed(CUT))?;
        parameters.push((word(rest, 0, CUT)?, value.to_vec()));
        rest = rest.get(4 + length..).unwrap_or_default();
    }
    Ok(parameters)
}

/// What MODE SENSE (10) says with the Caching page (SBC-3 6.4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caching {
    /// DPOFUA.
    pub(crate) knows_fua: bool,
    /// WP.
    pub(crate) is_write_protected: bool,
    /// WCE.
    pub(crate) caches_writes: bool,
}

pub(crate) fn caching(data: &[u8]) -> Result<Caching, Malformed> {
    const CUT: &str = "MODE SENSE (10) data without the page that was asked for";
    let specific = byte(data, 3, CUT)?;
    let descriptors = usize::from(word(data, 6, CUT)?);
    let page = data.get(8 + descriptors..).ok_or(Malformed(CUT))?;
    if byte(page, 0, CUT)? & 0x3F != 0x08 {
        return Err(Malformed(CUT));
    }
    Ok(Caching {
        knows_fua: specific & 0x10 != 0,
        is_write_protected: specific & 0x80 != 0,
        caches_writes: byte(page, 2, CUT)? & 0x04 != 0,
    })
}

/// REPORT SUPPORTED OPERATION CODES of one command (SPC-4 6.35.3): whether it is supported as the standard has it.
pub(crate) fn is_supported(data: &[u8]) -> Result<bool, Malformed> {
    const CUT: &str = "REPORT SUPPORTED OPERATION CODES data of less than two bytes";
    Ok(byte(data, 1, CUT)? & 0x07 == 0x03)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_extents() {
        let mut data = vec![0, 0, 0, 16, 0, 0, 0, 0];
        data.extend([0; 8]);
        data.extend([0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(luns(&data).unwrap().len(), 2);
        assert!(luns(&data[..23]).is_err());
        let mut data = vec![0, 0, 0, 20, 0, 0, 0, 0];
        data.extend(7_u64.to_be_bytes());
        data.extend([0, 0, 0, 9, 1, 0, 0, 0]);
        let extent = Extent {
            first: 7,
            count: 9,
            status: 1,
        };
        assert_eq!(lba_status(&data), Ok(vec![extent]));
        assert!(lba_status(&data[..20]).is_err());
    }

    #[test]
    fn log_and_mode_pages() {
        let data = [0x0C, 0, 0, 12, 0, 1, 3, 8, 0, 0, 0, 5, 2, 0, 0, 0];
        let parameters = log_parameters(&data, 0x0C).unwrap();
        assert_eq!(parameters, [(1, vec![0, 0, 0, 5, 2, 0, 0, 0])]);
        assert!(log_parameters(&data, 0x0D).is_err());
        assert!(log_parameters(&data[..15], 0x0C).is_err());
        let mut data = vec![0, 0, 0, 0x10, 0, 0, 0, 0, 0x88, 0x12, 0x04];
        let expected = Caching {
            knows_fua: true,
            is_write_protected: false,
            caches_writes: true,
        };
        assert_eq!(caching(&data), Ok(expected));
        data[7] = 8;
        assert!(caching(&data).is_err());
        assert_eq!(is_supported(&[0, 3]), Ok(true));
        assert_eq!(is_supported(&[0, 1]), Ok(false));
    }
}
