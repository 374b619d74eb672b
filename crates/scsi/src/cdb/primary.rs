//! CDBs of SPC-4: what every kind of device knows.

use super::fields::Fields;
use super::{Command, LogSense, ModeSense, OperationCodeSubject, PageControl};
use crate::Sense;
use crate::limits::PORT_GROUP_LIST_BYTES_MAX;
use crate::operation_codes::PrimaryOperation;

pub(super) fn parse(operation: PrimaryOperation, fields: &Fields) -> Result<Command, Sense> {
    match operation {
        PrimaryOperation::TestUnitReady => Ok(Command::TestUnitReady),
        PrimaryOperation::RequestSense => Ok(Command::RequestSense {
            descriptor_format: fields.bit(1, 0),
            allocation_length: u32::from(fields.byte(4)),
        }),
        PrimaryOperation::Inquiry => inquiry(fields),
        PrimaryOperation::ModeSense6 => Ok(Command::ModeSense(ModeSense {
            ten: false,
            long_descriptor: false,
            allocation_length: u32::from(fields.byte(4)),
            ..mode_sense(fields)
        })),
        PrimaryOperation::ModeSense10 => Ok(Command::ModeSense(mode_sense(fields))),
        PrimaryOperation::ReportLuns => Ok(Command::ReportLuns {
            select: fields.byte(2),
            allocation_length: fields.u32(6),
        }),
        PrimaryOperation::ReportOperationCodes => report_operation_codes(fields),
        PrimaryOperation::ModeSelect6 => Ok(Command::ModeSelect {
            ten: false,
            page_format: fields.bit(1, 4),
            parameter_list_length: u16::from(fields.byte(4)),
        }),
        PrimaryOperation::ModeSelect10 => Ok(Command::ModeSelect {
            ten: true,
            page_format: fields.bit(1, 4),
            parameter_list_length: fields.u16(7),
        }),
        PrimaryOperation::LogSense => Ok(Command::LogSense(LogSense {
            page: fields.byte(2) & 0x3F,
            subpage: fields.byte(3),
            parameter_pointer: fields.u16(5),
            allocation_length: u32::from(fields.u16(7)),
        })),
        PrimaryOperation::ReportPortGroups => report_port_groups(fields),
        PrimaryOperation::SetPortGroups => set_port_groups(fields),
        PrimaryOperation::ReportTaskFunctions => Ok(Command::ReportTaskFunctions {
            extended: fields.bit(2, 7),
            allocation_length: fields.u32(6),
        }),
    }
}

fn inquiry(fields: &Fields) -> Result<Command, Sense> {
    let page = fields.byte(2);
    let vital_product_data = fields.bit(1, 0);
    // SPC-4, INQUIRY: a page code without EVPD is an invalid field.
    if !vital_product_data && page != 0 {
        return Err(Sense::invalid_cdb_field(2, None));
    }
    Ok(Command::Inquiry {
        page: vital_product_data.then_some(page),
        allocation_length: u32::from(fields.u16(3)),
    })
}

/// The fields of MODE SENSE (10), most of which MODE SENSE (6) has in the same places.
fn mode_sense(fields: &Fields) -> ModeSense {
    let ten = fields.length() == 10;
    ModeSense {
        ten,
        long_descriptor: fields.bit(1, 4),
        block_descriptor: !fields.bit(1, 3),
        control: match fields.byte(2) >> 6 {
            0 => PageControl::Current,
            1 => PageControl::Changeable,
            2 => PageControl::Default,
            _ => PageControl::Saved,
        },
        page: fields.byte(2) & 0x3F,
        subpage: fields.byte(3),
        allocation_length: if ten { u32::from(fields.u16(7)) } else { 0 },
    }
}

fn report_operation_codes(fields: &Fields) -> Result<Command, Sense> {
    let operation_code = fields.byte(3);
    let service_action = fields.u16(4);
    let subject = match fields.byte(2) & 0x07 {
        0 => OperationCodeSubject::All,
        1 => OperationCodeSubject::Plain { operation_code },
        2 => OperationCodeSubject::WithServiceAction {
            operation_code,
            service_action,
        },
        3 => OperationCodeSubject::Either {
            operation_code,
            service_action,
        },
        _ => return Err(Sense::invalid_cdb_field(2, Some(2))),
    };
    Ok(Command::ReportOperationCodes {
        subject,
        timeouts: fields.bit(2, 7),
        allocation_length: fields.u32(6),
    })
}

fn report_port_groups(fields: &Fields) -> Result<Command, Sense> {
    let extended = match fields.byte(1) >> 5 {
        0 => false,
        1 => true,
        // SPC-4, PARAMETER DATA FORMAT: the others are reserved.
        _ => return Err(Sense::invalid_cdb_field(1, Some(7))),
    };
    Ok(Command::ReportPortGroups {
        extended,
        allocation_length: fields.u32(6),
    })
}

fn set_port_groups(fields: &Fields) -> Result<Command, Sense> {
    let parameter_list_length = fields.u32(6);
    // SPC-4, SET TARGET PORT GROUPS: a length that the list cannot have is an invalid field of the
    // CDB. No list is not an error.
    if parameter_list_length > PORT_GROUP_LIST_BYTES_MAX || !parameter_list_length.is_multiple_of(4)
    {
        return Err(Sense::invalid_cdb_field(6, None));
    }
    Ok(Command::SetPortGroups {
        parameter_list_length,
    })
}
