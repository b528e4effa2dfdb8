"""files.py OUBLI [CASE...]: outputs appear together or not at all, whatever happens meanwhile.

Every case names the promise that it tests.
"""

import hashlib, os, pathlib, shutil, signal, subprocess, sys, tempfile
import numpy as np

OUBLI = pathlib.Path(sys.argv[1]).resolve()
FORGET = "forget head.npz --class 3 --features f.npy --labels y.npy -o out/new.npz".split()


def snapshot(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


def run(arguments, folder, before=()):
    environment = {**os.environ, "OUBLI_DATA": str(folder / "data")}
    if before:  # the leak sanitizer, in builds that have it, cannot work under strace
        environment["ASAN_OPTIONS"] = "detect_leaks=0"
    return subprocess.run(
        [*before, OUBLI, *arguments], cwd=folder, capture_output=True, text=True, env=environment
    )


def make(folder):
    rng = np.random.default_rng(0)
    W = rng.normal(size=(10, 12)).astype("f4")
    y = np.repeat(np.arange(10), 20)
    np.savez(folder / "head.npz", W=W, b=np.zeros(10, "f4"))
    np.save(folder / "f.npy", (W[y] + rng.normal(size=(200, 12))).astype("f4"))
    np.save(folder / "y.npy", y)
    (folder / "out").mkdir()
    done = run(FORGET, folder)
    assert done.returncode == 0, done.stderr
    return snapshot(folder / "out")


def empty(folder):
    shutil.rmtree(folder / "out")
    (folder / "out").mkdir()


def disk_full_at_every_size(folder):
    """With any amount of free space, all outputs appear or none."""
    outputs = make(folder)
    failed = 0
    for pages in range(1, 1000):  # of 4 KiB: a tmpfs knows no smaller amounts
        script = (
            f'mount -t tmpfs -o size={4 * pages}k none out && "$@" >log 2>&1; code=$?; '
            "cd out && ls -A && sha256sum -- $(ls -A); exit $code"
        )
        done = subprocess.run(
            ["unshare", "-rm", "sh", "-c", script, "sh", OUBLI, *FORGET],
            cwd=folder,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        if "unshare" in done.stderr or "mount:" in done.stderr:
            return "no namespaces here, not tested"
        lines = [line.split() for line in done.stdout.splitlines()]
        found = {line[1]: line[0] for line in lines if len(line) == 2 and line[1] != "-"}
        if done.returncode == 0:
            assert found == outputs, found
            break
        failed += 1
        message = (folder / "log").read_text()
        assert done.returncode == 6 and "No space left" in message, (pages, message)
        assert not found, f"{pages} pages: left behind {found}"
    assert failed >= 3, failed
    return f"exit 6 and nothing left at each of {failed} sizes"


def each_rename_fails(folder):
    """If one output cannot get its name, no other has its own, and old ones are as they were."""
    if shutil.which("strace") is None:
        return "strace is not installed, not tested"
    outputs = make(folder)
    for old in (False, True):
        failed = 0
        for call, n in [(call, n) for call in ("rename", "renameat2") for n in range(1, 6)]:
            empty(folder)
            for name in outputs if old else ():
                (folder / "out" / name).write_text("old " + name)
            before = snapshot(folder / "out")
            strace = ["strace", "-qq", "-o", "/dev/null", "-e", f"trace={call}"]
            strace += ["-e", f"inject={call}:error=EIO:when={n}"]
            code = run([*FORGET, *(["--force"] if old else [])], folder, strace).returncode
            after = snapshot(folder / "out")
            assert (code, after) in ((6, before), (0, outputs)), (old, call, n, code, after)
            failed += code == 6
        # an exchange that finds no file is followed by a rename
        assert failed >= len(outputs), f"{failed} of {len(outputs)} renames failed"
    return f"each of {failed} renames"


def places_that_are_taken(folder):
    """A folder or a link that leads nowhere in an output's place: no other output appears."""
    outputs = make(folder)
    for name in outputs:
        for force in ([], ["--force"]):
            for make_one in (pathlib.Path.mkdir, lambda path: path.symlink_to("nowhere")):
                empty(folder)
                make_one(folder / "out" / name)
                done = run([*FORGET, *force], folder)
                assert done.returncode in (2, 6) and done.stderr, (name, force, done.returncode)
                left = [p.name for p in (folder / "out").iterdir()]
                assert left == [name], (name, force, left, done.stderr)


STREAMS = ("closed", "full", "read by nobody")


def with_stream(number, kind, arguments, folder):
    """Exit code, stdout and stderr of the command whose standard stream `number` is unusable."""
    reader, writer = os.pipe()
    os.close(reader)
    with open("/dev/full", "wb") as full:
        streams = [subprocess.DEVNULL, subprocess.PIPE, subprocess.PIPE]
        streams[number] = {"closed": None, "full": full, "read by nobody": writer}[kind]
        done = subprocess.run(
            [OUBLI, *arguments],
            cwd=folder,
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            preexec_fn=(lambda: os.close(number)) if kind == "closed" else None,
        )
    os.close(writer)
    return done.returncode, (done.stdout or b"").decode(), (done.stderr or b"").decode()


def messages_that_nobody_reads(folder):
    """Closed, full or broken standard error: the same outputs and exit codes, nothing in files."""
    outputs = make(folder)
    said = run(FORGET + ["--force"], folder).stdout
    for kind in STREAMS:
        for words in ([], ["--verbose"]):
            empty(folder)
            code, out, _ = with_stream(2, kind, [*words, *FORGET], folder)
            assert (code, out) == (0, said), (kind, words, code, out)
            assert snapshot(folder / "out") == outputs, (kind, words)
        for words, wanted in (("inspect none.npz", 6), ("inspect y.npy", 4), ("inspekt", 2)):
            code, _, _ = with_stream(2, kind, words.split(), folder)
            assert code == wanted, (kind, words, code)
    empty(folder)
    code, out, _ = with_stream(0, "closed", FORGET, folder)
    assert (code, out) == (0, said) and snapshot(folder / "out") == outputs, (code, out)


def results_that_nobody_reads(folder):
    """Closed or full standard output: exit 6 and a message; broken: the end of a pipeline. The
    files are whole."""
    outputs = make(folder)
    for kind in STREAMS:
        for words in (FORGET, ["inspect", "head.npz"], ["--help"]):
            empty(folder)
            code, _, message = with_stream(1, kind, words, folder)
            if kind == "read by nobody":
                assert code == -signal.SIGPIPE, (kind, words, code, message)
            else:
                assert code == 6 and "standard output" in message, (kind, words, code, message)
            assert snapshot(folder / "out") == (outputs if words is FORGET else {}), (kind, words)


def is_mapped(pid, words):
    try:
        return words in pathlib.Path(f"/proc/{pid}/maps").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return False


def interrupted_after_loading(folder):
    """Ctrl-C once the model has run on the data: exit 130, nothing written, nothing said."""
    rng = np.random.default_rng(0)
    (folder / "data" / "mnist").mkdir(parents=True)
    (folder / "out").mkdir()
    for prefix, count in (("train", 600), ("t10k", 6000)):
        labels = np.arange(count) % 10
        images = rng.integers(0, 80, (count, 28, 28))
        for image, label in zip(images, labels):
            image[2 * label : 2 * label + 3] = 255
        (folder / f"data/mnist/{prefix}-images-idx3-ubyte").write_bytes(
            np.array([0x803, count, 28, 28], ">u4").tobytes() + images.astype("u1").tobytes()
        )
        (folder / f"data/mnist/{prefix}-labels-idx1-ubyte").write_bytes(
            np.array([0x801, count], ">u4").tobytes() + labels.astype("u1").tobytes()
        )
    assert run("train mnist --epochs 5 --jobs 1 -o model.onnx".split(), folder).returncode == 0
    forget = "forget model.onnx --class 3 --data mnist --ignore-accuracy -o".split()
    assert run([*forget, "new.onnx"], folder).returncode == 0
    verify = "verify new.onnx.receipt.json --model new.onnx --original model.onnx --data mnist"
    for arguments in (
        [*forget, "out/new.onnx"],
        "means model.onnx --data mnist -o out/means.npz".split(),
        "inspect model.onnx --class 3 --data mnist".split(),
        verify.split(),
    ):
        done = run(arguments, folder)
        assert done.returncode == 0, (arguments, done.stderr)
        empty(folder)
        process = subprocess.Popen(
            [OUBLI, *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OUBLI_DATA": str(folder / "data")},
        )
        # The features of all samples go to a nameless file, mapped when they are complete.
        while process.poll() is None and not is_mapped(process.pid, " (deleted)"):
            pass
        process.send_signal(signal.SIGINT)
        out, message = process.communicate()
        assert (process.returncode, out) == (130, ""), (arguments, process.returncode, message)
        assert message.endswith("interrupted\n"), message
        assert not snapshot(folder / "out"), "left behind"


for case in (
    disk_full_at_every_size,
    each_rename_fails,
    places_that_are_taken,
    messages_that_nobody_reads,
    results_that_nobody_reads,
    interrupted_after_loading,
):
    if sys.argv[2:] and case.__name__ not in sys.argv[2:]:
        continue
    place = pathlib.Path(tempfile.mkdtemp(prefix="oubli-adversary-"))
    said = case(place)
    shutil.rmtree(place)
    print(f"{case.__name__}: {case.__doc__}{' ' + said if said else ''}")
