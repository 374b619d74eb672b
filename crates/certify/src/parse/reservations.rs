//! PERSISTENT RESERVE IN (SPC-4 6.15).

use super::{Malformed, byte, double, quad, word};

/// READ KEYS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    /// PRGENERATION.
    pub(crate) generation: u32,
    pub(crate) keys: Vec<u64>,
}

/// READ RESERVATION.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) generation: u32,
    /// Key and TYPE.
    pub(crate) by: Option<(u64, u8)>,
}

/// REPORT CAPABILITIES.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Capabilities {
    /// ATP_C: ALL_TG_PT is understood.
    pub(crate) all_target_ports: bool,
    /// PTPL_C: APTPL is understood.
    pub(crate) can_persist: bool,
    /// PTPL_A: it is in effect.
    pub(crate) persists: bool,
    /// TYPE MASK, if TMV says that it means anything: a bit for each type, by its code.
    pub(crate) types: Option<u16>,
}

/// One nexus of READ FULL STATUS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registrant {
    pub(crate) key: u64,
    /// R_HOLDER.
    pub(crate) holds: bool,
    /// ALL_TG_PT.
    pub(crate) all_target_ports: bool,
    /// TYPE; means something for a holder.
    pub(crate) kind: u8,
    /// RELATIVE TARGET PORT IDENTIFIER.
    pub(crate) port: u16,
    /// The iSCSI TransportID's text, without what pads it.
    pub(crate) initiator: Vec<u8>,
}

const HEADER: &str = "PERSISTENT RESERVE IN data of less than eight bytes";
const CUT: &str = "PERSISTENT RESERVE IN data that is shorter than it says";

/// PRGENERATION, and what ADDITIONAL LENGTH counts.
fn list(data: &[u8]) -> Result<(u32, &[u8]), Malformed> {
    let generation = double(data, 0, HEADER)?;
    let length = double(data, 4, HEADER)? as usize;
    let end = length.checked_add(8).ok_or(Malformed(CUT))?;
    let rest = data.get(8..end).ok_or(Malformed(CUT))?;
    Ok((generation, rest))
}

impl Keys {
    pub(crate) fn parse(data: &[u8]) -> Result<Self, Malformed> {
        let (generation, rest) = list(data)?;
        let (keys, odd) = rest.as_chunks::<8>();
        if !odd.is_empty() {
            return Err(Malformed(
                "a list of keys that is no multiple of eight bytes",
            ));
        }
        let keys = keys.iter().copied().map(u64::from_be_bytes);
        Ok(Self {
            generation,
            keys: keys.collect(),
        })
    }

    /// How often that key is registered.
    pub(crate) fn count(&self, key: u64) -> usize {
        self.keys.iter().filter(|known| **known == key).count()
    }
}

impl Held {
    pub(crate) fn parse(data: &[u8]) -> Result<Self, Malformed> {
        let (generation, rest) = list(data)?;
        let by = match rest.is_empty() {
            true => None,
            false => {
                let kind = byte(rest, 13, CUT)?;
                if kind >> 4 != 0 {
                    return Err(Malformed("a reservation of a scope other than the unit"));
                }
                Some((quad(rest, 0, CUT)?, kind & 0x0F))
            }
        };
        Ok(Self { generation, by })
    }
}

impl Capabilities {
    pub(crate) fn parse(data: &[u8]) -> Result<Self, Malformed> {
        const CUT: &str = "REPORT CAPABILITIES data of less than six bytes";
        let first = byte(data, 2, CUT)?;
        let second = byte(data, 3, CUT)?;
        let [high, low] = word(data, 4, CUT)?.to_be_bytes();
        // WR_EX_AR is bit 7 and stands for type 7, EX_AC_AR is bit 0 of the next byte and stands for type 8.
        let types = u16::from(high) | u16::from(low & 0x01) << 8;
        Ok(Self {
            all_target_ports: first & 0x04 != 0,
            can_persist: first & 0x01 != 0,
            persists: second & 0x01 != 0,
            types: (second & 0x80 != 0).then_some(types),
        })
    }

    /// Whether the type with that code is offered, as far as is told.
    pub(crate) fn offers(&self, kind: u8) -> Option<bool> {
        self.types.map(|types| types >> kind & 1 != 0)
    }
}

/// READ FULL STATUS.
pub(crate) fn full_status(data: &[u8]) -> Result<Vec<Registrant>, Malformed> {
    let (_, mut rest) = list(data)?;
    let mut all = Vec::new();
    while !rest.is_empty() {
        let length = double(rest, 20, CUT)? as usize;
        let end = length.checked_add(24).ok_or(Malformed(CUT))?;
        let id = rest.get(24..end).ok_or(Malformed(CUT))?;
        // Its four bytes of header, and the zeros that pad it.
        let name = id.get(4..).unwrap_or_default();
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let flags = byte(rest, 12, CUT)?;
        all.push(Registrant {
            key: quad(rest, 0, CUT)?,
            holds: flags & 0x01 != 0,
            all_target_ports: flags & 0x02 != 0,
            kind: byte(rest, 13, CUT)? & 0x0F,
            port: word(rest, 18, CUT)?,
            initiator: name.to_vec(),
        });
        rest = rest.get(end..).unwrap_or_default();
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_reservation() {
        let mut data = vec![0, 0, 0, 9, 0, 0, 0, 16];
        data.extend(1_u64.to_be_bytes());
        data.extend(1_u64.to_be_bytes());
        let keys = Keys::parse(&data).unwrap();
        assert_eq!((keys.generation, keys.count(1), keys.count(2)), (9, 2, 0));
        assert!(Keys::parse(&data[..20]).is_err());
        data[7] = 15;
        assert!(Keys::parse(&data).is_err());
        data[7] = 16;
        data[16..24].copy_from_slice(&[0, 0, 0, 0, 0, 5, 0, 0]);
        assert_eq!(Held::parse(&data).unwrap().by, Some((1, 5)));
        data[21] = 0x15;
        assert!(Held::parse(&data).is_err());
        assert_eq!(Held::parse(&[0; 8]).unwrap().by, None);
        assert!(Keys::parse(&[0xFF; 8]).is_err());
    }

    #[test]
    fn all_six_types() {
        let capabilities = Capabilities::parse(&[0, 8, 0x05, 0x81, 0xEA, 0x01, 0, 0]).unwrap();
        for kind in [1, 3, 5, 6, 7, 8] {
            assert_eq!(capabilities.offers(kind), Some(true), "{kind}");
        }
        assert_eq!(capabilities.offers(2), Some(false));
        assert!(capabilities.can_persist && capabilities.persists);
        let silent = Capabilities::parse(&[0, 8, 0, 0, 0xEA, 0x01]).unwrap();
        assert_eq!(silent.offers(5), None);
    }

    #[test]
    fn who_is_registered() {
        let name = b"iqn.x:a,i,0x800000000001\0\0\0\0";
        let mut data = vec![0; 8];
        data.extend(7_u64.to_be_bytes());
        data.extend([0, 0, 0, 0, 0x03, 0x05, 0, 0, 0, 0, 0, 3]);
        data.extend((name.len() as u32 + 4).to_be_bytes());
        data.extend([0x45, 0, 0, name.len() as u8]);
        data.extend(name);
        let length = data.len() as u32 - 8;
        data[4..8].copy_from_slice(&length.to_be_bytes());
        let all = full_status(&data).unwrap();
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].key, all[0].port, all[0].kind), (7, 3, 5));
        assert_eq!(all[0].initiator, b"iqn.x:a,i,0x800000000001");
        assert!(all[0].holds && all[0].all_target_ports);
        data[31] = 0xFF;
        assert!(full_status(&data).is_err());
    }
}
