"""opendp, called the way its documentation does. All its noise comes from a secure generator (OpenSSL's)."""

import math

import opendp.prelude as dp
from serve import clients_of, serve, version

dp.enable_features("contrib")
E = math.e


def flag():
    respond = dp.m.make_randomized_response_bool(E / (E + 1))
    return lambda: respond(True)


def choice(d):
    respond = dp.m.make_randomized_response([f"c{i}" for i in range(d)], E / (E + d - 1))
    return lambda: respond("c2")


def bits(width, epsilon):
    """The per-bit f of its bit vectors: epsilon = 2 ln((2 - f) / f) for one bit lost and one gained."""
    f = 2 / (1 + math.exp(epsilon / 2))
    space = dp.bitvector_domain(max_weight=1), dp.discrete_distance()
    return dp.m.make_randomized_response_bitvec(*space, f=f), f, (width + 7) // 8


def vector(width):
    respond, _, size = bits(width, 1.0)
    sent = bytes([8]) + bytes(size - 1)
    return lambda: respond(sent)


def laplace(epsilon):
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    return dp.m.make_laplace(*space, scale=1 / epsilon)


def mean():
    add = laplace(1.0)
    return lambda: add(0.4)


def laplace_noise(epsilon, count):
    add = laplace(epsilon)
    return [add(0.0) for _ in range(count)]


def respond_many(mechanism, d, epsilon, value, count):
    """How often each value was supported by so many real reports on one value."""
    counts = [0] * d
    if mechanism == "RR":
        categories = list(range(d))
        respond = dp.m.make_randomized_response(categories, math.exp(epsilon) / (math.exp(epsilon) + d - 1))
        for _ in range(count):
            counts[respond(value)] += 1
        return counts
    respond, _, size = bits(d, epsilon)
    sent = (1 << value).to_bytes(size, "little")
    for _ in range(count):
        arrived = int.from_bytes(respond(sent), "little")
        for v in range(d):
            counts[v] += arrived >> v & 1
    return counts


def law(mechanism, d, epsilon):
    """P(v is supported | v), P(v is supported | another)."""
    if mechanism == "RR":
        e = math.exp(epsilon)
        return [e / (e + d - 1), 1 / (e + d - 1)]
    f = bits(d, epsilon)[1]
    return [1 - f / 2, f / 2]


def estimate(mechanism, d, epsilon, counts, num_reports):
    """opendp debiases bit vectors (Y - n f/2) / (1 - f); for categories it leaves that to the user."""
    p, q = law(mechanism, d, epsilon)
    return {"raw": [(count / num_reports - q) / (p - q) for count in counts]}


def check_estimator(d, epsilon, count):
    """The largest difference between its debiasing of real reports and `estimate` of their counts."""
    respond, f, size = bits(d, epsilon)
    answers = [respond((1 << i % d).to_bytes(size, "little")) for i in range(count)]
    theirs = dp.m.debias_randomized_response_bitvec(answers, f)
    counts = [sum(int.from_bytes(answer, "little") >> v & 1 for answer in answers) for v in range(d)]
    ours = estimate("bit vector", d, epsilon, counts, count)["raw"]
    return max(abs(a / count - b) for a, b in zip(theirs, ours, strict=False))


serve(
    {
        "versions": lambda: {"opendp": version("opendp")},
        **clients_of(
            {
                "flag": flag,
                "choice, d = 4": lambda: choice(4),
                "choice, d = 100": lambda: vector(100),
                "choice, d = 1000": lambda: vector(1000),
                "string, 128 bits": lambda: vector(128),
                "mean": mean,
            }
        ),
        "mechanisms": lambda: ["RR", "bit vector"],
        "law": law,
        "respond_many": respond_many,
        "estimate": estimate,
        "check_estimator": check_estimator,
        "laplace_noise": laplace_noise,
    }
)
