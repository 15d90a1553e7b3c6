"""A small client of Chromium's DevTools protocol over a pipe: enough to open pages, click and look."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-extensions", "--disable-background-networking", "--hide-scrollbars", "--mute-audio"),
    *("--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--remote-debugging-pipe"),
)


def find_browser() -> str | None:
    """Return the path of a Chromium or Chrome, or None; ALGOFORMER_BROWSER names another one."""
    named = os.environ.get("ALGOFORMER_BROWSER")
    if named:
        return named
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One browser process; `page` opens a file in a tab of its own."""

    def __init__(self, path: str) -> None:
        self.folder = tempfile.mkdtemp(prefix="algoformer-browser-")
        # the browser reads commands from descriptor 3 and writes to 4; each message ends with a zero byte
        to_read, self.commands = os.pipe()
        self.answers, to_write = os.pipe()
        script = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}'
        self.process = subprocess.Popen(
            ["bash", "-c", script, path, *FLAGS, f"--user-data-dir={self.folder}", "about:blank"],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self.buffer = b""
        self.count = 0
        self.events: list[dict[str, Any]] = []

    def send(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result; events that come in between are kept."""
        self.count += 1
        number = self.count
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.commands, data) :]
        while True:
            answer = self._read()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
            if "method" in answer:
                self.events.append(answer)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            chunk = os.read(self.answers, 2**20)
            if not chunk:
                raise RuntimeError("the browser has gone")
            self.buffer += chunk
        text, self.buffer = self.buffer.split(b"\0", 1)
        answer: dict[str, Any] = json.loads(text)
        return answer

    def page(
        self,
        file: Path,
        *,
        width: int = 1100,
        height: int = 900,
        dark: bool = False,
        ready: str = "document.documentElement.dataset.state",
        scripts: bool = True,
    ) -> Page:
        """Open a file and wait until the model has answered, or until another condition is true.

        Without `scripts` the page's own JavaScript is switched off; expressions of the test still run.
        """
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, target, session)
        page.send("Network.enable")
        page.send("Runtime.enable")
        page.send("Emulation.setScriptExecutionDisabled", value=not scripts)
        page.resize(width, height)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        page.send("Emulation.setEmulatedMedia", features=scheme)
        page.send("Page.navigate", url=file.resolve().as_uri())
        if scripts:
            page.wait(ready)
        while not scripts and not page.run(ready):  # timers do not run either
            pass
        return page

    def close(self) -> None:
        """End the browser."""
        self.process.terminate()
        self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        shutil.rmtree(self.folder, ignore_errors=True)


class Page:
    """A tab of the browser."""

    def __init__(self, browser: Browser, target: str, session: str) -> None:
        self.browser, self.target, self.session = browser, target, session

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command to this tab."""
        return self.browser.send(method, self.session, **parameters)

    def run(self, expression: str) -> Any:
        """Evaluate JavaScript, wait for it if it is a promise, and return its value."""
        found = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            details = found["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return found["result"].get("value")

    def wait(self, condition: str) -> Any:
        """Wait until an expression is true; after 8,000 looks something must be broken."""
        reason = json.dumps(f"never: {condition}")
        return self.run(
            "new Promise((done, refuse) => { let looks = 0; const look = () => { "
            f"let value = null; try {{ value = ({condition}); }} catch {{}} "
            "if (value) return done(value); "
            f"if (++looks > 8000) return refuse(new Error({reason})); "
            "setTimeout(look, 15); }; look(); })"
        )

    def resize(self, width: int, height: int) -> None:
        """Give the tab another size."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def place(self, selector: str) -> tuple[float, float]:
        """Return the middle of an element, after scrolling it into view."""
        x, y = self.run(
            f"(() => {{ const element = document.querySelector({json.dumps(selector)}); "
            "element.scrollIntoView({block: 'center'}); const box = element.getBoundingClientRect(); "
            "return [box.left + box.width / 2, box.top + box.height / 2]; })()"
        )
        return x, y

    def mouse(self, kind: str, x: float, y: float) -> None:
        """Send one event of the mouse: pressed, moved or released."""
        self.send(
            "Input.dispatchMouseEvent", type=f"mouse{kind}", x=x, y=y, button="left", buttons=1, clickCount=1
        )

    def click(self, selector: str) -> None:
        """Click in the middle of an element."""
        x, y = self.place(selector)
        self.mouse("Pressed", x, y)
        self.mouse("Released", x, y)

    def drag(self, selector: str, dx: float, dy: float) -> None:
        """Drag an element by a number of pixels, in a few moves."""
        x, y = self.place(selector)
        self.mouse("Pressed", x, y)
        for share in (0.25, 0.5, 0.75, 1.0):
            self.mouse("Moved", x + share * dx, y + share * dy)
        self.mouse("Released", x + dx, y + dy)

    def key(self, key: str) -> None:
        """Press a key on the element that has the focus."""
        codes = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Tab": 9, "Enter": 13}
        for kind in ("rawKeyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key]
            )

    def screenshot(self, *, whole: bool = True) -> bytes:
        """Return a picture of the tab as PNG."""
        found = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(found["data"])

    def requests(self) -> list[str]:
        """Return every address that this tab asked for, the file itself and data left out."""
        found = [
            event["params"]["request"]["url"]
            for event in self.browser.events
            if event["method"] == "Network.requestWillBeSent" and event.get("sessionId") == self.session
        ]
        return [url for url in found if not url.startswith(("file:", "data:", "blob:", "about:"))]

    def problems(self) -> list[str]:
        """Return uncaught exceptions and console errors of this tab."""
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            if event["method"] == "Runtime.exceptionThrown":
                details = event["params"]["exceptionDetails"]
                found.append(details.get("exception", {}).get("description", details["text"]))
            if event["method"] == "Runtime.consoleAPICalled" and event["params"]["type"] == "error":
                found.append(str(event["params"]["args"]))
        return found

    def close(self) -> None:
        """Close the tab."""
        self.browser.send("Target.closeTarget", targetId=self.target)
