"""oubli audit from files to exit codes: audit_test.py OUBLI. Needs NumPy; exit 77 (skipped)
without."""
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    sys.exit(77)

program = os.path.abspath(sys.argv[1])
MODELS, SAMPLES, CLASSES, FORGOTTEN = 20, 120, 4, 2
y = np.arange(SAMPLES) % CLASSES


def population(seed, shift=0.0, columns=CLASSES - 1, models=MODELS):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(models, SAMPLES, columns)).astype(np.float32)
    logits[:, y == FORGOTTEN] += np.float32(shift)
    known = np.arange(CLASSES) if columns == CLASSES else np.delete(np.arange(CLASSES), FORGOTTEN)
    if columns == len(known):  # they recognise their classes
        logits += 2 * (y[:, None] == known).astype(np.float32)
    return logits


def audit(*words, code=0, say=""):
    run = subprocess.run(
        [program, "audit", "--quiet", "--full", *words], capture_output=True, text=True, check=False
    )
    assert run.returncode == code and say in run.stderr, (words, run.returncode, run.stderr)
    return run.stdout


def save(name, array):
    np.save(name, array)
    return name


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    save("seen.npy", population(1, 3))
    save("unseen.npy", population(2))
    save("unseen2.npy", population(3))
    save("y.npy", y)
    with open("names.txt", "w", encoding="utf-8") as file:
        file.write("ant\nbee\ncat\ndog\n")
    base = [
        "--seen",
        "seen.npy",
        "--unseen",
        "unseen.npy",
        "--labels",
        "y.npy",
        "--directions",
        "20",
    ]

    # Everything, by name and by number, from one file and from one per model.
    full = json.loads(
        audit(
            *base,
            "--class",
            "cat",
            "--class-names",
            "names.txt",
            "--json",
            "--unseen2",
            "unseen2.npy",
            "--csv",
            "a.csv",
        )
    )
    assert full["forgotten"] == [FORGOTTEN] and full["class_names"][2] == "cat"
    with open("a.csv", encoding="utf-8") as file:
        lines = file.read().splitlines()
    assert len(lines) == 1 + CLASSES * (2 * (10 * 6 + 3) + 7 * 6 + 3) and '"cat"' in "".join(lines)
    for m in range(MODELS):
        save(f"seen-{m}.npy", population(1, 3)[m])
    files = [f"seen-{m}.npy" for m in range(MODELS)]
    parts = json.loads(audit("--seen", *files, *base[2:], "--class", "2", "--json"))
    assert parts["leaks"] == full["leaks"]
    assert parts["floor"]["reason"] and parts["flips"]["reason"]
    one = audit(*base, "--class", "2", "--jobs", "1", "--json")
    assert one == audit(*base, "--class", "2", "--jobs", "3", "--json")
    assert "n/a, KS for label" in audit(*base, "--class", "2")
    # Other float types hold the same numbers, nearly.
    save("double.npy", population(1, 3).astype(np.float64))
    double = json.loads(audit("--seen", "double.npy", *base[2:], "--class", "2", "--json"))
    assert double["leaks"] == full["leaks"]

    # The gate: above, below, undecided.
    assert full["verdict"]["outcome"] == "told apart" and full["verdict"]["with_floor"]
    audit(*base, "--class", "2", "--fail-above", "0.2", code=5, say="told apart")
    audit(*base, "--class", "2", "--fail-above", "1")
    equal = ["--seen", "unseen2.npy", *base[2:], "--class", "2", "--forgotten-only"]
    audit(*equal, "--fail-above", "1")
    audit(*equal, "--fail-above", "0.01", code=9, say="undecided")
    audit(*equal, "--fail-above", "0.01", "--undecided-passes")
    audit(*base, "--class", "2", "--fail-above", "-0.1", code=2, say="--fail-above")

    # Answers of one network.
    two = json.loads(
        audit(*base, "--class", "2", "--json", "--answers", "5,1", "--attack", "per-image")
    )
    rows = two["leaks"]["forgotten"][0]["attacks"]
    assert [row["answers"] for row in rows] == [1, 5] and two["options"]["answers"] == [1, 5]
    audit(*base, "--class", "2", "--answers", "0", code=2, say="--answers")
    audit(*base, "--class", "2", "--answers", "x", code=2, say="--answers")
    assert f"{SAMPLES // CLASSES} images of the class, fewer than 999 answers" in audit(
        *base, "--class", "2", "--answers", "999", "--attack", "per-image"
    )

    # One retrained network gives less, and says so.
    save("lone.npy", population(2)[0])
    lone = audit("--seen", "seen.npy", "--unseen", "lone.npy", *base[4:], "--class", "2")
    assert "a single unseen model" in lone and "recognised by a linear read-out" in lone
    audit(
        "--seen",
        "seen.npy",
        "--unseen",
        "lone.npy",
        *base[4:],
        "--class",
        "2",
        "--fail-above",
        "0.5",
        code=9,
        say="undecided",
    )

    # Features of several layers.
    save("deep.npy", population(11, columns=6))
    save("deep-unseen.npy", population(12, columns=6))
    layers = json.loads(
        audit(
            *base,
            "--class",
            "2",
            "--json",
            "--features",
            "deep=deep.npy",
            "last=seen.npy",
            "--unseen-features",
            "deep=deep-unseen.npy",
        )
    )
    assert [probe["layer"] for probe in layers["probes"]] == ["deep", "last"]
    assert layers["probes"][0]["recall_unseen"] and layers["probes"][0]["cka"]
    audit(*base, "--class", "2", "--features", "deep=", code=2, say="no file after")

    # Half floats hold the same, nearly; numbers without digits are refused, and so are copies.
    half = save("half.npy", population(1, 3).astype(np.float16))
    assert json.loads(audit("--seen", half, *base[2:], "--class", "2", "--json"))["verdict"]
    far = save("far.npy", population(1, 3).astype(np.float64) + 1e8)
    audit("--seen", far, *base[2:], "--class", "2", code=3, say="Subtract a common number")
    near = save("near.npy", population(2).astype(np.float16).astype(np.float32))
    audit("--seen", near, *base[2:], "--class", "2", code=3, say="same logits up to rounding")

    # Labels that the retrained networks do not mean: refused, unless somebody insists, and then it
    # is said.
    for moved, words in (
        ((y + 1) % CLASSES, "near chance"),
        (np.array([1, 0, 2, 3])[y], "near chance"),
        (np.array([2, 1, 0, 3])[y], "look swapped"),
        (np.array([1, 3, 2, 0])[y], "near chance"),
    ):
        wrong = [*base[:4], "--labels", save("moved.npy", moved), *base[6:], "--class", "2"]
        audit(*wrong, code=4, say="labels look misaligned: unseen.npy")
        audit(*wrong, code=4, say=words)
        insisted = json.loads(audit(*wrong, "--ignore-accuracy", "--json", "--attack", "logistic"))
        assert words in " ".join(insisted["warnings"]), insisted["warnings"]
    save("all.npy", population(9, columns=CLASSES))
    audit(*wrong, "--before", "all.npy", code=4, say="all.npy")
    assert "warnings" not in full or not any("misaligned" in w for w in full["warnings"])

    # Bad input: what is wrong, and the right exit code.
    audit(
        "--seen",
        "seen.npy",
        "--unseen",
        "seen.npy",
        *base[4:],
        "--class",
        "2",
        code=2,
        say="same file",
    )
    save("copy.npy", population(1, 3))
    audit(
        "--seen",
        "seen.npy",
        "--unseen",
        "copy.npy",
        *base[4:],
        "--class",
        "2",
        code=3,
        say="same logits",
    )
    wide = save("wide.npy", population(4, columns=CLASSES))
    audit(
        "--seen",
        "seen.npy",
        "--unseen",
        wide,
        *base[4:],
        "--class",
        "2",
        code=3,
        say="one column for every class",
    )
    # ... and where the seen models have a column for every class, too: whatever shows it.
    wide_seen = save("wide-seen.npy", population(8, columns=CLASSES))
    for more in (
        [],
        ["--forgotten-only"],
        ["--class-names", "names.txt"],
        ["--before", "wide-before.npy"],
    ):
        save("wide-before.npy", population(9, columns=CLASSES))
        for unseen in wide, "unseen.npy":
            audit(
                "--seen",
                wide_seen,
                "--unseen",
                unseen,
                *base[4:],
                "--class",
                "2",
                *more,
                code=3,
                say="one column for every class",
            )
    two = ["--class", "0", "--class", "2", "--forgotten-only"]
    audit(
        "--seen",
        wide_seen,
        "--unseen",
        wide,
        *base[4:],
        *two,
        code=3,
        say="one column for every class",
    )
    # Labels that do not reach the last class leave it open how many there are, until something says
    # so.
    short = save("y2.npy", np.where(y == 3, 0, y))
    partly = [*base[:4], "--labels", short, "--class", "2", "--forgotten-only"]
    audit(*partly, code=3, say="one column for every class")
    audit(*partly, "--class-names", "names.txt")
    audit(*partly, "--before", "wide-before.npy")
    single_class = [*base[:4], "--labels", save("y1.npy", np.where(y > 1, 1, y)), "--class", "1"]
    audit(
        *single_class, "--forgotten-only", code=3, say="make 4 classes, but the largest label is 1"
    )
    audit(
        *base,
        "--class",
        "2",
        "--before",
        "unseen2.npy",
        code=3,
        say="have a column for every class",
    )
    other = save("other.npy", population(5, columns=7))
    audit(
        "--seen",
        "seen.npy",
        "--unseen",
        other,
        *base[4:],
        "--class",
        "2",
        code=3,
        say="7 columns, wanted 3",
    )
    single = save("single.npy", population(6, models=1))
    audit("--seen", single, *base[2:], "--class", "2", code=3, say="at least two models")
    holes = population(7)
    holes[3, 5, 1] = np.nan
    audit(
        "--seen",
        save("nan.npy", holes),
        *base[2:],
        "--class",
        "2",
        code=3,
        say="model 3, sample 5, column 1",
    )
    audit(
        *base[:4],
        "--labels",
        save("y9.npy", np.where(y == 3, 9, y)),
        "--class",
        "2",
        code=3,
        say="9",
    )
    audit(
        *base[:4],
        "--labels",
        save("y0.npy", np.where(y == 1, 0, y)),
        "--class",
        "2",
        code=3,
        say="no sample of class 1",
    )
    audit(*base, "--class", "7", code=2, say="no class '7'")
    audit(*base, "--class", "cta", "--class-names", "names.txt", code=2, say="cat")
    audit(*base, "--class", "2", "--csv", "a.csv", code=2, say="--force")
    audit(*base, "--class", "2", "--attack", "forrest", code=2, say="forest")
    audit("--seen", "absent.npy", *base[2:], "--class", "2", code=6, say="absent.npy")
    # Options that make no sense, and files used twice.
    audit(*base, "--class", "2", "--images", "-1", code=2, say="--images")
    audit(*base, "--class", "2", "--bootstrap", "20", code=2, say="--bootstrap 20")
    audit(
        *base, "--class", "2", "--csv", "seen.npy", "--force", code=2, say="seen.npy: is the input"
    )
    audit(*base, "--class", "2", "--csv", "./y.npy", "--force", code=2, say="is the input")
    assert np.array_equal(np.load("seen.npy"), population(1, 3)) and np.array_equal(
        np.load("y.npy"), y
    )
    features = save("f.npy", population(11, columns=6))
    audit(
        *base,
        "--class",
        "2",
        "--features",
        features,
        "--unseen-features",
        features,
        code=2,
        say="same file",
    )
    audit(
        *base,
        "--class",
        "2",
        "--features",
        save("f0.npy", population(11, columns=0)),
        code=3,
        say="0 columns",
    )
    assert "Class 2: Whoever holds the file" in audit(
        *base, "--class", "2", "--unseen-features", features
    )
    twice = json.loads(audit(*base, "--class", "2", "--attack", "forest,forest", "--json"))
    assert (
        len(twice["leaks"]["forgotten"][0]["attacks"]) == 1 and twice["worst"]["attack"] == "forest"
    )
    audit(
        "--seen",
        save("rep.npy", np.repeat(population(1)[:1], MODELS, 0)),
        *base[2:],
        "--class",
        "2",
        code=3,
        say="models 0 and 1 hold the same logits",
    )
    big = population(1, 3).astype(np.float64)
    big[1, 2, 0] = 1e300
    audit(
        "--seen",
        save("big.npy", big),
        *base[2:],
        "--class",
        "2",
        code=3,
        say="model 1, sample 2, column 0 is 1e+300, which does not fit float32",
    )
    # Finite, but so large that it hides everything else.
    for value in 3e38, -2e9:
        big = population(1, 3)
        big[1, 2, 0] = value
        audit(
            "--seen",
            save("big.npy", big),
            *base[2:],
            "--class",
            "2",
            code=3,
            say="big.npy: model 1, sample 2, column 0 is "
            + ("3e+38" if value > 0 else "-2000000000, beyond 1e+09"),
        )
    for option in "--train-share", "--fail-above":
        for word in "nan", "inf", "-inf", "1.5":
            audit(*base, "--class", "2", f"{option}={word}", code=2, say="wanted a number from")
    for words in ["2", "2"], ["2", "index:2"], ["0", "2", "index:0"]:
        audit(
            *base,
            *[word for name in words for word in ("--class", name)],
            code=2,
            say="named twice",
        )
    audit(
        *base,
        "--class",
        "cat",
        "--class",
        "2",
        "--class-names",
        "names.txt",
        code=2,
        say="--class 2: named twice",
    )
    # One file per model: which file it is.
    for m in range(MODELS):
        save(f"before-{m}.npy", population(12, columns=CLASSES)[m])
    before = [f"before-{m}.npy" for m in range(MODELS)]
    audit(*base, "--class", "2", "--before", *before)
    audit(
        *base,
        "--class",
        "2",
        "--before",
        before[0],
        *before[:-1],
        code=2,
        say="--before before-0.npy and --before before-0.npy are the same file: a model counts "
        "once",
    )
    save("before-copy.npy", np.load("before-0.npy"))
    audit(
        *base,
        "--class",
        "2",
        "--before",
        *before[:-1],
        "before-copy.npy",
        code=3,
        say="before-0.npy and before-copy.npy hold the same logits",
    )
    save("holes.npy", holes[3])
    audit(
        "--seen",
        *files[:3],
        "holes.npy",
        *files[4:],
        *base[2:],
        "--class",
        "2",
        code=3,
        say="holes.npy, sample 5, column 1 is nan",
    )
    only = [
        *base[:4],
        "--labels",
        save("y22.npy", np.full(SAMPLES, 2)),
        "--class",
        "2",
        "--class-names",
        "names.txt",
    ]
    audit(*only, code=3, say="(--forgotten-only")
    some = json.loads(audit(*only, "--forgotten-only", "--json"))
    assert all(row["accuracy"] is None and row["reason"] for row in some["quality"])
    audit(
        *base[:4],
        "--labels",
        save("y013.npy", np.where(y == 2, 1, y)),
        "--class",
        "2",
        code=3,
        say="no sample of class 2: every audited class needs samples\n",
    )
print("ok")
