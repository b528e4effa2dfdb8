"""The attack per image (oubli/attack/per_image.h) in NumPy, for bench/attack.py."""
import numpy as np

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
SMOOTHING = (0.5, 2.0, 8.0, 32.0)
FOLDS, TRIAL = 5, 64


def log_loss(scores, first):
    return np.logaddexp(0, -scores if first else scores).sum()


def moments(x):
    return x.mean(0), x.var(0, ddof=1), len(x)


def ratio(x, fit, own_class, pooled_class, share, own):
    """x: networks x images x columns."""
    (m0, v0, n0), (m1, v1, n1) = fit
    if own:
        s0, s1 = ((1 - share) * v + share * c for v, c in zip((v0, v1), own_class))
        s0, s1 = s0 * (1 + 1 / n0), s1 * (1 + 1 / n1)
        return ((np.log(s1 / s0) + (x - m1) ** 2 / s1 - (x - m0) ** 2 / s0) / 2).sum(-1)
    v = ((n0 - 1) * v0 + (n1 - 1) * v1) / (n0 + n1 - 2)
    v = ((1 - share) * v + share * pooled_class) * (1 + 1 / n0)
    return (((x - m1) ** 2 - (x - m0) ** 2) / (2 * v)).sum(-1)


def class_variances(fit):
    (_, v0, n0), (_, v1, n1) = fit
    own = v0.mean(0), v1.mean(0)
    return own, ((n0 - 1) * own[0] + (n1 - 1) * own[1]) / (n0 + n1 - 2)


def score_numbers(train, test):
    images = train[0].shape[1]
    second = (images + TRIAL - 1) // TRIAL // 2 * TRIAL
    blocks = np.r_[0:TRIAL, second : second + TRIAL]
    trial = [x[:, blocks] for x in train]
    losses = np.zeros((2, len(SHARES)))
    for fold in range(FOLDS):
        out = [np.arange(len(x)) % FOLDS == fold for x in trial]
        fit = [moments(x[~o]) for x, o in zip(trial, out)]
        variances = class_variances(fit)
        for own in (0, 1):
            for s, share in enumerate(SHARES):
                for side in (0, 1):
                    scores = ratio(trial[side][out[side]], fit, *variances, share, own)
                    losses[own, s] += log_loss(scores, side == 0)
    fit = [moments(x) for x in train]
    variances = class_variances(fit)
    return [
        [ratio(x, fit, *variances, SHARES[losses[own].argmin()], own) for x in test]
        for own in (0, 1)
    ]


def score_labels(train, test, columns):
    one_hot = np.eye(columns, dtype=np.float32)
    train, test = ([x.argmax(-1) for x in part] for part in (train, test))
    seen = [one_hot[x] for x in train]
    images = train[0].shape[1]

    def log_shares(counts, networks, smoothing):
        of_class = (counts.sum(0) + 1) / (networks * images + columns)
        return np.log((counts + smoothing * of_class) / (networks + smoothing))

    every = slice(None, None, max(1, images // (2 * TRIAL)))
    losses = np.zeros(len(SMOOTHING))
    for fold in range(FOLDS):
        out = [np.arange(len(x)) % FOLDS == fold for x in train]
        counts = [x[~o].sum(0) for x, o in zip(seen, out)]
        for s, smoothing in enumerate(SMOOTHING):
            table = log_shares(counts[0], (~out[0]).sum(), smoothing) - log_shares(
                counts[1], (~out[1]).sum(), smoothing
            )
            for side in (0, 1):
                given = train[side][out[side]]
                scores = np.take_along_axis(table[None], given[:, :, None], 2)[:, every, 0]
                losses[s] += log_loss(scores, side == 0)
    smoothing = SMOOTHING[losses.argmin()]
    counts = [x.sum(0) for x in seen]
    table = log_shares(counts[0], len(train[0]), smoothing) - log_shares(
        counts[1], len(train[1]), smoothing
    )
    return [np.take_along_axis(table[None], x[:, :, None], 2)[:, :, 0] for x in test]


def advantage(scores, answers, order):
    right = []
    for side, values in enumerate(scores):
        groups = values.shape[1] // answers
        sums = values[:, order[: groups * answers]].reshape(len(values), groups, answers).sum(2)
        share = np.where(sums == 0, 0.5, (sums > 0) == (side == 0))
        right.append(share.mean())
    return right[0] + right[1] - 1


def attack(seen, unseen, labels, classes, train):
    """Advantages: class, then (observer, form), then 1, 10, 100 answers."""
    rng, found = np.random.default_rng(0), []
    for label in range(classes):
        rows = np.flatnonzero(labels == label)
        logits = [np.ascontiguousarray(x[:, rows]) for x in (seen, unseen)]
        centred = [x - x.mean(-1, keepdims=True) for x in logits]
        order = rng.permutation(len(rows))
        scores = []
        for x in (logits, centred):
            scores += score_numbers([y[:train] for y in x], [y[train:] for y in x])
        scores.append(
            score_labels(
                [y[:train] for y in logits], [y[train:] for y in logits], logits[0].shape[2]
            )
        )
        found.append([[advantage(s, m, order) for m in (1, 10, 100)] for s in scores])
    return np.array(found)
