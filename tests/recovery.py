"""recovery.py OUBLI [SECURITY.md]: what of a forgotten class can be computed from what is written.

The attacker has the new model, the means file and the receipt beside it, and knows the method. Each
estimate of the forgotten row w_c and mean m_c that we know of is tried, for every method, for fewer
and for more classes than features, for rows that sum to zero and for rows that do not; the best one
counts. Recovery is 1 - |estimate - truth|^2 / |best guess without the files - truth|^2: 1 is all of
it, 0 nothing. With SECURITY.md, its table must be the one that is measured here, to DRIFT.
"""
import json, pathlib, subprocess, sys, tempfile
import numpy as np

OUBLI = pathlib.Path(sys.argv[1]).resolve()
METHODS = ("naive", "normalization", "explained", "centre", "randomization", "zeroing", "custom")
SHAPES = (("k = 10, p = 32", 10, 32), ("k = 60, p = 16", 60, 16))
FORGOTTEN = 3
DRIFT = 0.05


def make(folder, k, p, sum_zero):
    rng = np.random.default_rng(k)
    means = rng.normal(size=(k, p)) * 2
    W = means + rng.normal(size=(k, p))
    if sum_zero:
        W -= W.mean(axis=0)
    y = np.repeat(np.arange(k), 40)
    np.savez(folder / "head.npz", W=W.astype("f4"), b=np.zeros(k, "f4"))
    np.save(folder / "f.npy", means[y] + 0.3 * rng.normal(size=(len(y), p)))
    np.save(folder / "y.npy", y)
    np.save(folder / "z.npy", rng.normal(size=(1, k - 1)))
    return W.astype("f4").astype(float), np.array(
        [np.load(folder / "f.npy")[y == j].mean(axis=0) for j in range(k)]
    )


def recovery(estimates, truth, guesses):
    least = min(((guess - truth) ** 2).sum() for guess in guesses)
    return max(0.0, max(1 - ((estimate - truth) ** 2).sum() / least for estimate in estimates))


def rows_from_sums(W_new, means):
    """Minus the sum of the others; the same in the directions that the solvers leave alone."""
    total = -W_new.sum(axis=0)
    q, _ = np.linalg.qr((means - means.mean(axis=0))[:-1].T)
    return [total, q @ (q.T @ total)]


def means_from_equations(W_new, b_new, means, targets):
    """W m + b = z where z is known: all of it, its differences, or its mean (normalization)."""
    solve = lambda A, r: np.linalg.lstsq(A, r, rcond=1e-6)[0]
    ends = (W_new @ means.T).mean() + b_new.mean()
    found = [solve(W_new.mean(axis=0, keepdims=True), np.array([ends - b_new.mean()]))]
    rest = means.mean(axis=0)
    for z in targets:
        found.append(rest + solve(W_new, z - b_new - W_new @ rest))  # the likeliest solution
        found += [
            solve(W_new, z - b_new),
            solve(W_new - W_new.mean(axis=0), (z - b_new) - (z - b_new).mean()),
        ]
    return found


def attack(folder, method, W, M):
    extra = ["--target", "z.npy"] if method == "custom" else []
    extra += ["--seed", str(0x9E3779B97F4A7C15)] if method == "randomization" else []
    done = subprocess.run(
        [
            OUBLI,
            "forget",
            "head.npz",
            "--class",
            str(FORGOTTEN),
            "--features",
            "f.npy",
            "--labels",
            "y.npy",
            "--method",
            method,
            *extra,
            "--force",
            "-o",
            "new.npz",
        ],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    new, receipt = np.load(folder / "new.npz"), json.loads(
        (folder / "new.npz.receipt.json").read_text()
    )
    means = np.load(folder / "new.npz.means.npz")["means"]
    W_new, b_new = new["W"].astype(float), new["b"].astype(float)
    targets = [np.zeros(len(W_new)), W_new @ means.mean(axis=0) + b_new]
    if method == "custom":  # whoever gave it knows it
        targets.append(np.load(folder / "z.npy")[0])
    assert (
        "seed" not in receipt["request"] or method != "randomization"
    ), "the receipt tells the seed"
    told = any(
        "can compute that mean" in w or "compute that mean" in w for w in receipt["warnings"]
    )
    rest = np.delete(M, FORGOTTEN, axis=0).mean(axis=0)
    row = recovery(
        rows_from_sums(W_new, means), W[FORGOTTEN], [np.zeros_like(rest), W_new.mean(axis=0)]
    )
    mean = recovery(
        means_from_equations(W_new, b_new, means, targets),
        M[FORGOTTEN],
        [np.zeros_like(rest), rest],
    )
    return row, mean, receipt["rows_centred"], told


def main():
    table = ["| shape | rows sum to zero | method | w_c | m_c |", "|---|---|---|---|---|"]
    for name, k, p in SHAPES:
        for sum_zero in (False, True):
            folder = pathlib.Path(tempfile.mkdtemp(prefix="oubli-recovery-"))
            W, M = make(folder, k, p, sum_zero)
            zero = "yes" if sum_zero else "no"
            # The attack works where nothing is done against it.
            cut, rest = np.delete(W, FORGOTTEN, axis=0), np.delete(M, FORGOTTEN, axis=0)
            control = recovery(rows_from_sums(cut, rest), W[FORGOTTEN], [np.zeros(p)])
            assert (control > 0.99) == sum_zero, control
            for method in METHODS:
                row, mean, centred, told = attack(folder, method, W, M)
                table.append(f"| {name} | {zero} | {method} | {row:.2f} | {mean:.2f} |")
                assert centred == sum_zero, (name, method)
                assert row < 0.05, table[-1]
                known = method in ("zeroing", "custom", "randomization")
                if known and k > p:
                    assert mean > 0.9 and told, table[-1]
                elif known:
                    assert mean < 0.6, table[-1]
                else:
                    assert mean < 0.25, table[-1]
    print("\n".join(table))
    for path in sys.argv[2:]:
        compare(table, pathlib.Path(path))


def compare(table, path):
    """The document says what was measured, to DRIFT: rounding differs between processors."""
    said = dict(split_row(line) for line in path.read_text().splitlines() if line[:5] == "| k =")
    for line in table[2:]:
        case, figures = split_row(line)
        assert case in said, f"{path} does not say:\n{line}"
        far = max(abs(a - b) for a, b in zip(figures, said[case], strict=True))
        assert far <= DRIFT, f"{path} says {said[case]} of:\n{line}"


def split_row(line):
    cells = line.strip("| ").split(" | ")
    return tuple(cells[:3]), [float(cell) for cell in cells[3:]]


main()
