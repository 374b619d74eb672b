//! What is written about the metrics: their reference, or with `--sample` what a node exposes that has something of everything, for
//! tools that judge such texts.
#![allow(clippy::print_stdout, reason = "what is printed is the result")]

fn main() {
    let wants_sample = std::env::args().any(|word| word == "--sample");
    let text = if wants_sample {
        holdfast_node::metrics_reference::sample()
    } else {
        holdfast_node::metrics_reference::reference()
    };
    print!("{text}");
}
