//! Prints the OpenAPI document that is served at `/api/v1/openapi.json`, for `cargo xtask`.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]

fn main() {
    println!("{}", holdfast_api::openapi());
}
