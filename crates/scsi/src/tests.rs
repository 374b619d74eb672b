//! Tests of whole commands, from the CDB to the response, against a medium in memory.

mod bench;
mod block;
mod fuzz;
mod operation_codes;
mod primary;
mod provisioning;
mod refusals;
