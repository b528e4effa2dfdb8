"""faults.py OUBLI [CASE...]: what happens when things go wrong while the program works.

After every fault: inputs intact, outputs whole or absent, a message, no temporaries after the next
run, and the repeated command finishes with the bytes of an undisturbed run.
"""
import hashlib, os, pathlib, random, resource, shutil, signal, subprocess, sys, tempfile, time
import numpy as np

OUBLI = pathlib.Path(sys.argv[1]).resolve()
random.seed(1)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def snapshot(folder):
    return {str(p.relative_to(folder)): digest(p) for p in sorted(folder.rglob("*")) if p.is_file()}


def make_inputs(folder, classes=400, features=256, per_class=30):
    rng = np.random.default_rng(0)
    W = rng.normal(size=(classes, features)).astype("f4")
    y = np.repeat(np.arange(classes), per_class)
    f = (W[y] + rng.normal(size=(len(y), features))).astype("f4")
    folder.mkdir()
    np.savez(folder / "head.npz", W=W, b=np.zeros(classes, "f4"), other=rng.normal(size=100000))
    np.save(folder / "f.npy", f)
    np.save(folder / "y.npy", y)


DATA = "--features in/f.npy --labels in/y.npy".split()
FORGET = ["forget", "in/head.npz", *"--class 3 --class 7 -o out/new.npz".split(), *DATA]
MEANS = ["means", "in/head.npz", "-o", "out/means.npz", *DATA]


TRAIN = "train mnist --epochs 1 --jobs 1 -o out/model.onnx".split()
TRAIN_MANY = "train mnist --epochs 1 --jobs 1 --models 40 -o out/models".split()
REPRODUCE = "reproduce mnist --epochs 1 --models 3 --floor-models 3 --samples all".split()
REPRODUCE += "--jobs 1 --run out/run".split()


def make_images(folder, train=600, test=300):
    """A data set of the shape of MNIST, small enough to train on in a second."""
    rng = np.random.default_rng(0)
    (folder / "mnist").mkdir(parents=True)
    for prefix, count in (("train", train), ("t10k", test)):
        labels = np.arange(count) % 10
        images = rng.integers(0, 80, (count, 28, 28)) + (labels[:, None, None] * 17)
        (folder / f"mnist/{prefix}-images-idx3-ubyte").write_bytes(
            np.array([0x803, count, 28, 28], ">u4").tobytes() + images.astype("u1").tobytes()
        )
        (folder / f"mnist/{prefix}-labels-idx1-ubyte").write_bytes(
            np.array([0x801, count], ">u4").tobytes() + labels.astype("u1").tobytes()
        )


def run(arguments, cwd, **options):
    return subprocess.run(
        [OUBLI, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, "OUBLI_DATA": str(cwd / "in")},
        **options,
    )


def whole(outputs):
    """What must be the same in every run. The other files of a run folder hold times and process
    ids."""
    return {
        name: found
        for name, found in outputs.items()
        if not name.startswith("run/") or name == "run/results.json"
    }


class Place:
    """A folder with inputs, and what an undisturbed run leaves."""

    def __init__(self, arguments):
        prepare = make_images if arguments[0] in ("train", "reproduce") else make_inputs
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="oubli-faults-"))
        self.arguments = arguments
        prepare(self.folder / "in")
        self.inputs = snapshot(self.folder / "in")
        (self.folder / "out").mkdir()
        begin = time.monotonic()
        done = run(arguments, self.folder)
        self.seconds = time.monotonic() - begin
        assert done.returncode == 0, done.stderr
        self.outputs = whole(snapshot(self.folder / "out"))
        self.empty()

    def empty(self):
        shutil.rmtree(self.folder / "out")
        (self.folder / "out").mkdir()

    def check_after_fault(self):
        assert snapshot(self.folder / "in") == self.inputs, "an input changed"
        for name, found in whole(snapshot(self.folder / "out")).items():
            if ".oubli-tmp-" in name:
                continue
            assert self.outputs.get(name) == found, f"{name} is there but not whole"

    def temporaries(self):
        return any(".oubli-tmp-" in p.name for p in (self.folder / "out").rglob("*"))

    def check_rerun(self):
        """Seconds, or None if there was nothing left to do."""
        begin = time.monotonic()
        done = run(self.arguments, self.folder)
        seconds = time.monotonic() - begin
        finished_after_all = done.returncode == 2 and "exists already" in done.stderr
        assert finished_after_all or done.returncode == 0, done.stderr
        assert not self.temporaries(), "the re-run left temporaries"
        assert whole(snapshot(self.folder / "out")) == self.outputs, "the re-run gave other files"
        return None if finished_after_all else seconds

    def remove(self):
        shutil.rmtree(self.folder)


def start(arguments, place, before=(), stderr=subprocess.DEVNULL):
    environment = {**os.environ, "OUBLI_DATA": "in"}
    if before:  # the leak sanitizer, in builds that have it, cannot work under strace
        environment["ASAN_OPTIONS"] = "detect_leaks=0"
    return subprocess.Popen(
        [*before, OUBLI, *arguments],
        cwd=place.folder,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        env=environment,
    )


def kill_at_many_moments():
    """Every moment is tried until the kill comes before the end of the run, whose length is
    measured anew as we go: a machine may become faster or slower meanwhile."""
    for arguments, moments in ((FORGET, 24), (MEANS, 24), (TRAIN, 12), (REPRODUCE, 5)):
        place = Place(arguments)
        killed = attempts = left = misses = 0
        while killed < moments:
            attempts += 1
            assert (
                attempts <= 5 * moments
            ), f"{arguments[0]}: {killed} of {moments} kills met a running process"
            # Evenly spread, and dense near the end, where files are written.
            part = 2 * killed / moments if 2 * killed < moments else 0.8 + 0.2 * random.random()
            part *= 0.9**misses  # runs of a few hundredths of a second vary by more than that
            begin = time.monotonic()
            process = start(arguments, place)
            try:
                process.wait(place.seconds * part)
                place.seconds = time.monotonic() - begin  # it was faster than the last one
                misses += 1
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                met = process.wait() == -signal.SIGKILL
                killed += met
                misses = 0 if met else misses + 1
            left += place.temporaries()
            place.check_after_fault()
            seconds = place.check_rerun()
            if seconds is not None and arguments is not REPRODUCE:  # which goes on where it was
                place.seconds = seconds
            place.empty()
        print(
            f"{arguments[0]}: killed {killed} times in {attempts} attempts, temporaries left "
            f"{left} times and cleaned up"
        )
        place.remove()


# What changes files. A process killed at the entry of each of these calls has been seen in every
# state of its files.
CHANGES = "write,pwrite64,ftruncate,copy_file_range,fsync,rename,renameat2,link,unlink,mkdir"


def kill_at_every_change():
    """Killed at the entry of the n-th write, of the n-th rename and so on: the same moments on any
    machine."""
    if shutil.which("strace") is None:
        print("kill at every change: strace is not installed, not tested")
        return
    for arguments, most in ((FORGET, 40), (MEANS, 40), (TRAIN, 20), (REPRODUCE, 10)):
        place = Place(arguments)
        log = place.folder / "log"
        assert (
            start(
                arguments, place, ["strace", "-f", "-qq", "-o", log, "-e", f"trace={CHANGES}"]
            ).wait()
            == 0
        )
        counts, points = {}, []  # strace counts the calls of each thread on their own
        for line in log.read_text().splitlines():
            thread, call = line.split()[0], line.split()[1].split("(")[0]
            if call not in CHANGES.split(","):
                continue
            n = counts[thread, call] = counts.get((thread, call), 0) + 1
            if (call, n) not in points:
                points.append((call, n))
        place.empty()
        chosen = (
            [points[i * len(points) // most] for i in range(most)] if len(points) > most else points
        )
        left, missed = 0, []
        for call, n in chosen:
            # Threads share the work out anew in every run: none of them may come to its n-th call.
            for _ in range(5):
                process = start(
                    arguments,
                    place,
                    [
                        "strace",
                        "-f",
                        "-qq",
                        "-o",
                        "/dev/null",
                        "-e",
                        f"trace={call}",
                        "-e",
                        f"inject={call}:signal=SIGKILL:when={n}",
                    ],
                )
                killed = process.wait() == -signal.SIGKILL
                if killed:
                    break
                assert (
                    process.returncode == 0
                ), f"{arguments[0]} failed where {call} {n} was to kill it"
                place.empty()
            if not killed:
                missed.append(f"{call} {n}")
                continue
            left += place.temporaries()
            place.check_after_fault()
            place.check_rerun()
            place.empty()
        assert left > 0, f"{arguments[0]}: no kill left a temporary"
        assert 4 * len(missed) <= len(chosen), f"{arguments[0]} was not killed at {missed}"
        print(
            f"{arguments[0]}: killed at {len(chosen) - len(missed)} of {len(points)} changes of "
            f"files, temporaries left {left} times "
            "and cleaned up"
        )
        place.remove()


def out_of_disk():
    """A tmpfs of 64 KiB in a mount namespace of our own."""
    for arguments in (FORGET, MEANS, TRAIN, REPRODUCE):
        place = Place(arguments)
        script = (
            'mount -t tmpfs -o size=64k none out && "$@"; code=$?; ls -A out | wc -l; exit $code'
        )
        done = subprocess.run(
            ["unshare", "-rm", "sh", "-c", script, "sh", OUBLI, *arguments],
            cwd=place.folder,
            capture_output=True,
            text=True,
            env={**os.environ, "OUBLI_DATA": "in"},
        )
        if "unshare" in done.stderr or "mount:" in done.stderr:
            print("disk full: no namespaces here, not tested")
            return
        assert done.returncode == 6, (done.returncode, done.stderr)
        assert "No space left" in done.stderr, done.stderr
        if arguments is not REPRODUCE:  # which keeps the trials that were done
            assert done.stdout.strip() == "0", f"left behind: {done.stdout}"
        place.check_after_fault()
        place.check_rerun()
        print(f"{arguments[0]}: disk full: exit 6, nothing left, re-run whole")
        place.remove()


def read_only_folder():
    for arguments in (FORGET, MEANS, TRAIN, REPRODUCE):
        place = Place(arguments)
        script = 'mount -t tmpfs none out && mount -o remount,ro out && exec "$@"'
        done = subprocess.run(
            ["unshare", "-rm", "sh", "-c", script, "sh", OUBLI, *arguments],
            cwd=place.folder,
            capture_output=True,
            text=True,
            env={**os.environ, "OUBLI_DATA": "in"},
        )
        if "unshare" in done.stderr or "mount:" in done.stderr:
            print("read-only folder: no namespaces here, not tested")
            return
        assert done.returncode == 6 and "Read-only" in done.stderr, (done.returncode, done.stderr)
        place.check_after_fault()
        place.check_rerun()
        print(f"{arguments[0]}: read-only folder: exit 6")
        place.remove()


def out_of_memory():
    for arguments in (FORGET, MEANS, TRAIN):
        place = Place(arguments)
        refused = 0
        for megabytes in (40, 60, 80, 100, 120, 160, 200, 260, 400):
            limit = megabytes << 20
            done = run(
                arguments,
                place.folder,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
            )
            if done.returncode == 0:
                assert whole(snapshot(place.folder / "out")) == place.outputs
                place.empty()
                continue
            if "Sanitizer" in done.stderr:
                print("out of memory: not tested, a sanitizer takes all addresses for itself")
                place.remove()
                return
            # 127: the loader itself had no room; then nothing of ours ran.
            assert done.returncode in (6, 127), (
                arguments[0],
                megabytes,
                done.returncode,
                done.stderr,
            )
            refused += done.returncode == 6
            assert done.stderr.strip(), "no message"
            # Not known where it ran out, so not to be claimed: of several files some may be there.
            assert "nothing was written" not in done.stderr, done.stderr
            place.check_after_fault()
            assert not any((place.folder / "out").iterdir()), "something was left"
        assert refused > 0
        place.check_rerun()
        print(f"{arguments[0]}: out of memory at {refused} limits: exit 6, nothing left")
        place.remove()
    # An experiment records networks that failed and goes on; the next run trains them.
    place = Place(REPRODUCE)
    limit = 100 << 20
    done = run(
        REPRODUCE,
        place.folder,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert done.returncode == 8 and "out of memory" in done.stderr, (done.returncode, done.stderr)
    place.check_rerun()
    print("reproduce: out of memory: exit 8, networks recorded as failed, re-run whole")
    place.remove()


def memory_goes_while_it_trains():
    """Of several networks those that are finished stay, and the message does not deny it."""
    place = Place(TRAIN_MANY)
    process = start(TRAIN_MANY, place, stderr=subprocess.PIPE)
    while not (place.folder / "out/models/model-0001.onnx").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    resource.prlimit(process.pid, resource.RLIMIT_DATA, (1, 1))
    message = process.communicate()[1].decode()
    if "Sanitizer" in message:
        print("train --models: not tested, a sanitizer takes all addresses for itself")
        place.remove()
        return
    assert process.returncode == 6 and "out of memory" in message, (process.returncode, message)
    assert "nothing was written" not in message, message
    assert not place.temporaries()
    place.check_after_fault()
    there = len(list((place.folder / "out/models").iterdir()))
    assert 2 <= there < 40, there
    done = run([*TRAIN_MANY, "--force"], place.folder)
    assert done.returncode == 0 and snapshot(place.folder / "out") == place.outputs, done.stderr
    print(f"train --models: out of memory: exit 6, {there} of 40 networks whole, none half")
    place.remove()


def changed_while_read():
    """The data grows, changes or shrinks under the program: it must notice, or have been done with
    it."""
    for arguments in (FORGET, MEANS):
        place = Place(arguments)
        data = place.folder / "in" / "f.npy"
        content = data.read_bytes()
        noticed = 0
        for moment in range(18):
            process = subprocess.Popen(
                [OUBLI, *arguments],
                cwd=place.folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            time.sleep(place.seconds * (moment // 3) / 6)
            with open(data, "r+b") as f:
                if moment % 3 == 0:
                    f.seek(len(content) // 2)
                    f.write(b"changed!" * 4)
                elif moment % 3 == 1:
                    f.seek(0, 2)
                    f.write(b"more")
                else:
                    f.truncate(len(content) // 2)
            _, message = process.communicate()
            assert process.returncode in (0, 3, 4), (process.returncode, message)
            if process.returncode == 4:
                # The change came first, and what was written is a number so large that no class can
                # be told from another: what the new data gives by itself, too.
                again = run(arguments, place.folder)
                assert (again.returncode, again.stderr) == (4, message), (
                    again.returncode,
                    again.stderr,
                    message,
                )
                assert not any(not p.name.startswith(".") for p in (place.folder / "out").iterdir())
            elif process.returncode == 3:
                noticed += 1
                assert (
                    "chang" in message
                    or "shrank" in message
                    or "promises" in message
                    or "nan" in message
                ), message
                assert not any(not p.name.startswith(".") for p in (place.folder / "out").iterdir())
            else:
                # It had read everything before the change: then the result is that of the old data,
                # or the change came first and the result is that of the new data; never a mixture.
                found = snapshot(place.folder / "out")
                if found != place.outputs:
                    place.empty()
                    assert run(arguments, place.folder).returncode == 0
                    assert snapshot(place.folder / "out") == found, "a mixture of old and new data"
            data.write_bytes(content)
            place.empty()
        place.check_rerun()
        assert noticed > 0
        print(
            f"{arguments[0]}: data changed while read: noticed {noticed} of 18 times, never a "
            "mixture"
        )
        place.remove()


def changed_while_mapped():
    """Data sets are read in an instant: strace holds the program between the mapping of a file and
    its reading."""
    if shutil.which("strace") is None:
        print("data set changed while read: strace is not installed, not tested")
        return
    for arguments in (TRAIN, REPRODUCE):
        place = Place(arguments)
        data = (place.folder / "in/mnist/train-images-idx3-ubyte").resolve()
        content = data.read_bytes()
        process = start(
            arguments,
            place,
            [
                "strace",
                "-f",
                "-qq",
                "-o",
                "/dev/null",
                "-P",
                data,
                "-e",
                "trace=mmap",
                "-e",
                "inject=mmap:delay_exit=3000000:when=1",
            ],
            stderr=subprocess.PIPE,
        )
        while not is_mapped_below(process.pid, data):
            assert process.poll() is None, "it ended without mapping the data"
            time.sleep(0.01)
        with open(data, "r+b") as f:
            f.seek(len(content) // 2)
            f.write(b"changed!")
        message = process.stderr.read().decode()
        assert process.wait() == 3 and "changed while" in message, (process.returncode, message)
        data.write_bytes(content)
        place.check_after_fault()
        place.check_rerun()
        print(f"{arguments[0]}: data set changed while read: exit 3")
        place.remove()


def is_mapped_below(pid, path):
    """Whether a child of the process has mapped the file."""
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return any(
            str(path) in pathlib.Path(f"/proc/{child}/maps").read_text() for child in children
        )
    except FileNotFoundError:  # it has just ended
        return False


def two_on_one_run_folder():
    place = Place(REPRODUCE)
    first = subprocess.Popen(
        [OUBLI, *REPRODUCE],
        cwd=place.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OUBLI_DATA": "in"},
    )
    while not (place.folder / "out/run/run.json").exists():
        time.sleep(0.01)
    second = run(REPRODUCE, place.folder)
    assert second.returncode == 2 and second.stderr.strip(), (second.returncode, second.stderr)
    assert first.wait() == 0
    assert whole(snapshot(place.folder / "out")) == place.outputs
    print("reproduce: a second process on the run folder is refused, the first one finishes")
    place.remove()


def interrupted():
    place = Place(FORGET)
    process = subprocess.Popen(
        [OUBLI, *FORGET], cwd=place.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(place.seconds / 2)
    process.send_signal(signal.SIGTERM)
    process.wait()
    place.check_after_fault()
    place.check_rerun()
    place.remove()


def permissions():
    """Outputs follow the umask, keys are 0600 whatever it is."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="oubli-faults-"))
    make_inputs(folder / "in", 10, 12, 20)
    (folder / "out").mkdir()
    for umask, mode in ((0o022, 0o644), (0o077, 0o600), (0o002, 0o664)):
        assert run([*FORGET, "--force"], folder, preexec_fn=lambda: os.umask(umask)).returncode == 0
        for name in ("new.npz", "new.npz.receipt.json", "new.npz.means.npz"):
            assert (folder / "out" / name).stat().st_mode & 0o777 == mode, name
        assert (
            run(
                ["keygen", "-o", "out/key", "--force"], folder, preexec_fn=lambda: os.umask(umask)
            ).returncode
            == 0
        )
        assert (folder / "out/key").stat().st_mode & 0o777 == 0o600
        assert (folder / "out/key.pub").stat().st_mode & 0o777 == mode
    shutil.rmtree(folder)
    print("permissions: outputs follow the umask, keys are 0600")


CASES = dict(
    kill=kill_at_many_moments,
    changes=kill_at_every_change,
    disk=out_of_disk,
    readonly=read_only_folder,
    memory=out_of_memory,
    many=memory_goes_while_it_trains,
    changed=changed_while_read,
    mapped=changed_while_mapped,
    second=two_on_one_run_folder,
    interrupted=interrupted,
    permissions=permissions,
)
for name in sys.argv[2:] or CASES:
    CASES[name]()
