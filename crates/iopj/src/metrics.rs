//! Where metrics go: a server that Prometheus asks, a file, or both.

use crate::args::PublishArgs;
use iopj_metering::metrics::{MetricsError, MetricsFile, MetricsServer, MetricsText, Scrapes};
use iopj_report::{Family, Label, openmetrics, prometheus_text};

/// Publishes families of metrics.
pub(crate) struct Publisher {
    server: Option<MetricsServer>,
    file: Option<MetricsFile>,
}

impl Publisher {
    /// As the options say, beginning with these families; `None` if they ask for nothing.
    pub(crate) fn new(
        args: &PublishArgs,
        families: &[Family],
        of: &Label,
    ) -> Result<Option<Publisher>, MetricsError> {
        let text = || text(families, of);
        let server = args.listen.as_deref().map(|named| MetricsServer::start(named, text())).transpose()?;
        let file = args.metrics.as_deref().map(|path| MetricsFile::create(path, &text())).transpose()?;
        Ok((server.is_some() || file.is_some()).then_some(Publisher { server, file }))
    }

    /// Where the server listens, in a sentence for the user.
    pub(crate) fn says(&self) -> Option<String> {
        let address = self.server.as_ref()?.address();
        let far = match address.ip().is_loopback() {
            true => "",
            false => ", to whoever reaches that address: it asks nobody for a password",
        };
        Some(format!("the figures are served on http://{address}/metrics{far}"))
    }

    /// Replaces what is published; the label says of what it is.
    ///
    /// # Errors
    /// The file cannot be written; the old one is still there.
    pub(crate) fn set(&self, mut families: Vec<Family>, of: &Label) -> Result<(), MetricsError> {
        families.extend(self.server.iter().flat_map(|server| of_server(server.scrapes())));
        let text = text(&families, of);
        let written = self.file.as_ref().map_or(Ok(()), |file| file.set(&text));
        if let Some(server) = &self.server {
            server.set(text);
        }
        written
    }

    /// What answering took so far.
    pub(crate) fn scrapes(&self) -> Scrapes {
        self.server.as_ref().map(MetricsServer::scrapes).unwrap_or_default()
    }

    /// Ends the server, and removes the file.
    pub(crate) fn withdraw(self) {
        self.file.into_iter().for_each(MetricsFile::remove);
    }
}

fn text(families: &[Family], of: &Label) -> MetricsText {
    MetricsText { openmetrics: openmetrics(families, of), plain: prometheus_text(families, of) }
}

/// What the server itself costs.
fn of_server(scrapes: Scrapes) -> [Family; 2] {
    let one = |value: f64| vec![(Vec::new(), value)];
    [
        Family::counter(
            "iopj_scrapes",
            "Requests that were answered before the figures were last renewed.",
            one(scrapes.count as f64),
        ),
        Family::counter(
            "iopj_scrape_cpu_seconds",
            "CPU time of the thread that answered them.",
            one(scrapes.cpu.as_secs_f64()),
        ),
    ]
}
