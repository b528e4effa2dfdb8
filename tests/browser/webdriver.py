"""Drives Chromium through chromedriver's WebDriver interface with the standard library alone."""
import base64
import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--hide-scrollbars",
]


def find_browser():
    """(chromium, chromedriver), or None where they are not installed."""
    browser = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


class Browser:
    def __init__(self, browser, driver):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.base = f"http://127.0.0.1:{port}"
        self.profile = tempfile.TemporaryDirectory(
            prefix="oubli-browser-", ignore_cleanup_errors=True
        )
        self.process = subprocess.Popen(
            [driver, f"--port={port}", "--silent"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.session = None
        for _ in range(100):
            try:
                if self.call("GET", "/status")["ready"]:
                    break
            except (urllib.error.URLError, ConnectionError):
                pass
            time.sleep(0.1)
        self.session = self.call(
            "POST",
            "/session",
            {
                "capabilities": {
                    "alwaysMatch": {
                        "browserName": "chrome",
                        "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
                        "goog:chromeOptions": {
                            "binary": browser,
                            "args": FLAGS + [f"--user-data-dir={self.profile.name}"],
                        },
                    }
                }
            },
        )["sessionId"]

    def call(self, method, path, body=None):
        request = urllib.request.Request(
            self.base + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.read().decode()}") from error

    def command(self, method, path, body=None):
        return self.call(method, f"/session/{self.session}{path}", body)

    def cdp(self, command, **parameters):
        return self.command("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def size(self, width, height=900):
        self.cdp(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def colour_scheme(self, scheme):
        self.cdp(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    def open(self, path):
        self.command("POST", "/url", {"url": f"file://{path}"})

    def run(self, script, *arguments):
        return self.command("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def log(self, kind):
        return self.command("POST", "/se/log", {"type": kind})

    def screenshot(self, path, full=True):
        with open(path, "wb") as file:
            file.write(
                base64.b64decode(
                    self.cdp("Page.captureScreenshot", captureBeyondViewport=full)["data"]
                )
            )

    def element_screenshot(self, selector, path, scale=1):
        box = self.run(
            "const b = document.querySelector(arguments[0]).getBoundingClientRect();"
            "return [b.x + scrollX, b.y + scrollY, b.width, b.height]",
            selector,
        )
        picture = self.cdp(
            "Page.captureScreenshot",
            captureBeyondViewport=True,
            clip={"x": box[0], "y": box[1], "width": box[2], "height": box[3], "scale": scale},
        )
        with open(path, "wb") as file:
            file.write(base64.b64decode(picture["data"]))

    def pdf(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.cdp("Page.printToPDF", printBackground=True)["data"]))

    def close(self):
        try:
            if self.session:
                self.call("DELETE", f"/session/{self.session}")
        except (RuntimeError, urllib.error.URLError):
            pass
        self.process.terminate()
        self.process.wait(10)
        self.profile.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
