"""Document boundaries of packed rows, in plain lists and loops."""


def documents_of_row(row):
    """The documents of one row as lists of columns, in the order of their first tokens."""
    columns = {}
    for column, number in enumerate(row):
        if number > 0:
            columns.setdefault(int(number), []).append(column)
    return list(columns.values())


def seqlens(rows):
    return [len(document) for row in rows for document in documents_of_row(row)]


def unpad(rows):
    length = len(rows[0])
    indices = [r * length + c for r, row in enumerate(rows) for c in range(length) if row[c] > 0]
    ends = [0]
    for tokens in seqlens(rows):
        ends.append(ends[-1] + tokens)
    return indices, ends, max(seqlens(rows))


def metadata(rows):
    width = max(max(row) for row in rows) + 1
    indices = [[c if number > 0 else -1 for c, number in enumerate(row)] for row in rows]
    boundaries = []
    for row in rows:
        ends = [0]
        for document in documents_of_row(row):
            ends.append(ends[-1] + len(document))
        boundaries.append(ends + [-1] * (width - len(ends)))
    return indices, boundaries, max(seqlens(rows))


def block_causal(rows):
    length = len(rows[0])
    return [
        [
            [
                [row[i] > 0 and row[i] == row[j] and j <= i for j in range(length)]
                for i in range(length)
            ]
        ]
        for row in rows
    ]
