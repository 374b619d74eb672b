//! The documents as pages: what is in `docs`, made HTML when the program is built, so that every node has it.
//!
//! `cargo xtask book` makes the same documents a book with mdBook, which brings scripts and style sheets within its pages, and takes
//! minutes to be built itself. These pages have neither, and take nothing but Rust.
//!
//! It refuses to pass on HTML that a document has: that is shown as it is written.
//!
//! Invariants:
//! - no page has a script, a style of its own, or anything that is not from beside it;
//! - headings have the names that links to them use, which are those of `cargo xtask ci book`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use pulldown_cmark::{Alignment, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

/// Where the pages are served.
const PLACE: &str = "/docs/";
/// The table of contents, which is made into a page of its own.
const SUMMARY: &str = "SUMMARY.md";
/// A part of the book that is too long to stand beside every page.
const LONG_PART: &str = "Decisions";
/// What the pages look like.
const STYLE: &str = include_str!("book.css");
/// Files that are served as they are.
const AS_THEY_ARE: &[&str] = &["svg", "json", "yml"];
/// How a document says that a file stands here.
const INCLUDE: (&str, &str) = ("{{#include ", "}}");

/// A line of the table of contents.
enum Line {
    Part(String),
    Chapter(Chapter),
}

/// A document of the book.
struct Chapter {
    title: String,
    /// From `docs`, as in `reference/cli.md`.
    path: String,
}

/// Where each page and file is served, and what it is.
pub(crate) fn pages(docs: &Path) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let lines = lines(&fs::read_to_string(docs.join(SUMMARY))?);
    let chapters: Vec<&Chapter> = lines
        .iter()
        .filter_map(|line| match line {
            Line::Chapter(chapter) => Some(chapter),
            Line::Part(_) => None,
        })
        .collect();
    let mut made = BTreeMap::new();
    for (at, chapter) in chapters.iter().enumerate() {
        let text = included(&docs.join(&chapter.path))?;
        let mut body = rendered(&text);
        body.push_str(&beside(
            at.checked_sub(1).and_then(|at| chapters.get(at)).copied(),
            chapters.get(at + 1).copied(),
        ));
        let page = page(&chapter.title, &contents(&lines, Some(chapter)), &body);
        made.insert(served(&chapter.path), page.into_bytes());
    }
    let whole = format!("<h1>Contents</h1>\n{}", contents(&lines, None));
    let index = page("Contents", "", &whole);
    made.insert(format!("{PLACE}index.html"), index.into_bytes());
    made.insert(format!("{PLACE}book.css"), STYLE.into());
    files(docs, docs, &mut made)?;
    Ok(made)
}

/// Files that pages show or lead to.
fn files(docs: &Path, directory: &Path, made: &mut BTreeMap<String, Vec<u8>>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            files(docs, &path, made)?;
            continue;
        }
        let relative = path.strip_prefix(docs).expect("it is below").to_str();
        let ending = path.extension().and_then(|ending| ending.to_str());
        if let (Some(relative), Some(ending)) = (relative, ending)
            && AS_THEY_ARE.contains(&ending)
        {
            made.insert(format!("{PLACE}{relative}"), fs::read(&path)?);
        }
    }
    Ok(())
}

/// Where a document is served.
fn served(path: &str) -> String {
    format!("{PLACE}{}.html", path.trim_end_matches(".md"))
}

/// The table of contents, line by line.
fn lines(summary: &str) -> Vec<Line> {
    let line = |line: &str| {
        if let Some(part) = line.strip_prefix("# ") {
            return (part != "Summary").then(|| Line::Part(part.to_owned()));
        }
        let (title, rest) = line
            .trim_start_matches("- ")
            .strip_prefix('[')?
            .split_once("](")?;
        Some(Line::Chapter(Chapter {
            title: title.to_owned(),
            path: rest.strip_suffix(')')?.to_owned(),
        }))
    };
    summary.lines().filter_map(line).collect()
}

/// A document, with the files that it includes.
fn included(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path)?;
    let directory = path.parent().expect("a document is in a directory");
    let mut whole = String::with_capacity(text.len());
    for line in text.lines() {
        let name = line
            .strip_prefix(INCLUDE.0)
            .and_then(|rest| rest.strip_suffix(INCLUDE.1));
        match name {
            Some(name) => whole.push_str(&fs::read_to_string(directory.join(name))?),
            None => whole.push_str(line),
        }
        whole.push('\n');
    }
    Ok(whole)
}

/// A document as HTML.
fn rendered(text: &str) -> String {
    let events: Vec<Event<'_>> = Parser::new_ext(text, Options::ENABLE_TABLES).collect();
    let mut seen = BTreeMap::new();
    let mut out = Vec::with_capacity(events.len());
    for (at, event) in events.iter().enumerate() {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                let name = anchor(&words(&events[at + 1..]), &mut seen);
                out.push(opened(*level, &name));
            }
            // A wide table scrolls by itself. How its columns are aligned would be a style of the page's own.
            Event::Start(Tag::Table(columns)) => {
                let plain = vec![Alignment::None; columns.len()];
                out.push(Event::Html("<div class=\"wide\" tabindex=\"0\">".into()));
                out.push(Event::Start(Tag::Table(plain)));
            }
            Event::End(TagEnd::Table) => {
                out.push(event.clone());
                out.push(Event::Html("</div>".into()));
            }
            Event::Start(Tag::Link {
                link_type,
                dest_url,
                title,
                id,
            }) => out.push(Event::Start(Tag::Link {
                link_type: *link_type,
                dest_url: linked(dest_url),
                title: title.clone(),
                id: id.clone(),
            })),
            Event::Html(raw) | Event::InlineHtml(raw) => out.push(Event::Text(raw.clone())),
            _ => out.push(event.clone()),
        }
    }
    let mut made = String::new();
    html::push_html(&mut made, out.into_iter());
    // What scrolls sideways is for those who have no pointer, too.
    made.replace("<pre>", "<pre tabindex=\"0\">")
}

fn opened(level: HeadingLevel, name: &str) -> Event<'static> {
    Event::Start(Tag::Heading {
        level,
        id: Some(name.to_owned().into()),
        classes: Vec::new(),
        attrs: Vec::new(),
    })
}

/// The words of the heading that these events begin with.
fn words(events: &[Event<'_>]) -> String {
    let within = events
        .iter()
        .take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
    within
        .filter_map(|event| match event {
            Event::Text(text) | Event::Code(text) => Some(&**text),
            _ => None,
        })
        .collect()
}

/// What links call a heading.
fn anchor(title: &str, seen: &mut BTreeMap<String, u32>) -> String {
    let letters = title.trim().chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        other if other.is_alphanumeric() => Some(other.to_ascii_lowercase()),
        _ => None,
    });
    let name: String = letters.collect();
    let count = seen.entry(name.clone()).or_insert(0);
    *count += 1;
    match *count {
        1 => name,
        again => format!("{name}-{}", again - 1),
    }
}

/// Where a link of a document leads from its page.
fn linked(target: &CowStr<'_>) -> CowStr<'static> {
    // All decisions are a part of the table of contents.
    if let Some(part) = target.strip_suffix('/').filter(|part| !part.contains('/')) {
        return format!("{PLACE}#{part}").into();
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let is_chapter = !target.contains("://") && file.ends_with(".md");
    if !is_chapter {
        return target.to_string().into();
    }
    let page = format!("{}.html", file.trim_end_matches(".md"));
    match heading {
        "" => page.into(),
        heading => format!("{page}#{heading}").into(),
    }
}

/// The chapters as a list: of those of the long part only where it is, unless one of them, or all, is wanted.
fn contents(lines: &[Line], here: Option<&Chapter>) -> String {
    let mut made = String::new();
    let mut is_open = false;
    let mut is_left_out = false;
    for line in lines {
        match line {
            Line::Part(part) => {
                if is_open {
                    made.push_str("</ul>\n");
                }
                is_open = false;
                is_left_out = here.is_some() && part == LONG_PART;
                let name = anchor(part, &mut BTreeMap::new());
                let text = escaped(part);
                made.push_str(&match here {
                    None => format!("<h2 id=\"{name}\">{text}</h2>\n"),
                    Some(_) if is_left_out => {
                        format!("<p><a href=\"{PLACE}#{name}\">{text}</a></p>\n")
                    }
                    Some(_) => format!("<p>{text}</p>\n"),
                });
            }
            Line::Chapter(_) if is_left_out => {}
            Line::Chapter(chapter) => {
                if !is_open {
                    made.push_str("<ul>\n");
                }
                is_open = true;
                let is_here = here.is_some_and(|here| here.path == chapter.path);
                let mark = if is_here {
                    " aria-current=\"page\""
                } else {
                    ""
                };
                let link = link(chapter, mark);
                made.push_str(&format!("<li>{link}</li>\n"));
            }
        }
    }
    if is_open {
        made.push_str("</ul>\n");
    }
    made
}

/// The chapters before and after this one.
fn beside(before: Option<&Chapter>, after: Option<&Chapter>) -> String {
    let before = before
        .map(|it| link(it, " rel=\"prev\""))
        .unwrap_or_default();
    let after = after
        .map(|it| link(it, " rel=\"next\""))
        .unwrap_or_default();
    format!("<div class=\"beside\"><span>{before}</span><span>{after}</span></div>\n")
}

fn link(chapter: &Chapter, attributes: &str) -> String {
    let title = escaped(&chapter.title);
    format!(
        "<a href=\"{}\"{attributes}>{title}</a>",
        served(&chapter.path)
    )
}

fn page(title: &str, contents: &str, body: &str) -> String {
    let title = escaped(title);
    let beside = match contents {
        "" => String::new(),
        list => format!("<nav aria-label=\"Chapters\">\n{list}</nav>\n"),
    };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title} · Holdfast</title>\n\
         <link rel=\"stylesheet\" href=\"{PLACE}book.css\">\n</head>\n<body>\n\
         <header><a href=\"{PLACE}\">Holdfast: the book</a> <a href=\"/\">Console</a></header>\n\
         <div class=\"book\">\n{beside}<main>\n{body}</main>\n</div>\n</body>\n</html>\n"
    )
}

/// Text that stands in HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
