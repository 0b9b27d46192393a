//! A page in headless Chromium, driven by the DevTools protocol over two pipes: real keys, downloads into a
//! folder, and everything logged.
//!
//! Needs `chromium`, and for some tests fonts: without them it fails if CI=true, and is skipped elsewhere.

use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// The name of the browser's program, if installed.
pub fn chromium() -> Option<&'static str> {
    let found = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok());
    if found.is_none() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI needs chromium: apt-get install chromium");
        eprintln!("skipped: needs chromium (apt-get install chromium)");
    }
    found
}

/// The only fonts of a reader.
pub struct Fonts {
    /// The prefix of their names.
    pub family: &'static str,
    package: &'static str,
    folder: &'static str,
    /// A file that is always there.
    file: &'static str,
    sans: &'static str,
    mono: &'static str,
}

/// Sets of fonts, each the only one on many machines: a wide one, one as wide as Arial, and a tall one.
const FONTS: [Fonts; 3] = [
    Fonts {
        family: "DejaVu",
        package: "fonts-dejavu-core",
        folder: "/usr/share/fonts/truetype/dejavu",
        file: "DejaVuSans.ttf",
        sans: "DejaVu Sans",
        mono: "DejaVu Sans Mono",
    },
    Fonts {
        family: "Liberation",
        package: "fonts-liberation",
        folder: "/usr/share/fonts/truetype/liberation",
        file: "LiberationSans-Regular.ttf",
        sans: "Liberation Sans",
        mono: "Liberation Mono",
    },
    Fonts {
        family: "Noto",
        package: "fonts-noto-core",
        folder: "/usr/share/fonts/truetype/noto",
        file: "NotoSans-Regular.ttf",
        sans: "Noto Sans",
        mono: "Noto Sans",
    },
];

/// The installed sets of fonts; CI must have all.
#[track_caller]
pub fn fonts() -> impl Iterator<Item = &'static Fonts> {
    let is_here = |fonts: &&Fonts| {
        let is_here = Path::new(fonts.folder).join(fonts.file).is_file();
        if !is_here {
            let package = fonts.package;
            assert!(
                std::env::var("CI").as_deref() != Ok("true"),
                "CI needs {package}: apt-get install {package}"
            );
            eprintln!("skipped: {} fonts need {package} (apt-get install {package})", fonts.family);
        }
        is_here
    };
    FONTS.iter().filter(is_here)
}

impl Fonts {
    /// Writes a fontconfig configuration with these fonts only, and returns its file.
    fn configured(&self, folder: &Path) -> PathBuf {
        let alias = |name, font| {
            format!("<alias><family>{name}</family><prefer><family>{font}</family></prefer></alias>")
        };
        let names = ["sans-serif", "serif", "system-ui"].map(|name| alias(name, self.sans)).concat();
        let (cache, mono) = (folder.join("fontconfig"), alias("monospace", self.mono));
        let text = format!(
            "<?xml version=\"1.0\"?><!DOCTYPE fontconfig SYSTEM \
             \"fonts.dtd\"><fontconfig><dir>{}</dir><cachedir>{}</cachedir>{names}{mono}</fontconfig>",
            self.folder,
            cache.display()
        );
        let file = folder.join("fonts.conf");
        fs::write(&file, text).expect("a file in a temporary folder");
        file
    }
}

/// A browser's own folder, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("iopj-browser-{}-{count}", std::process::id()));
        fs::create_dir_all(folder.join("downloads")).expect("a temporary folder");
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The browser's helpers may still write for a moment.
        for _ in 0..40 {
            if fs::remove_dir_all(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A browser with one tab.
pub struct Browser {
    process: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    session: String,
    calls: u64,
    /// Events that no one has waited for yet.
    events: Vec<Value>,
    logged: Vec<String>,
    folder: Folder,
}

impl Browser {
    /// Starts `program` with the machine's fonts, a profile of its own and an empty tab. It ends after
    /// fifteen minutes.
    pub fn start(program: &str) -> Browser {
        Browser::launch(program, None)
    }

    /// The same with these fonts only.
    pub fn with(fonts: &Fonts, program: &str) -> Browser {
        Browser::launch(program, Some(fonts))
    }

    fn launch(program: &str, fonts: Option<&Fonts>) -> Browser {
        let folder = Folder::new();
        let mut command = Command::new("sh");
        command.envs(fonts.map(|fonts| ("FONTCONFIG_FILE", fonts.configured(&folder.0))));
        // The browser reads commands on descriptor 3 and answers on 4.
        let mut process = command
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null", "sh", "timeout", "900", program])
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--disable-background-networking",
                // Its shared memory is in /tmp, which has room where /dev/shm may have none.
                "--disable-dev-shm-usage",
            ])
            .args(["--disable-component-update", "--disable-sync", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", folder.0.join("profile").display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let from = BufReader::new(process.stdout.take().expect("a pipe"));
        let (session, events, logged) = (String::new(), Vec::new(), Vec::new());
        let mut browser =
            Browser { to: process.stdin.take(), process, from, session, calls: 0, events, logged, folder };
        let tab = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached =
            browser.call("Target.attachToTarget", json!({ "targetId": tab["targetId"], "flatten": true }));
        browser.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page", "Runtime", "Log", "DOM", "CSS"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Loads a file in a window of this size that prefers light or dark.
    pub fn open(&mut self, page: &Path, (width, height): (u32, u32), dark: bool) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = json!({ "name": "prefers-color-scheme", "value": if dark { "dark" } else { "light" } });
        // Without motion a page is at once where it scrolls to.
        let still = json!({ "name": "prefers-reduced-motion", "value": "reduce" });
        self.call("Emulation.setEmulatedMedia", json!({ "features": [scheme, still] }));
        self.events.clear();
        self.call("Page.navigate", json!({ "url": format!("file://{}", page.display()) }));
        self.event("Page.loadEventFired", |_| true);
    }

    /// Everything on the console since the last call: errors, exceptions, and what a policy blocked.
    pub fn logged(&mut self) -> Vec<String> {
        // An answer comes after everything logged before.
        self.value("0");
        std::mem::take(&mut self.logged)
    }

    /// The value of an expression within the page.
    #[track_caller]
    pub fn value(&mut self, expression: &str) -> Value {
        let answer = self.call(
            "Runtime.evaluate",
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true }),
        );
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// The families of the fonts in which the text of an element is drawn.
    #[track_caller]
    pub fn families(&mut self, selector: &str) -> Vec<String> {
        let root = self.call("DOM.getDocument", json!({}));
        let query = json!({ "nodeId": root["root"]["nodeId"], "selector": selector });
        let node = self.call("DOM.querySelector", query);
        let used = self.call("CSS.getPlatformFontsForNode", json!({ "nodeId": node["nodeId"] }));
        let family = |font: &Value| font["familyName"].as_str().expect("a name").to_owned();
        used["fonts"].as_array().expect("fonts").iter().map(family).collect()
    }

    /// A value that is text.
    #[track_caller]
    pub fn text(&mut self, expression: &str) -> String {
        match self.value(expression) {
            Value::String(text) => text,
            other => panic!("{expression} is {other}, no text"),
        }
    }

    /// Waits until an expression is true, at most a minute.
    #[track_caller]
    pub fn until(&mut self, expression: &str) {
        for _ in 0..1200 {
            if self.value(expression) == true {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("never true: {expression}");
    }

    /// What the window shows, as PNG in base64.
    pub fn picture(&mut self) -> String {
        let picture = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        picture["data"].as_str().expect("a picture").to_owned()
    }

    /// Presses and releases a key, as a reader does.
    pub fn press(&mut self, key: &str) {
        let (code, number, text) = match key {
            "Tab" => ("Tab", 9, ""),
            "Enter" => ("Enter", 13, "\r"),
            "Escape" => ("Escape", 27, ""),
            " " => ("Space", 32, " "),
            "ArrowLeft" => ("ArrowLeft", 37, ""),
            "ArrowUp" => ("ArrowUp", 38, ""),
            "ArrowRight" => ("ArrowRight", 39, ""),
            "ArrowDown" => ("ArrowDown", 40, ""),
            other => panic!("no key {other}"),
        };
        let kind = if text.is_empty() { "rawKeyDown" } else { "keyDown" };
        for (kind, text) in [(kind, text), ("keyUp", "")] {
            let event = json!({
                "type": kind, "key": key, "code": code, "windowsVirtualKeyCode": number, "text": text,
            });
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Presses a key until an expression is true, at most a minute: on a busy machine one press may still be
    /// in progress when the next reverses it.
    #[track_caller]
    pub fn press_until(&mut self, key: &str, expression: &str) {
        for _ in 0..600 {
            self.press(key);
            std::thread::sleep(Duration::from_millis(100));
            if self.value(expression) == true {
                return;
            }
        }
        panic!("never true by {key}: {expression}");
    }

    /// The text of the file that is downloaded by pressing a key.
    #[track_caller]
    pub fn downloaded(&mut self, key: &str) -> (String, String) {
        let folder = self.folder.0.join("downloads");
        let how = json!({ "behavior": "allow", "downloadPath": folder, "eventsEnabled": true });
        self.call("Browser.setDownloadBehavior", how);
        self.press(key);
        let begun = self.event("Browser.downloadWillBegin", |_| true);
        self.event("Browser.downloadProgress", |event| event["state"] == "completed");
        let name = begun["suggestedFilename"].as_str().expect("a name").to_owned();
        let file = folder.join(&name);
        let text = fs::read_to_string(&file).expect("a download");
        fs::remove_file(&file).expect("the download again");
        (name, text)
    }

    /// The next event of this name that fits; earlier events are kept.
    #[track_caller]
    fn event(&mut self, name: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let mut seen = 0;
        loop {
            let fit = |event: &Value| event["method"] == name && fits(&event["params"]);
            if let Some(place) = self.events[seen..].iter().position(fit) {
                return self.events.remove(seen + place)["params"].take();
            }
            seen = self.events.len();
            let message = self.message();
            self.events.push(message);
        }
    }

    /// Calls a method of the protocol and returns its result.
    #[track_caller]
    fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let mut call = json!({ "id": self.calls, "method": method, "params": params });
        if !self.session.is_empty() && !method.starts_with("Browser.") {
            call["sessionId"] = self.session.as_str().into();
        }
        let mut bytes = call.to_string().into_bytes();
        bytes.push(0);
        self.to.as_mut().expect("a pipe").write_all(&bytes).expect("a browser that reads");
        loop {
            let mut message = self.message();
            if message["id"] == self.calls {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].take();
            }
            self.events.push(message);
        }
    }

    /// The next message; console messages are kept.
    #[track_caller]
    fn message(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).expect("a browser that answers");
        assert_eq!(bytes.pop(), Some(0), "the browser is gone, or was ended after fifteen minutes");
        let message: Value = serde_json::from_slice(&bytes).expect("JSON");
        let name = message["method"].as_str().unwrap_or_default();
        if ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"].contains(&name) {
            self.logged.push(message["params"].to_string());
        }
        message
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends with its pipe; its profile is removed after that.
        self.to = None;
        let _ = self.process.wait();
    }
}
