#!/usr/bin/python3
"""certificate_test.py OUBLI: the page and the card of `forget --report`, in Chromium: one sheet of
A4, readable at any width, light and dark, without script or requests.

Exit 77 (skipped) where Chromium or chromedriver is not installed. With OUBLI_SCREENSHOTS=FOLDER it
leaves pictures there.
"""
import base64
import html
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
import zlib

import numpy as np

import webdriver

OUBLI = pathlib.Path(sys.argv.pop(1)).resolve()
SECTIONS = ["done", "checks", "accuracy", "observers", "to-do", "verify", "limits"]


class CertificateTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = webdriver.Browser(*webdriver.find_browser())
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        rng = np.random.default_rng(0)
        weights = rng.normal(size=(12, 8)).astype("f4")
        labels = np.repeat(np.arange(12), 30)
        features = (weights[labels] + 0.5 * rng.normal(size=(360, 8))).astype("f4")
        np.savez(cls.folder / "head.npz", W=weights, b=np.zeros(12, "f4"))
        np.savez(cls.folder / "data.npz", features=features, labels=labels)
        names = [f"person {i}" for i in range(11)] + ["<b>Zoë"]
        (cls.folder / "names.txt").write_text("\n".join(names) + "\n")
        cls.forget("plain")
        (cls.folder / "plain.npz").rename(cls.folder / "kept.npz")
        cls.run_oubli("keygen", "-o", "key")
        cls.forget("signed", "--sign", "key", "--note", "ticket 4711, " + "a long story " * 8)

    @classmethod
    def run_oubli(cls, *words):
        subprocess.run([OUBLI, "-q", *words], cwd=cls.folder, check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def forget(cls, name, *words):
        cls.run_oubli("forget", "head.npz", "--data", "data.npz", "--class-names", "names.txt",
                      "--class", "name:<b>Zoë", "-o", f"{name}.npz", "--date", "2026-11-18",
                      "--report", f"{name}.html", *words)  # fmt: skip

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.temporary.cleanup()

    def open(self, name, width, scheme="light"):
        self.browser.size(width)
        self.browser.colour_scheme(scheme)
        self.browser.log("browser")
        self.browser.open(self.folder / f"{name}.html")
        self.assertEqual(self.browser.log("browser"), [])
        if folder := os.environ.get("OUBLI_SCREENSHOTS"):
            path = pathlib.Path(folder) / f"certificate-{name}-{width}-{scheme}.png"
            self.browser.screenshot(path)

    def text(self):
        return self.browser.run("return document.body.innerText")

    def test_says_what_people_ask(self):
        self.open("signed", 1280)
        found = self.browser.run("return [...document.querySelectorAll('section')].map(s => s.id)")
        self.assertEqual(found, SECTIONS)
        text = self.text()
        for words in (
            "Class 11 (<b>Zoë) was taken out of the model head.npz",
            "had 12 classes; signed.npz has 11",
            "2026-11-18",
            "ticket 4711",
            "oubli verify signed.npz.receipt.json",
            "Delete head.npz",
        ):
            self.assertIn(words, text)
        checks = self.browser.run(
            "return [...document.querySelectorAll('.checks li')].map(l => l.className)"
        )
        # Weights gone, not run, names gone, self-check, signed.
        self.assertEqual(checks, ["good", "none", "good", "good", "good"])

    def test_lays_out_at_any_width_and_scheme(self):
        for name in "plain", "signed":
            for width in 1280, 390:
                for scheme in "light", "dark":
                    self.open(name, width, scheme)
                    wide = self.browser.run("return document.documentElement.scrollWidth")
                    self.assertLessEqual(wide, width)

    def test_prints_on_one_sheet(self):
        for name in "plain", "signed":
            self.open(name, 1280, "dark")
            made = self.browser.cdp("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
            pdf = base64.b64decode(made["data"])
            if folder := os.environ.get("OUBLI_SCREENSHOTS"):
                (pathlib.Path(folder) / f"certificate-{name}.pdf").write_bytes(pdf)
            self.assertEqual(len(re.findall(rb"/Type\s*/Page\b", pdf)), 1)
            # A4, in points.
            box = re.search(rb"/MediaBox\s*\[\s*0 0 ([0-9.]+) ([0-9.]+)", pdf)
            self.assertAlmostEqual(float(box[1]), 595, delta=2)
            self.assertAlmostEqual(float(box[2]), 842, delta=2)

    def test_names_can_be_left_out_and_bytes_are_the_same(self):
        self.forget("numbered", "--no-names")
        page = (self.folder / "numbered.html").read_text()
        self.assertNotIn("Zo", page)
        self.assertIn("class 11", page)
        first = (self.folder / "signed.html").read_bytes()
        words = ["--sign", "key", "--note", "ticket 4711, " + "a long story " * 8, "--force"]
        self.forget("signed", *words)
        self.assertEqual((self.folder / "signed.html").read_bytes(), first)

    def test_files_are_called_what_they_are_called_unless_names_are_left_out(self):
        self.forget("without-<b>Zoë")
        page = html.unescape((self.folder / "without-<b>Zoë.html").read_text())
        self.assertIn("oubli verify without-<b>Zoë.npz.receipt.json", page)
        self.forget("without-<b>Zoë", "--no-names", "--force")
        page = html.unescape((self.folder / "without-<b>Zoë.html").read_text())
        self.assertIn("oubli verify without-....npz.receipt.json", page)
        self.assertNotIn("Zo", page)

    def test_card(self):
        card = xml.etree.ElementTree.parse(self.folder / "signed.card.svg").getroot()
        self.assertEqual((card.get("width"), card.get("height")), ("1200", "630"))
        words = [text.text for text in card.iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("Class 11 (<b>Zoë)", words)
        self.browser.size(1280)
        self.browser.open(self.folder / "signed.card.svg")
        # No line leaves the card, and none lies on another.
        boxes = self.browser.run(
            "return [...document.querySelectorAll('text')].map(t => {const b = "
            "t.getBoundingClientRect(); return [b.left, b.right, b.top, b.bottom]})"
        )
        for left, right, top, bottom in boxes:
            self.assertTrue(0 <= left and right <= 1200 and 0 <= top and bottom <= 630)
        if folder := os.environ.get("OUBLI_SCREENSHOTS"):
            self.browser.screenshot(pathlib.Path(folder) / "card.png")

    def test_card_as_png(self):
        """What Chromium makes of the SVG in the same font is the oracle: ink where it has ink."""
        self.assertTrue(os.path.exists("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"))
        cards = (
            "<canvas width=1200 height=630></canvas><img id=a src=signed.card.png>"
            "<img id=b src=signed.card.svg>"
        )
        (self.folder / "cards.html").write_text(cards)
        self.browser.open(self.folder / "cards.html")
        sizes = self.browser.run(
            "return ['a', 'b'].map(i => {const e = document.getElementById(i); "
            "return [e.naturalWidth, e.naturalHeight]})"
        )
        self.assertEqual(sizes, [[1200, 630], [1200, 630]])
        drawn = self.pixels(self.folder / "signed.card.png")
        self.assertEqual(drawn.shape, (630, 1200, 3))
        self.assertEqual(drawn[300, 8].tolist(), [0x00, 0x56, 0x8A])
        self.assertEqual(drawn[10, 600].tolist(), [0xFC, 0xFC, 0xFA])
        card = xml.etree.ElementTree.parse(self.folder / "signed.card.svg").getroot()
        self.browser.open(self.folder / "signed.card.svg")
        widths = self.browser.run(
            "return [...document.querySelectorAll('text')].map(t => {"
            "t.setAttribute('font-family', 'DejaVu Sans'); return t.getComputedTextLength()})"
        )
        dark = (drawn.astype(int) - [0xFC, 0xFC, 0xFA]).min(2) < -60
        for line, width in zip(card.iter("{http://www.w3.org/2000/svg}text"), widths):
            base, size = int(line.get("y")), int(line.get("font-size"))
            columns = np.flatnonzero(dark[base - size : base + 2, 20:].any(0)) + 20
            self.assertAlmostEqual(columns[0], 64, delta=size / 4)
            self.assertAlmostEqual(columns[-1], 64 + width, delta=size / 4)
        self.assertFalse(dark[602:630, 20:1180].all())

    @staticmethod
    def pixels(path):
        """An RGB file of 8 bits without interlacing, by the standard."""
        data, at, packed = path.read_bytes(), 8, b""
        while at < len(data):
            (size,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
            if kind == b"IHDR":
                width, height, bits, colours = struct.unpack(">IIBB", data[at + 8 : at + 18])
                assert (bits, colours) == (8, 2)
            packed += data[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
            at += size + 12
        rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + 3 * width)
        out = np.zeros((height, 3 * width), np.uint8)
        for y, row in enumerate(rows):
            up = out[y - 1].astype(int) if y else np.zeros(3 * width, int)
            for x in range(3 * width):
                left = int(out[y, x - 3]) if x >= 3 else 0
                corner = int(up[x - 3]) if x >= 3 else 0
                guess = left + up[x] - corner
                near = min((left, up[x], corner), key=lambda v: abs(guess - v))
                add = (0, left, up[x], (left + up[x]) // 2, near)[row[0]]
                out[y, x] = (int(row[1 + x]) + int(add)) & 255
        return out.reshape(height, width, 3)


if __name__ == "__main__":
    unittest.main()
