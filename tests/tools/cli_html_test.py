#!/usr/bin/env python3
"""The page of --html in a browser: what it shows, and that its filter works.
Usage: cli_html_test.py MXO [unittest arguments].  Skipped (77) without chromium.
"""
import html.parser
import json
import shutil
import subprocess
import sys
import unittest

from cli_case import DISAGREE, Case
import safetensors as st

CHROMIUM = next((path for name in ["chromium", "chromium-browser", "google-chrome"]
                 if (path := shutil.which(name))), None)


class Page(html.parser.HTMLParser):
    """Elements in order: (tag, attributes, hidden); text by id."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text, self.last = [], {}, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.elements.append((tag, attributes))
        self.last = attributes.get("id")

    def handle_endtag(self, tag):
        self.last = None

    def handle_data(self, data):
        if self.last:
            self.text[self.last] = self.text.get(self.last, "") + data


class Html(Case):
    def report(self):
        """A suite of products with one element and one whole expert wrong."""
        self.ok("generate", self.here / "suite", "--suite", "linear", "--level", 0)
        outputs = self.here / "outputs"
        outputs.mkdir()
        for case in json.loads((self.here / "suite/manifest.json").read_text())["cases"]:
            name = case["id"] + ".safetensors"
            held = st.decode((self.here / "suite/cases" / name).read_bytes())
            kept = {operand["name"]: held[operand["name"]] for operand in case["operands"]
                    if operand["role"] == "expected"}
            (outputs / name).write_bytes(st.encode(kept))
        names = sorted(p.name for p in outputs.iterdir() if "bf16.exact" in p.name)
        for name, wrong in zip(names, [slice(0, 1), slice(0, 2 * 32 * 64)]):
            path = outputs / name
            dw = bytearray(st.decode(path.read_bytes())["dw"][2])
            # One byte is damaged; one expert is NaN, never written.
            dw[wrong] = b"\xFF" * len(dw[wrong]) if wrong.stop > 1 else bytes([dw[0] ^ 0x21])
            self.replace(path, "dw", bytes(dw))
        page = self.here / "report.html"
        self.ok("compare", self.here / "suite", outputs, "--html", page, code=DISAGREE)
        return page

    @staticmethod
    def replace(path, name, data):
        """New bytes of one tensor in place, whatever else the file holds."""
        whole = bytearray(path.read_bytes())
        length = int.from_bytes(whole[:8], "little")
        begin, end = json.loads(whole[8:8 + length])[name]["data_offsets"]
        whole[8 + length + begin:8 + length + end] = data
        path.write_bytes(whole)

    def opened(self, page, query=""):
        """The DOM after the page's script ran; `query` is put into the filter first."""
        if query:
            text = page.read_text().replace(
                "</script>", f"search.value={json.dumps(query)};sift();</script>")
            page = self.path("asked.html", text.encode())
        done = subprocess.run(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
             f"--user-data-dir={self.here / 'profile'}", page.as_uri()],
            capture_output=True, text=True, check=True, timeout=240)
        return Page(done.stdout)

    def test_a_browser_finds_figures_links_and_a_working_filter(self):
        page = self.report()
        self.assertNotIn("http", page.read_text(), "nothing may be fetched")
        dom = self.opened(page)
        self.assertEqual(dom.text["outcome"], "FAIL")
        rows = [a for t, a in dom.elements if t == "tr" and "data-verdict" in a]
        self.assertGreater(len(rows), 4)
        self.assertEqual([r["data-verdict"] for r in rows[:3]], ["FAIL", "FAIL", "PASS"])
        self.assertEqual(dom.text["shown"], str(len(rows)))
        sections = [a for t, a in dom.elements if t == "section"]
        self.assertEqual([s["data-verdict"] for s in sections[:3]], ["FAIL", "FAIL", "PASS"])
        links = {a["href"] for t, a in dom.elements if t == "a"}
        self.assertTrue({"#" + s["id"] for s in sections} <= links)
        for kind in ["field", "axis", "group", "cell", "bar"]:
            self.assertTrue([a for _, a in dom.elements if kind in a.get("class", "").split()], kind)
        self.assertTrue([a for _, a in dom.elements if a.get("class") == "why"])
        self.assertIn('class="why">explained: (symptom) ', page.read_text())
        self.assertIn("mxo compare", dom.text["command"])

        asked = self.opened(page, query="dw fail-nothing")
        self.assertEqual(asked.text["shown"], "0")
        word = rows[0]["data-text"].split()[0]
        asked = self.opened(page, query=word)
        visible = [a for t, a in asked.elements
                   if t == "tr" and "data-verdict" in a and "hidden" not in a]
        self.assertEqual(len(visible), 1)


if __name__ == "__main__":
    if CHROMIUM is None:
        print("skipped: no chromium here (tools/setup.sh --browser installs Debian's)")
        sys.exit(77)
    unittest.main()
