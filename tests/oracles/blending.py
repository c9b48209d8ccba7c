"""Blends, one step at a time. Python floats are IEEE doubles and never fused."""


def weighted(weights, size):
    """Dataset and sample of each step: the greatest lag wins, the lowest index breaks ties."""
    counts = [0] * len(weights)
    ids = []
    samples = []
    for step in range(size):
        lags = [w * float(max(step, 1)) - float(n) for w, n in zip(weights, counts, strict=True)]
        chosen = lags.index(max(lags))
        ids.append(chosen)
        samples.append(counts[chosen])
        counts[chosen] += 1
    return ids, samples


def exhaustive(sizes):
    """The same rule with size / total as weights, among the datasets not yet used up."""
    total = sum(sizes)
    counts = [0] * len(sizes)
    ids = []
    samples = []
    for step in range(total):
        lags = {
            dataset: size / total * float(max(step, 1)) - float(counts[dataset])
            for dataset, size in enumerate(sizes)
            if counts[dataset] < size
        }
        chosen = max(lags, key=lambda dataset: (lags[dataset], -dataset))
        ids.append(chosen)
        samples.append(counts[chosen])
        counts[chosen] += 1
    return ids, samples
