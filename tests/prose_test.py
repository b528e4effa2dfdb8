"""prose_test.py [FOLDER]: what is written for people, in every file that git knows.

Lines of documents and scripts have at most 100 columns, tables and links aside; every link between
documents leads to a file and, behind a #, to a heading; every document is reached from README.md;
HACKING.md has at most 80 lines.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

COLUMNS = 100
SCRIPT = re.compile(r"\.(py|sh)$")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]*)\)")


def measured(line):
    """What counts of a line: of a link its words, of a picture and an address nothing."""
    line = LINK.sub(lambda link: "" if link[1] else link[2], line)
    return re.sub(r"<?https?://\S+", "", line)


def long_lines(name, text):
    return [
        f"{name}:{number}: {len(line)} columns"
        for number, line in enumerate(text.splitlines(), 1)
        if not line.lstrip().startswith(("|", "#")) and len(measured(line)) > COLUMNS
    ]


def anchors(text):
    """The headings of a document as GitHub names them in addresses."""
    headings = re.findall(r"^#+ +(.*)$", text, re.M)
    words = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {word.strip().replace(" ", "-") for word in words}


def links(root, document):
    """The files of this project that a document leads to, and what is wrong with its links."""
    found, wrong = set(), []
    for _, _, target in LINK.findall((root / document).read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = ((root / document).parent / path).resolve() if path else (root / document).resolve()
        if not file.exists() or not file.is_relative_to(root):
            wrong.append(f"{document}: link to {target}: no such file")
        elif anchor and anchor not in anchors(file.read_text()):
            wrong.append(f"{document}: link to {target}: no such heading")
        else:
            found.add(str(file.relative_to(root)))
    return found, wrong


def is_script(root, name):
    if SCRIPT.search(name):
        return True
    with open(root / name, "rb") as file:
        return file.read(2) == b"#!"


def check(root, names):
    wrong, leads_to = [], {}
    for name in names:
        if name.endswith(".md") or is_script(root, name):
            wrong += long_lines(name, (root / name).read_text())
        if name.endswith(".md"):
            leads_to[name], dead = links(root, name)
            wrong += dead
    reached, new = set(), {"README.md"}
    while new:
        reached |= new
        new = set().union(*(leads_to.get(name, set()) for name in new)) - reached
    wrong += [
        f"{name}: no way from README.md leads here" for name in leads_to if name not in reached
    ]
    if "HACKING.md" in leads_to:
        lines = len((root / "HACKING.md").read_text().splitlines())
        wrong += [f"HACKING.md: {lines} lines; wanted at most 80"] if lines > 80 else []
    return wrong


def test_itself():
    """The check finds one fault of each kind, and nothing in a folder without."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder).resolve()
        wide = "word " * 21
        good = {
            "README.md": f"# A\n[b](b.md#two-words) ![{wide}](b.md)\n| {wide} "
            f"|\nhttps://a/{'b' * 99}\n",
            "b.md": "## Two words\n",
            "run": "#!/bin/sh\n",
        }
        bad = {
            "README.md": good["README.md"] + "[c](c.md) [d](b.md#three)\n" + wide,
            "b.md": good["b.md"],
            "alone.md": "",
            "run": good["run"] + wide,
            "HACKING.md": "[a](README.md)\n" * 81,
        }
        for files, count in ((good, 0), (bad, 7)):
            for name, text in files.items():
                (root / name).write_text(text)
            found = check(root, list(files))
            assert len(found) == count, found


test_itself()
root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, text=True)
if listed.returncode != 0:
    print("skipped: not a git checkout")
    sys.exit(77)
names = [name for name in listed.stdout.split("\0") if name and (root / name).is_file()]
wrong = check(root, names)
print("\n".join(wrong) or f"{len(names)} files: nothing wrong")
sys.exit(1 if wrong else 0)
