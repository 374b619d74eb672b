//! Tests of whole commands, from the CDB to the response, against a medium in memory.

mod access;
mod atomic;
mod bench;
mod block;
mod copy;
mod fuzz;
mod logs;
mod mode_select;
mod operation_codes;
mod primary;
mod provisioning;
mod refusals;
