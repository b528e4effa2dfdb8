#!/usr/bin/python3
"""certificate_test.py OUBLI: the page and the card of `forget --report`, in Chromium: one sheet of
A4, readable at any width, light and dark, without script or requests.

Exit 77 (skipped) where Chromium or chromedriver is not installed. With OUBLI_SCREENSHOTS=FOLDER it
leaves pictures there.
"""
import base64
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

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
        names = [f"person {i}" for i in range(11)] + ["<b>Zoë</b>"]
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
                      "--class", "name:<b>Zoë</b>", "-o", f"{name}.npz", "--date", "2026-11-18",
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
            "Class 11 (<b>Zoë</b>) was taken out of the model signed.npz",
            "had 12 classes and has 11",
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

    def test_card(self):
        card = xml.etree.ElementTree.parse(self.folder / "signed.card.svg").getroot()
        self.assertEqual((card.get("width"), card.get("height")), ("1200", "630"))
        words = [text.text for text in card.iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("Class 11 (<b>Zoë</b>)", words)
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


if __name__ == "__main__":
    unittest.main()
