"""What operators do to the documents of a lane, one document after the other."""


class Document:
    """A document at a draw; ``source`` is where it came from."""

    def __init__(self, tokens, draw, source):
        self.tokens, self.draw, self.source = list(tokens), draw, source


def drop_every(documents, number):
    return [d for d in documents if not (d.tokens and d.tokens[0] % number == 0)]


def cut(documents, most):
    found = []
    for d in documents:
        if len(d.tokens) <= most:
            found.append(d)
            continue
        rest = d.tokens
        while rest:
            found.append(Document(rest[:most], d.draw, d.source))
            rest = rest[most:]
    return found


def in_windows(documents, size, length, operate):
    """Windows of ``size`` draws of a lane of ``length`` draws, each for itself."""
    found = []
    for begin in range(0, length, size):
        end = min(begin + size, length)
        inside = [d for d in documents if begin <= d.draw < end]
        found += operate(inside, end - 1)
    return found


def backwards(documents, size, length):
    def operate(inside, last):
        return [Document(d.tokens, last, d.source) for d in reversed(inside)]

    return in_windows(documents, size, length, operate)


def hold_one(documents, size, length):
    def operate(inside, last):
        found, held = [], None
        for d in inside:
            if held is not None:
                found.append(Document(held.tokens, d.draw, held.source))
            held = d
        if held is not None:
            found.append(Document(held.tokens, last, held.source))
        return found

    return in_windows(documents, size, length, operate)


def ensure_mixture(documents, size, length, shares, most, ratio):
    """``shares`` by source, none of them 0; every document counts 1."""

    def operate(inside, last):
        found, waiting, given = [], [], dict.fromkeys(shares, 0)

        def behind(sources):
            return min(sources, key=lambda s: (given[s] / shares[s], s))

        def let_out(source, draw):
            first = next(d for d in waiting if d.source == source)
            waiting.remove(first)
            given[source] += 1
            found.append(Document(first.tokens, draw, source))

        for d in inside:
            waiting.append(d)
            while most != 0 and any(w.source == behind(shares) for w in waiting):
                let_out(behind(shares), d.draw)
            if most is not None and len(waiting) > most:
                while len(waiting) > int(most * ratio):
                    let_out(behind(sorted({w.source for w in waiting})), d.draw)
        while waiting:
            let_out(behind(sorted({w.source for w in waiting})), last)
        return found

    return in_windows(documents, size, length, operate)


def run(documents, length, steps, shares):
    """``steps`` are names of the functions here with their arguments."""
    for name, *arguments in steps:
        if name == "drop_every":
            documents = drop_every(documents, *arguments)
        elif name == "cut":
            documents = cut(documents, *arguments)
        elif name == "backwards":
            documents = backwards(documents, *arguments, length)
        elif name == "hold_one":
            documents = hold_one(documents, *arguments, length)
        elif name == "ensure_mixture":
            size, most = arguments
            documents = ensure_mixture(documents, size, length, shares, most, 0.8)
        else:
            raise ValueError(name)
    return documents
