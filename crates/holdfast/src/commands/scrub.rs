//! `holdfast volume scrub`, and what people are told of scrubs.

use std::time::Duration;

use holdfast_api::ApiClient;
use holdfast_api::documents::{Scrub, ScrubFindings, ScrubRun, Volume};
use holdfast_control::VolumeName;
use holdfast_stdx::Count;
use tokio::time::Instant;

use super::protection::about;
use super::stalls::utc;
use crate::failure::Failure;
use crate::output::{Output, bytes};

/// Between two looks at how far it is.
const LOOK: Duration = Duration::from_millis(500);
/// Between two lines that tell it.
const WORD: Duration = Duration::from_secs(10);

/// Begins a scrub; waits for its end if that is wanted.
pub(crate) async fn run(
    client: &ApiClient,
    output: &Output,
    name: &VolumeName,
    wait: bool,
) -> Result<(), Failure> {
    let mut volume = client.scrub_volume(name.as_str()).await?;
    if !wait {
        return show(output, &volume);
    }
    let round = match volume.scrub {
        Scrub {
            running: Some(run), ..
        } => run.round,
        // It has ended already.
        Scrub { last, .. } => last.map_or(0, |last| last.round),
    };
    let mut told = Instant::now();
    loop {
        if let Some(last) = volume.scrub.last.filter(|last| last.round >= round) {
            show(output, &volume)?;
            return match last.findings.unmended_blocks {
                0 => Ok(()),
                blocks => Err(not_mended(blocks).told_on_stdout()),
            };
        }
        tokio::time::sleep(LOOK).await;
        volume = client.volume(name.as_str()).await?;
        if let Some(run) = volume.scrub.running.filter(|_| told.elapsed() >= WORD) {
            told = Instant::now();
            output.talk(&progress(&run, volume.slices.len()));
        }
    }
}

fn show(output: &Output, volume: &Volume) -> Result<(), Failure> {
    output.result(volume, || text(&volume.scrub, volume.slices.len()))
}

fn not_mended(blocks: u64) -> Failure {
    Failure::new(format!(
        "{} could not be mended",
        Count::of(blocks, "block")
    ))
    .hint(
        "start nodes that are down and may have them; `holdfast status --explain` tells where they \
         are, and reading one of them is a MEDIUM ERROR with its address",
    )
}

/// How far a scrub of so many slices is, in a line.
fn progress(run: &ScrubRun, slices: usize) -> String {
    let left = run.seconds_left.map(|left| format!(", {}", about(left)));
    format!(
        "scrub: {} of {slices} slices done, {}; {} to read{}",
        run.slices_done,
        found(&run.findings),
        bytes(run.bytes_left),
        left.unwrap_or_default()
    )
}

/// How a volume of so many slices is scrubbed, in a line or two.
pub(crate) fn text(scrub: &Scrub, slices: usize) -> String {
    let mut text = String::new();
    if let Some(run) = &scrub.running {
        let (done, began) = (run.slices_done, utc(run.began_seconds * 1000));
        text.push_str(&format!(
            "scrub     under way since {began} UTC: {done} of {slices} slices done, {}\n",
            found(&run.findings)
        ));
        let left = run.seconds_left.map(|left| format!(", {}", about(left)));
        text.push_str(&format!(
            "          {} to read at {}/s{}\n",
            bytes(run.bytes_left),
            bytes(run.bytes_per_second),
            left.unwrap_or_default()
        ));
    }
    match &scrub.last {
        // Of a new volume that is known as soon as it is there.
        Some(last) if last.findings == ScrubFindings::default() => {
            text.push_str(&format!(
                "scrubbed  {} UTC: there was nothing in it\n",
                utc(last.ended_seconds * 1000)
            ));
        }
        Some(last) => text.push_str(&format!(
            "scrubbed  until {} UTC, in {} s: {}\n",
            utc(last.ended_seconds * 1000),
            last.ended_seconds.saturating_sub(last.began_seconds),
            found(&last.findings)
        )),
        None => text.push_str("scrubbed  never\n"),
    }
    text
}

fn found(findings: &ScrubFindings) -> String {
    let ScrubFindings {
        bytes_read,
        bad_blocks,
        differing_blocks,
        doubtful_blocks,
        unmended_blocks,
        skipped_blocks,
    } = *findings;
    let mut text = format!("{} read", bytes(bytes_read));
    let mut add = |blocks: u64, what: &str| {
        if blocks > 0 {
            text.push_str(&format!(", {} {what}", Count::of(blocks, "block")));
        }
    };
    add(bad_blocks, "bad");
    add(differing_blocks, "differing");
    add(doubtful_blocks, "of which in doubt");
    add(unmended_blocks, "NOT MENDED");
    add(skipped_blocks, "not compared");
    if bad_blocks + differing_blocks == 0 {
        text.push_str(", nothing wrong");
    }
    text
}

#[cfg(test)]
mod tests {
    use holdfast_api::documents::ScrubResult;

    use super::*;

    #[test]
    fn what_was_found_is_told_and_what_was_not_is_left_out() {
        let mut scrub = Scrub::default();
        assert_eq!(text(&scrub, 3), "scrubbed  never\n");
        let of_nothing = ScrubResult {
            round: 1,
            began_seconds: 70,
            ended_seconds: 70,
            findings: ScrubFindings::default(),
        };
        let new = Scrub {
            last: Some(of_nothing),
            ..Scrub::default()
        };
        let told = text(&new, 3);
        let words = "scrubbed  1970-01-01 00:01:10.000 UTC: there was nothing in it\n";
        assert_eq!(told, words);
        scrub.running = Some(ScrubRun {
            round: 2,
            began_seconds: 86_400,
            slices_done: 1,
            findings: ScrubFindings {
                bytes_read: 8192,
                ..ScrubFindings::default()
            },
            bytes_left: 40960,
            bytes_per_second: 4096,
            seconds_left: Some(10),
        });
        assert_eq!(
            progress(&scrub.running.unwrap(), 3),
            "scrub: 1 of 3 slices done, 8 KiB read, nothing wrong; 40 KiB to read, about 10 s"
        );
        scrub.last = Some(ScrubResult {
            round: 1,
            began_seconds: 10,
            ended_seconds: 70,
            findings: ScrubFindings {
                bytes_read: 4096,
                bad_blocks: 5,
                differing_blocks: 2,
                doubtful_blocks: 1,
                unmended_blocks: 3,
                skipped_blocks: 4,
            },
        });
        assert_eq!(
            text(&scrub, 3),
            "scrub     under way since 1970-01-02 00:00:00.000 UTC: 1 of 3 slices done, 8 KiB read, \
             nothing wrong\n          40 KiB to read at 4 KiB/s, about 10 s\n\
             scrubbed  until 1970-01-01 00:01:10.000 UTC, in 60 s: 4 KiB read, 5 blocks bad, 2 blocks \
             differing, 1 block of which in doubt, 3 blocks NOT MENDED, 4 blocks not compared\n"
        );
    }
}
