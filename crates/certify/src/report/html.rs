//! The report as one page: nothing is fetched from anywhere, it follows the reader's light or dark, and it prints.
//!
//! Invariants:
//! - whatever a target has said is escaped: nothing of it is markup.

use super::{CheckReport, Report, details, size};
use crate::verdict::Standing;

const STYLE: &str = include_str!("html/style.css");

/// The report as a page.
#[must_use]
pub fn html(report: &Report) -> String {
    let subject = &report.subject;
    let title = format!("Readiness of {}, LUN {}", subject.target, subject.lun);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
        escaped(&title)
    );
    page.push_str("<header>\n<h1>Readiness for clusters of hosts</h1>\n");
    page.push_str(&format!(
        "<p class=\"subject\">{}, LUN {}</p>\n",
        escaped(&subject.target),
        subject.lun
    ));
    let counts = report.counts();
    page.push_str(&format!(
        "<p>{} of {} checks, in {:.1} s, from {} on</p>\n",
        escaped(&counts.summary()),
        report.checks.len(),
        report.took.as_secs_f64(),
        report.began()
    ));
    if report.interrupted {
        page.push_str("<p class=\"bad\">The run was interrupted.</p>\n");
    }
    if let Some(left) = &report.left_behind {
        page.push_str(&format!(
            "<p class=\"bad\">Not cleared up: {}</p>\n",
            escaped(left)
        ));
    }
    page.push_str("</header>\n");
    page.push_str(&hosts(report));
    page.push_str(&unit(report));
    for (group, checks) in report.groups() {
        page.push_str(&format!("<section>\n<h2>{}</h2>\n", group.title()));
        for check in checks {
            page.push_str(&article(check));
        }
        page.push_str("</section>\n");
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

/// Which hosts may use the disk.
fn hosts(report: &Report) -> String {
    let mut text = "<section>\n<h2>Hosts</h2>\n<div class=\"hosts\">\n".to_owned();
    for verdict in &report.hosts {
        let class = match verdict.standing {
            Standing::Ready => "good",
            Standing::ReadyWithWarnings => "doubtful",
            Standing::Undetermined => "open",
            Standing::NotReady => "bad",
        };
        let because = verdict.because.iter().map(|id| {
            // Ids are ours, and are letters, dots and dashes.
            format!("<a href=\"#{id}\">{id}</a>")
        });
        let because: Vec<String> = because.collect();
        text.push_str(&format!(
            "<div class=\"host {class}\"><h3>{}</h3><p class=\"standing\">{}</p><p>{}</p></div>\n",
            escaped(verdict.host.name()),
            verdict.standing.name().to_lowercase(),
            because.join(", ")
        ));
    }
    text + "</div>\n</section>\n"
}

/// What was checked.
fn unit(report: &Report) -> String {
    let subject = &report.subject;
    let rows = [
        (
            "make",
            format!(
                "{} {} {}",
                subject.vendor, subject.product, subject.revision
            ),
        ),
        (
            "size",
            format!(
                "{}, blocks of {} bytes",
                size(subject.bytes),
                subject.block_length
            ),
        ),
        ("identifier", subject.identifier.clone()),
        ("serial number", subject.serial.clone()),
    ];
    let mut text = "<section>\n<h2>Unit</h2>\n<table>\n".to_owned();
    for (name, value) in rows {
        text.push_str(&format!(
            "<tr><th>{name}</th><td>{}</td></tr>\n",
            escaped(&value)
        ));
    }
    for (number, path) in (1..).zip(&subject.paths) {
        let told = |name: &str, value: Option<u16>| {
            value.map_or_else(String::new, |value| format!(", {name} {value}"))
        };
        text.push_str(&format!(
            "<tr><th>path {number}</th><td>{}{}{}</td></tr>\n",
            escaped(&path.portal),
            told("port", path.relative_port),
            told("group", path.port_group)
        ));
    }
    text + "</table>\n</section>\n"
}

/// One check.
fn article(report: &CheckReport) -> String {
    let check = report.check;
    let outcome = report.outcome.id();
    let mut text = format!(
        "<article id=\"{id}\" class=\"{outcome}\">\n<h3><span class=\"outcome\">{}</span> {}</h3>\n\
         <p class=\"id\"><code>{id}</code> <span class=\"took\">{} ms</span></p>\n<dl>\n",
        outcome.replace('-', " "),
        escaped(check.title),
        report.took.as_millis(),
        id = check.id,
    );
    let mut row = |name: &str, value: &str| {
        text.push_str(&format!("<dt>{name}</dt><dd>{}</dd>\n", escaped(value)));
    };
    for (name, value) in details(&report.outcome) {
        row(name, value);
    }
    row("done", check.does);
    row("demanded", check.clause);
    row("where it fails", check.consequence);
    let hosts: Vec<&str> = check.required_by.iter().map(|host| host.name()).collect();
    row(
        "needed by",
        &match hosts.is_empty() {
            true => "none of the hosts, for being used at all".to_owned(),
            false => hosts.join("; "),
        },
    );
    text + "</dl>\n</article>\n"
}

/// Text as it has to be in a page, within elements and in quoted attributes.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn nothing_that_a_target_says_is_markup() {
        let page = html(&sample());
        assert!(!page.contains("<script"), "{page}");
        assert!(!page.contains("<b>EVIL"));
        for part in [
            "&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;",
            "&lt;b&gt;EVIL DISK 1",
            "&quot;&#39;&lt;&gt;&amp;",
            "&quot;quoted&quot; &amp; odd",
        ] {
            assert!(page.contains(part), "{part} is missing");
        }
    }

    #[test]
    fn elements_are_closed_and_nothing_is_fetched() {
        let page = html(&sample());
        for name in [
            "section", "article", "table", "dl", "dt", "dd", "h2", "h3", "p", "div",
        ] {
            let opened = page.matches(&format!("<{name}>")).count()
                + page.matches(&format!("<{name} ")).count();
            let closed = page.matches(&format!("</{name}>")).count();
            assert_eq!(opened, closed, "{name}");
        }
        for word in ["http://", "https://", "src=", "url(", "@import"] {
            assert!(!page.contains(word), "{word}");
        }
        // Each link leads somewhere.
        for link in page.split("href=\"#").skip(1) {
            let id = link.split('"').next().unwrap();
            assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
        }
    }
}
