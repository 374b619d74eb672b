//! The Device Identification page (SPC-4 7.8.6).

use super::{Malformed, byte, pages};

/// A designation descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Designator {
    /// ASSOCIATION: 0 is the unit, 1 the target port, 2 the target.
    pub(crate) association: u8,
    /// DESIGNATOR TYPE.
    pub(crate) kind: u8,
    pub(crate) value: Vec<u8>,
}

/// What the page says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identification {
    pub(crate) designators: Vec<Designator>,
}

const UNIT: u8 = 0;
const PORT: u8 = 1;
/// DESIGNATOR TYPE: T10 vendor identification, EUI-64, NAA, relative target port, target port group, SCSI name.
pub(crate) const T10: u8 = 1;
pub(crate) const EUI: u8 = 2;
pub(crate) const NAA: u8 = 3;
const RELATIVE_PORT: u8 = 4;
const PORT_GROUP: u8 = 5;
pub(crate) const NAME: u8 = 8;

impl Identification {
    pub(crate) fn parse(data: &[u8]) -> Result<Self, Malformed> {
        const CUT: &str = "a designation descriptor that is longer than its page";
        let mut rest = pages::content(data, 0x83)?;
        let mut designators = Vec::new();
        while !rest.is_empty() {
            let flags = byte(rest, 1, CUT)?;
            let length = usize::from(byte(rest, 3, CUT)?);
            let value = rest.get(4..4 + length).ok_or(Malformed(CUT))?;
            designators.push(Designator {
                association: flags >> 4 & 0x3,
                kind: flags & 0x0F,
                value: value.to_vec(),
            });
            rest = rest.get(4 + length..).unwrap_or_default();
        }
        Ok(Self { designators })
    }

    /// The first designator of the unit of that type.
    pub(crate) fn unit(&self, kind: u8) -> Option<&[u8]> {
        self.find(UNIT, kind)
    }

    /// What hosts take for the unit's identifier: the best of those that are there.
    pub(crate) fn best(&self) -> Option<(u8, &[u8])> {
        let best = [NAA, EUI, NAME, T10].into_iter();
        let mut best = best.filter_map(|kind| self.unit(kind).map(|value| (kind, value)));
        best.next()
    }

    /// RELATIVE TARGET PORT IDENTIFIER of the port that was asked.
    pub(crate) fn relative_port(&self) -> Option<u16> {
        self.number(RELATIVE_PORT)
    }

    /// TARGET PORT GROUP of the port that was asked.
    pub(crate) fn port_group(&self) -> Option<u16> {
        self.number(PORT_GROUP)
    }

    fn number(&self, kind: u8) -> Option<u16> {
        let value: [u8; 4] = self.find(PORT, kind)?.try_into().ok()?;
        let [_, _, high, low] = value;
        Some(u16::from_be_bytes([high, low]))
    }

    fn find(&self, association: u8, kind: u8) -> Option<&[u8]> {
        let mut all = self.designators.iter();
        let found = all.find(|it| it.association == association && it.kind == kind);
        found.map(|it| it.value.as_slice())
    }
}

/// Whether an NAA designator is one of those that are for units, of the length that it must have (SPC-4 7.8.6.6).
pub(crate) fn is_sound_naa(value: &[u8]) -> bool {
    let format = value.first().map(|byte| byte >> 4);
    matches!(
        (format, value.len()),
        (Some(0x2 | 0x3 | 0x5), 8) | (Some(0x6), 16)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn page(descriptors: &[(u8, u8, &[u8])]) -> Vec<u8> {
        let mut content = Vec::new();
        for (association, kind, value) in descriptors {
            content.extend([0x01, association << 4 | kind, 0, value.len() as u8]);
            content.extend(*value);
        }
        let mut page = vec![0, 0x83];
        page.extend((content.len() as u16).to_be_bytes());
        page.extend(content);
        page
    }

    #[test]
    fn a_unit_is_known_by_the_best_of_its_names() {
        let naa = [0x60; 16];
        let page = page(&[
            (0, T10, b"vendor"),
            (0, NAA, &naa),
            (1, RELATIVE_PORT, &[0, 0, 0, 7]),
            (1, PORT_GROUP, &[0, 0, 1, 2]),
        ]);
        let parsed = Identification::parse(&page).unwrap();
        assert_eq!(parsed.best(), Some((NAA, &naa[..])));
        assert_eq!(parsed.relative_port(), Some(7));
        assert_eq!(parsed.port_group(), Some(0x102));
        for length in 0..page.len() {
            assert!(Identification::parse(&page[..length]).is_err());
        }
    }

    #[test]
    fn names_of_the_wrong_length_are_none() {
        assert!(is_sound_naa(&[0x60; 16]) && is_sound_naa(&[0x52; 8]));
        assert!(!is_sound_naa(&[0x60; 8]) && !is_sound_naa(&[0x52; 16]));
        assert!(!is_sound_naa(&[]) && !is_sound_naa(&[0xF0; 16]));
        let short = page(&[(1, RELATIVE_PORT, &[7])]);
        let parsed = Identification::parse(&short).unwrap();
        assert_eq!((parsed.relative_port(), parsed.best()), (None, None));
    }
}
