"""receipts.py OUBLI [CASE...]: what somebody may try with receipts and names.

Every case names the promise that it tests.
"""
import json, os, pathlib, re, resource, shutil, subprocess, sys, tempfile
import numpy as np

OUBLI = pathlib.Path(sys.argv[1]).resolve()
ESCAPE = "\x1b]0;owned\x07\x1b[31m"


def run(*arguments, code=0, cwd=None, **options):
    done = subprocess.run(
        [OUBLI, *map(str, arguments)], cwd=cwd, capture_output=True, timeout=120, **options
    )
    out, err = done.stdout.decode(errors="surrogateescape"), done.stderr.decode(
        errors="surrogateescape"
    )
    assert done.returncode == code, (arguments, done.returncode, out, err)
    return out + err


def make(folder):
    rng = np.random.default_rng(0)
    W, b = rng.normal(size=(6, 8)).astype("f4"), rng.normal(size=6).astype("f4")
    y = np.repeat(np.arange(6), 40)
    np.savez(folder / "head.npz", W=W, b=b)
    np.savez(folder / "two.npz", W=W, threshold=b, prior=b + 1)
    np.save(folder / "f.npy", (W[y] + 0.5 * rng.normal(size=(240, 8))).astype("f4"))
    np.save(folder / "y.npy", y)
    (folder / "names.txt").write_text("ant\nbee\ncat\ndog\nelk\nfox\n")
    run("keygen", "-o", "key", cwd=folder)


DATA = "--features f.npy --labels y.npy".split()


def nothing_follows_the_json(folder):
    """Nothing can be added to a signed receipt."""
    run("forget", "head.npz", "--class", 1, *DATA, "--sign", "key", "-o", "new.npz", cwd=folder)
    verify = ["verify", "new.npz.receipt.json", "--model", "new.npz", "--pubkey", "key.pub"]
    run(*verify, cwd=folder)
    receipt = folder / "new.npz.receipt.json"
    honest = receipt.read_bytes()
    for more in (b"\0", b"\0and every other class as well", b"x", b"{}", b"\0" + honest):
        receipt.write_bytes(honest + more)
        run(*verify, code=3, cwd=folder)
    receipt.write_bytes(honest)
    run(*verify, cwd=folder)


def many_keys_take_no_time(folder):
    """A receipt takes time in proportion to its size."""
    run("forget", "head.npz", "--class", 1, *DATA, "-o", "new.npz", cwd=folder)
    receipt = json.loads((folder / "new.npz.receipt.json").read_text())
    receipt["more"] = {f"k{i}": i for i in range(300_000)}
    (folder / "many.json").write_text(json.dumps(receipt))
    spent = lambda: resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    begin = spent()
    run("verify", "many.json", "--model", "new.npz", cwd=folder)
    assert spent() - begin < 10, "seconds"  # it took minutes, half a second now


def a_bias_that_was_gained(folder):
    """An honest receipt verifies: here one that needed --no-bias, and whose head has one now."""
    forget = ["forget", "two.npz", "--class", 1, *DATA, "--solver", "affine", "-o", "new.npz"]
    run(*forget, code=2, cwd=folder)
    run(*forget, "--no-bias", cwd=folder)
    assert json.loads((folder / "new.npz.receipt.json").read_text())["bias_added"]
    text = run(
        "verify",
        "new.npz.receipt.json",
        "--model",
        "new.npz",
        "--original",
        "two.npz",
        "--no-bias",
        *DATA,
        cwd=folder,
    )
    assert "is the same bit for bit" in text, text


def the_seed_stays_with_whoever_chose_it(folder):
    """A receipt does not tell where randomization sent the forgotten mean."""
    seed = 0x9E3779B97F4A7C15
    forget = [
        "forget",
        "head.npz",
        "--class",
        1,
        *DATA,
        "--method",
        "randomization",
        "--seed",
        seed,
        "--force",
        "-o",
        "new.npz",
    ]
    verify = [
        "verify",
        "new.npz.receipt.json",
        "--model",
        "new.npz",
        "--original",
        "head.npz",
        *DATA,
    ]
    run(*forget, cwd=folder)
    assert str(seed) not in (folder / "new.npz.receipt.json").read_text()
    assert re.search("not made +the new head, computed anew: .*--seed", run(*verify, cwd=folder))
    assert "is the same bit for bit" in run(*verify, "--seed", seed, cwd=folder)
    assert "not the one of the receipt" in run(*verify, "--seed", seed + 1, code=5, cwd=folder)
    run(*forget, "--keep-seed", cwd=folder)
    assert json.loads((folder / "new.npz.receipt.json").read_text())["request"]["seed"] == seed
    assert "is the same bit for bit" in run(*verify, cwd=folder)
    run("forget", "head.npz", "--class", 1, *DATA, "--keep-seed", "-o", "x.npz", code=2, cwd=folder)
    assert "can be guessed" in run(
        "forget",
        "head.npz",
        "--class",
        1,
        *DATA,
        "--method",
        "randomization",
        "-o",
        "x.npz",
        cwd=folder,
    )


def names_of_files_that_say_the_class(folder):
    """A receipt holds no name of a forgotten class, whatever files are called."""
    for name in ("without-ant.npz", "ANT.npz"):
        shutil.copy(folder / "f.npy", folder / "ant-f.npy")
        run(
            "forget",
            "head.npz",
            "--class",
            "ant",
            "--class-names",
            "names.txt",
            "--features",
            "ant-f.npy",
            "--labels",
            "y.npy",
            "-o",
            name,
            cwd=folder,
        )
        text = (folder / f"{name}.receipt.json").read_text()
        assert not re.search(r"(?i)\bant\b", text), text
        text = run(
            "verify",
            f"{name}.receipt.json",
            "--model",
            name,
            "--original",
            "head.npz",
            "--features",
            "ant-f.npy",
            "--labels",
            "y.npy",
            cwd=folder,
        )
        for what in (
            "the new model",
            "the new means",
            "the new class names",
            "its data",
            "the new head, computed anew",
        ):
            assert re.search(f"^passed +{what}:", text, re.M), (what, text)


def names_that_command_the_terminal(folder):
    """Nothing from outside reaches the terminal but as text on its own line."""

    def clean(text):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f]", text), repr(text)
        assert not re.search("^passed +signature", text, re.M), text

    forged = f"x\npassed    signature: Ed25519, by the given key{ESCAPE}"
    run("forget", "head.npz", "--class", 1, *DATA, "-o", "new.npz", cwd=folder)
    receipt = json.loads((folder / "new.npz.receipt.json").read_text())
    for file in receipt["output"]["files"]:
        file["name"] = forged
    receipt["program"]["version"] = receipt["program"]["compiler"] = forged
    (folder / "forged.json").write_text(json.dumps(receipt))
    clean(
        run(
            "verify", "forged.json", "--model", "new.npz", "--pubkey", "key.pub", code=5, cwd=folder
        )
    )
    head = np.load(folder / "head.npz")
    np.savez(
        folder / "odd.npz",
        **{"fc" + forged + ".weight": head["W"], "fc" + forged + ".bias": head["b"]},
    )
    (folder / "odd.txt").write_text("ant\nbee\nca\x1b[31mt\ndog\nelk\nfox\n")
    clean(run("inspect", "odd.npz", cwd=folder))
    clean(run("forget", "odd.npz", "--class", 1, *DATA, "-o", "odd-new.npz", cwd=folder))
    shutil.copy(folder / "head.npz", folder / forged.replace("/", ""))
    clean(run("inspect", forged.replace("/", ""), cwd=folder))
    clean(run("inspect", "no" + forged, code=6, cwd=folder))
    done = subprocess.run(
        [
            OUBLI,
            "forget",
            "head.npz",
            "--class",
            "1",
            "--class-names",
            "odd.txt",
            *DATA,
            "--dry-run",
        ],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    clean(done.stdout + done.stderr)


def folders_of_images(folder):
    """The digest of a folder is that of no other, not even of one with the same bytes."""
    data = folder / "data" / "mnist"
    data.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for prefix, count in (("train", 300), ("t10k", 100)):
        labels = np.arange(count) % 10
        images = rng.integers(0, 80, (count, 28, 28)) + labels[:, None, None] * 17
        (data / f"{prefix}-images-idx3-ubyte").write_bytes(
            np.array([0x803, count, 28, 28], ">u4").tobytes() + images.astype("u1").tobytes()
        )
        (data / f"{prefix}-labels-idx1-ubyte").write_bytes(
            np.array([0x801, count], ">u4").tobytes() + labels.astype("u1").tobytes()
        )
    environment = {**os.environ, "OUBLI_DATA": str(folder / "data")}
    run(
        "train",
        "mnist",
        "--epochs",
        3,
        "--jobs",
        1,
        "-o",
        "model.onnx",
        cwd=folder,
        env=environment,
    )
    for j in range(10):
        (folder / "images" / str(j)).mkdir(parents=True)
        for i in range(3):
            pixels = (rng.integers(0, 80, (28, 28)) + j * 17).astype("u1")
            (folder / "images" / str(j) / f"{i}.pgm").write_bytes(
                b"P5 28 28 255\n" + pixels.tobytes()
            )
    forget = [
        "forget",
        "model.onnx",
        "--class",
        3,
        "--data",
        "images",
        "--ignore-accuracy",
        "--force",
        "-o",
        "new.onnx",
    ]
    digest = lambda: json.loads((folder / "new.onnx.receipt.json").read_text())["calibration"][
        "data_files"
    ][0]
    run(*forget, cwd=folder)
    first = digest()
    last, before = folder / "images/9/2.pgm", folder / "images/9/1.pgm"
    before.write_bytes(before.read_bytes() + b"9/2.pgm" + last.read_bytes())
    last.unlink()
    run(*forget, cwd=folder)
    assert first["files"] == 30 and digest()["files"] == 29
    assert first["sha256"] != digest()["sha256"]


for case in (
    nothing_follows_the_json,
    many_keys_take_no_time,
    a_bias_that_was_gained,
    the_seed_stays_with_whoever_chose_it,
    names_of_files_that_say_the_class,
    names_that_command_the_terminal,
    folders_of_images,
):
    if sys.argv[2:] and case.__name__ not in sys.argv[2:]:
        continue
    place = pathlib.Path(tempfile.mkdtemp(prefix="oubli-adversary-"))
    make(place)
    case(place)
    shutil.rmtree(place)
    print(f"{case.__name__}: {case.__doc__}")
