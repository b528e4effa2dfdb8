#!/usr/bin/env python3
"""report_test.py OUBLI: opens reports in Chromium and looks at them as a reader would.

Exit 77 (skipped) where Chromium or chromedriver is not installed. With OUBLI_SCREENSHOTS=FOLDER it
leaves pictures of every page there.
"""
import base64
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import documents
import webdriver

OUBLI = pathlib.Path(sys.argv.pop(1)).resolve()
DESKTOP, PHONE = 1280, 390

# Chart pictures that are displayed, and what is wrong with them. Text must not leave its picture.
CHECK_CHARTS = """
return [...document.querySelectorAll('svg.chart, img.sheet')].map(e => {
  const box = e.getBoundingClientRect();
  const shown = getComputedStyle(e).display !== 'none';
  const outside = [...e.querySelectorAll('text')].filter(t => {
    const b = t.getBoundingClientRect();
    return b.left < box.left - 1 || b.right > box.right + 1 || b.bottom > box.bottom + 1;
  }).map(t => t.textContent);
  return {shown, width: box.width, height: box.height, left: box.left, right: box.right, outside,
          label: e.getAttribute('aria-label') || e.getAttribute('alt') || '',
          loaded: e.tagName !== 'IMG' || e.naturalWidth > 0,
          narrow: e.classList.contains('narrow'), wide: e.classList.contains('wide')};
})"""


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = webdriver.Browser(*webdriver.find_browser())
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        documents.write_run(cls.folder)
        (cls.folder / "audit.json").write_text(
            json.dumps(documents.audit(0.3, documents.leaks(0.02)))
        )
        (cls.folder / "sparse.json").write_text(json.dumps(documents.sparse_audit()))
        (cls.folder / "receipt.json").write_text(json.dumps(documents.receipt()))

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.temporary.cleanup()

    def open(self, *inputs, width=DESKTOP, scheme="light", full=True):
        page = self.folder / "report.html"
        words = ["-o", page, "--force"] + (["--full"] if full else [])
        subprocess.run([OUBLI, "--quiet", "report", *inputs, *words], check=True)
        self.browser.size(width)
        self.browser.colour_scheme(scheme)
        self.browser.log("browser"), self.browser.log("performance")  # forget earlier pages
        self.browser.open(page)
        if folder := os.environ.get("OUBLI_SCREENSHOTS"):
            name = "-".join(pathlib.Path(i).stem for i in inputs) + f"-{width}-{scheme}.png"
            self.browser.screenshot(pathlib.Path(folder) / name)
        return page

    def sections(self):
        return self.browser.run("return [...document.querySelectorAll('section')].map(s => s.id)")

    def test_opens_from_disk_without_errors_or_requests(self):
        page = self.open(self.folder)
        self.assertEqual([entry for entry in self.browser.log("browser")], [])
        requests = []
        for entry in self.browser.log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                requests.append(message["params"]["request"]["url"])
        other = [u for u in requests if u != f"file://{page}" and not u.startswith("data:")]
        self.assertIn(f"file://{page}", requests)
        self.assertEqual(other, [])

    def check_layout(self, width):
        charts = self.browser.run(CHECK_CHARTS)
        shown = [c for c in charts if c["shown"]]
        self.assertGreaterEqual(len(shown), 1)
        for chart in shown:
            self.assertGreater(chart["width"], 100, chart)
            self.assertGreater(chart["height"], 40, chart)
            self.assertGreaterEqual(chart["left"], 0, chart)
            self.assertLessEqual(chart["right"], width, chart)
            self.assertEqual(chart["outside"], [], chart)
            self.assertTrue(chart["loaded"], chart)
            self.assertGreater(len(chart["label"]), 10, chart)
        # The page itself never scrolls sideways; wide tables scroll in their own box.
        self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), width)
        for section in self.browser.run(
            "return [...document.querySelectorAll('section')].map(s => {"
            "const b = s.getBoundingClientRect(); return [s.id, b.width, b.height]})"
        ):
            self.assertGreater(section[1], 100, section)
            self.assertGreater(section[2], 30, section)
        # Letters in pictures stay legible: 12 px of the drawing are at least 10 on the screen.
        smallest = self.browser.run(
            "return Math.min(...[...document.querySelectorAll('svg.chart')].filter(s => "
            "s.clientWidth > 0)"
            ".map(s => s.getBoundingClientRect().width / s.viewBox.baseVal.width)) * 12"
        )
        self.assertGreaterEqual(smallest, 10)
        return shown

    def test_every_section_and_chart_is_visible_at_desktop_and_phone_width(self):
        for width in (DESKTOP, PHONE):
            with self.subTest(width=width):
                self.open(self.folder, width=width)
                self.assertEqual(
                    self.sections(),
                    [
                        "answer",
                        "leak",
                        "destinations",
                        "ks",
                        "tables",
                        "published",
                        "inversion",
                        "not-tested",
                        "limits",
                        "provenance",
                    ],
                )
                shown = self.check_layout(width)
                self.assertEqual(any(c["narrow"] for c in shown), width == PHONE)
                self.assertEqual(any(c["wide"] for c in shown), width == DESKTOP)
                # verdict, 3 observers x (forgotten, retained), 5 methods' bars, KS 2 x 2, each
                # class, a published table, the sheet and its chart
                self.assertEqual(len(shown), 1 + 6 + 5 + 4 + 1 + 1 + 2)

    def test_the_answer_comes_first(self):
        self.open(self.folder)
        text = self.browser.run("return document.querySelector('.answer .sentence').textContent")
        self.assertIn("Against somebody who sees only the top-1 label: yes, as far as tested", text)
        self.assertIn("against somebody who sees probabilities: nearly", text)
        self.assertIn("against somebody who sees logits: no", text)
        top = self.browser.run(
            "return document.querySelector('.answer svg').getBoundingClientRect().bottom"
        )
        self.assertLess(top, 900)  # on the first screen

    def test_sections_without_data_are_absent(self):
        self.open(self.folder / "audit.json")
        self.assertEqual(
            self.sections(),
            [
                "answer",
                "leak",
                "destinations",
                "ks",
                "tables",
                "not-tested",
                "limits",
                "provenance",
            ],
        )
        self.check_layout(DESKTOP)
        self.open(self.folder / "receipt.json", width=PHONE)
        self.assertEqual(
            self.sections(), ["answer", "receipt", "not-tested", "limits", "provenance"]
        )
        self.check_layout(PHONE)
        self.assertEqual(
            self.browser.run(
                "return [...document.querySelectorAll('section, table, figure, ul, dl')]"
                ".filter(e => !e.textContent.trim() && !e.querySelector('img')).length"
            ),
            0,
        )

    def test_warnings_and_reasons_are_in_sight(self):
        for width in (DESKTOP, PHONE):
            self.open(self.folder / "sparse.json", width=width)
            self.check_layout(width)
            # Displayed text only: what closed tables hold does not count.
            for section in ("answer", "leak"):
                text = self.browser.run(f"return document.getElementById('{section}').innerText")
                self.assertIn(f"Warning: the floor is not comparable {documents.HOSTILE}.", text)
                self.assertIn("1 and 2 test models", text)
                self.assertIn("no second batch was given", text)
            shown = {
                s: self.browser.run(f"return document.getElementById('{s}').innerText")
                for s in self.sections()
            }
            self.assertIn("not computed: not applicable to labels", shown["ks"])
            self.assertIn(
                "Not computed (all-ones direction, audited models): not shown.", shown["ks"]
            )
            self.assertIn(
                "not computed: no logits from before unlearning were given", shown["tables"]
            )
            self.assertIn("not computed: no features were given", shown["tables"])
            above = self.browser.run(
                "const box = q => document.querySelector(q).getBoundingClientRect();"
                "return box('#leak ul.warnings').bottom <= box('#leak svg').top && box('#leak "
                "ul.warnings').height > 15"
            )
            self.assertTrue(above)

    def test_every_picture_and_table_says_for_which_observer_it_is(self):
        observer = r"(logits|probabilities|top-1 label|holds the (model|file))"
        for inputs in (
            [self.folder],
            [self.folder / "audit.json"],
            [self.folder / "sparse.json"],
            [self.folder / "receipt.json"],
            [self.folder / "audit.json", self.folder / "receipt.json"],
            [self.folder / "inversion.json"],
        ):
            self.open(*inputs)
            for label in self.browser.run(
                "return [...document.querySelectorAll('svg.chart')].map("
                "s => s.getAttribute('aria-label'))"
            ):
                self.assertRegex(label, observer)
            # Of a picture, what is written in it; of a table, its title, its note and its columns.
            # In the receipt's section there are lists, not figures.
            pictures = self.browser.run(
                "return [...document.querySelectorAll('figure')].filter(f => "
                "f.querySelector('svg')).map(f => "
                "[...f.querySelectorAll('svg text')].map(t => t.textContent).join(' ') + ' ' + "
                "[...f.querySelectorAll('thead')].map(t => t.textContent).join(' '))"
            )
            tables = self.browser.run(
                """
              return [...document.querySelectorAll('section:not(#receipt) table')]
                .filter(t => !t.closest('figure'))
                .map(t => {
                  let text = t.textContent;
                  for (let e = t.closest('details') || t.closest('.scroll');
                       e && e.tagName !== 'H2'; e = e.previousElementSibling) {
                    if (e.tagName === 'P' || e.tagName === 'H3') text = e.textContent + ' ' + text;
                    if (e.tagName === 'H3') break;
                  }
                  return text; })"""
            )
            for text in pictures + tables:
                self.assertRegex(text, observer)
                self.assertNotRegex(text, r"\bsees label\b")

    def test_dark_mode_is_dark_and_legible(self):
        def colours(scheme):
            self.open(self.folder, scheme=scheme)
            return self.browser.run(
                """
              const luminance = c => { const [r, g, b] = c.match(/[\\d.]+/g).slice(0, 3).map(v => {
                v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4});
                return .2126 * r + .7152 * g + .0722 * b};
              const page = luminance(getComputedStyle(document.body).backgroundColor);
              const answer = document.querySelector('.answer');
              const card = luminance(getComputedStyle(answer).backgroundColor);
              const contrast = (a, b) => (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
              const out = {page, text: [], marks: []};
              const words = 'p, li, td, th, summary, a, dt, dd, h1, h2, h3';
              for (const e of document.querySelectorAll(words))
                if (e.offsetParent) {
                  const colour = luminance(getComputedStyle(e).color);
                  out.text.push(contrast(colour, Math.max(page, card)),
                                contrast(colour, Math.min(page, card)));
                }
              for (const e of document.querySelectorAll('svg text'))
                out.text.push(contrast(luminance(getComputedStyle(e).fill), card));
              for (const e of document.querySelectorAll('svg .m:not(.s4):not(.s5), svg .bar'))
                out.marks.push(contrast(luminance(getComputedStyle(e).fill), card));
              return {page, text: Math.min(...out.text), marks: Math.min(...out.marks)}"""
            )

        light, dark = colours("light"), colours("dark")
        self.assertGreater(light["page"], 0.8)
        self.assertLess(dark["page"], 0.05)
        for scheme in (light, dark):  # WCAG 2.1 AA: 4.5 for text, 3 for graphics
            self.assertGreaterEqual(scheme["text"], 4.5, scheme)
            self.assertGreaterEqual(scheme["marks"], 3, scheme)

    def test_a_hostile_class_name_stays_text(self):
        for inputs in ([self.folder], [self.folder / "audit.json"], [self.folder / "receipt.json"]):
            self.open(*inputs)
            self.assertEqual(
                self.browser.run("return document.querySelectorAll('script').length"), 0
            )
            self.assertNotEqual(self.browser.run("return document.title"), "owned")
            self.assertIn(documents.HOSTILE, self.browser.run("return document.body.textContent"))
        self.open(self.folder)
        self.assertIn(
            documents.HOSTILE,
            self.browser.run("return document.querySelector('img.sheet').getAttribute('alt')"),
        )

    def test_every_chart_has_its_numbers_behind_it(self):
        self.open(self.folder)
        empty = self.browser.run(
            "return [...document.querySelectorAll('figure')].filter(f => f.querySelector('svg') && "
            "f.querySelectorAll('details table tbody tr').length == 0).length"
        )
        self.assertEqual(empty, 0)
        # Closed at first; opening one shows it.
        self.assertEqual(
            self.browser.run("return document.querySelectorAll('details[open]').length"), 0
        )
        height = self.browser.run(
            "const d = document.querySelector('details'); d.open = true;"
            "return d.querySelector('table').getBoundingClientRect().height"
        )
        self.assertGreater(height, 20)

    def test_folds_details_away_and_prints_on_six_sheets(self):
        for inputs in (
            [self.folder],
            [self.folder / "audit.json"],
            [self.folder / "audit.json", self.folder / "receipt.json"],
        ):
            for width, scheme in ((DESKTOP, "light"), (PHONE, "dark")):
                self.open(*inputs, width=width, scheme=scheme, full=False)
                wide = self.browser.run("return document.documentElement.scrollWidth")
                self.assertLessEqual(wide, width)
                self.assertEqual(self.browser.log("browser"), [])
            sections = self.sections()
            made = self.browser.cdp(
                "Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.69
            )
            pages = re.findall(rb"/Type\s*/Page\b", base64.b64decode(made["data"]))
            self.assertLessEqual(len(pages), 6)
            # What is folded away opens at a click, is named on paper, and is all there.
            closed = self.browser.run(
                "return [...document.querySelectorAll('section.folded')].map(s => s.id)"
            )
            self.assertIn("ks", closed)
            opened = self.browser.run(
                "const s = document.querySelector('#ks'); s.querySelector('summary').click();"
                "return s.querySelector('svg.chart').getBoundingClientRect().width"
            )
            self.assertGreater(opened, 100)
            self.open(*inputs)
            self.assertEqual(self.sections(), sections)

    def test_prints_light_whatever_the_screen(self):
        self.open(self.folder, scheme="dark")
        self.browser.cdp(
            "Emulation.setEmulatedMedia",
            media="print",
            features=[{"name": "prefers-color-scheme", "value": "dark"}],
        )
        colour = self.browser.run("return getComputedStyle(document.body).backgroundColor")
        self.assertEqual(colour, "rgb(255, 255, 255)")
        # Paper does not scroll: every table, opened as in print, ends where the page does (A4 less
        # margins).
        self.browser.size(718)
        cut = self.browser.run(
            "document.querySelectorAll('details').forEach(d => { d.open = true; });"
            "return [...document.querySelectorAll('table')].filter(t => "
            "t.getBoundingClientRect().right > "
            "(t.closest('figure') || document.body).getBoundingClientRect().right + 1).map(t => "
            "t.innerText)"
        )
        self.assertEqual(cut, [])
        # A tall sheet of pictures has room for its caption on the same page (A4: 297 mm, less
        # margins), undistorted.
        width, height = self.browser.run(
            "const sheet = document.querySelector('img.sheet'); const was = sheet.src;"
            'sheet.src = \'data:image/svg+xml,<svg xmlns="http://www.w3.org/2000/svg" width="600" '
            'height="2400"/>\';'
            "return sheet.decode().then(() => { const box = sheet.getBoundingClientRect(); "
            "sheet.src = was;"
            "return [box.width, box.height]; })"
        )
        self.assertLess(height, 240 * 96 / 25.4)
        self.assertAlmostEqual(height / width, 4, delta=0.1)
        pdf = self.folder / "report.pdf"
        self.browser.pdf(pdf)
        self.assertGreater(pdf.stat().st_size, 10000)
        self.browser.cdp("Emulation.setEmulatedMedia", media="", features=[])


if __name__ == "__main__":
    if webdriver.find_browser() is None:
        print(
            "SKIPPED: chromium and chromedriver are not installed (Debian: chromium "
            "chromium-driver)"
        )
        sys.exit(77)
    unittest.main(verbosity=2)
