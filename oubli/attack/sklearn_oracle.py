"""What scikit-learn answers on made-up data, for sklearn_test.cpp, as .npy files in the current
folder."""
import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
import numpy as np
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import KNeighborsClassifier


def gaussians(rng, rows, features, separation):
    y = rng.integers(0, 2, rows).astype(np.uint8)
    scale = rng.uniform(0.5, 2, features)
    return (
        (rng.normal(size=(rows, features)) + separation / np.sqrt(features) * y[:, None]) * scale
    ).astype(np.float32), y


def coarse(rng, rows, features):
    x = rng.integers(0, 6, (rows, features)).astype(np.float32)
    return x, (x[:, 0] + x[:, 1] + 2 * rng.normal(size=rows) > 5).astype(np.uint8)


def save(name, array):
    np.save(name + ".npy", np.ascontiguousarray(array))


def write(name, make, rng):
    x, y = make(rng, 2000)
    x_test, y_test = make(rng, 1500)
    for part, array in (("x", x), ("y", y), ("x_test", x_test), ("y_test", y_test)):
        save(f"{name}.{part}", array)
    save(f"{name}.knn", KNeighborsClassifier(5).fit(x, y).predict(x_test))
    # Where the fifth and sixth neighbours are equally far, the choice is the tree's.
    nearest = np.sort(
        pairwise_distances(x_test.astype(np.float64), x.astype(np.float64), "sqeuclidean"), axis=1
    )
    save(f"{name}.knn_certain", (nearest[:, 5] - nearest[:, 4] > 1e-9).astype(np.uint8))
    for algorithm in ("SAMME.R", "SAMME"):
        model = AdaBoostClassifier(n_estimators=50, algorithm=algorithm, random_state=0).fit(x, y)
        save(f"{name}.{algorithm}", model.predict(x_test))
    model = LogisticRegression(solver="newton-cg", tol=1e-10, max_iter=10000).fit(
        x.astype(np.float64), y
    )
    save(f"{name}.logistic", model.decision_function(x_test.astype(np.float64)))


write("narrow", lambda rng, rows: gaussians(rng, rows, 2, 1.5), np.random.default_rng(1))
write("logits", lambda rng, rows: gaussians(rng, rows, 9, 1.5), np.random.default_rng(2))
write("wide", lambda rng, rows: gaussians(rng, rows, 36, 1.5), np.random.default_rng(3))
write("coarse", lambda rng, rows: coarse(rng, rows, 4), np.random.default_rng(4))

# Forests: accuracies over 20 seeds, both kinds, on two data sets.
for name in ("logits", "coarse"):
    x, y, x_test, y_test = (
        np.load(f"{name}.{part}.npy") for part in ("x", "y", "x_test", "y_test")
    )
    for kind, options in (
        ("forest", {"n_estimators": 10, "max_depth": 5}),
        ("strong-forest", {"n_estimators": 100}),
    ):
        save(
            f"{name}.{kind}",
            np.array(
                [
                    np.mean(
                        RandomForestClassifier(random_state=seed, **options)
                        .fit(x, y)
                        .predict(x_test)
                        == y_test
                    )
                    for seed in range(20)
                ]
            ),
        )
