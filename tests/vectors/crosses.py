"""Crosses: sections 2 to 4 of docs/wire-format.md. Two categories, and the cell in which they stand together."""


def num_categories(factor):
    kind, shape, sums = factor["kind"], factor["shape"], factor.get("accumulate") == "sum"
    if kind == "flag":
        return 2
    if kind == "mean":
        return shape.get("points", 2)
    if kind == "choice":
        return len(shape["choices"]) + (shape["absent"] is None)
    return len(shape["edges"]) - sums  # the buckets, and one for absent unless nothing added is 0


def num_cells(shape):
    first, second = shape["factors"]
    return num_categories(first) * num_categories(second)


def category(factor, value, dither, mask):
    """`mask` is that of a metric by itself."""
    kind, shape = factor["kind"], factor["shape"]
    if value is None and factor.get("accumulate") == "sum":
        value = {"number": "0"}
    if kind == "histogram":
        buckets = len(shape["edges"]) - 1
        if value is None:
            return buckets
        shape = {**shape, "buckets_per_report": buckets}
    found = mask({"kind": kind, "shape": shape}, value, 0, dither)[0]
    one_bit = kind == "flag" or (kind == "mean" and "points" not in shape)
    return found if one_bit else found.bit_length() - 1


def cell(shape, value, dither, mask):
    """Of {"factors": [value, value]}; None is absent, as are both where the whole is None."""
    first, second = shape["factors"]
    one, other = (None, None) if value is None else value["factors"]
    return category(first, one, dither, mask) * num_categories(second) + category(second, other, dither, mask)
