"""multi-freq-ldpy, called the way its tutorials do. Its noise comes from numpy's generator under numba: not secure."""

import numpy as np
from multi_freq_ldpy.estimators.Histogram_estimator import IBU, MI
from multi_freq_ldpy.long_freq_est.L_OSUE import L_OSUE_Client
from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Aggregator_IBU, GRR_Aggregator_MI, GRR_Client
from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Client
from multi_freq_ldpy.pure_frequency_oracles.SS import SS_Client
from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_IBU, UE_Aggregator_MI, UE_Client
from numba import njit
from serve import clients_of, serve, version

SMALL = 16  # up to this size its estimator is called itself; beyond, the same steps without the d x d matrix


def supported(mechanism, d, epsilon, value):
    """The values that one real report supports."""
    match mechanism:
        case "GRR":
            return [int(GRR_Client(value, d, epsilon))]
        case "SUE" | "OUE":
            return np.flatnonzero(UE_Client(value, d, epsilon, mechanism == "OUE")).tolist()
        case "SS":
            return [int(v) for v in SS_Client(value, d, epsilon)]
    import xxhash

    arrived, seed = LH_Client(value, d, epsilon)
    g = round(np.exp(epsilon)) + 1
    return [v for v in range(d) if xxhash.xxh32(str(v), seed=int(seed)).intdigest() % g == arrived]


def respond_many(mechanism, d, epsilon, value, count):
    counts = np.zeros(d)
    for _ in range(count):
        counts[supported(mechanism, d, epsilon, value)] += 1
    return counts.tolist()


def law(mechanism, d, epsilon):
    """P(v is supported | v), P(v is supported | another), as its aggregators have them."""
    e = float(np.exp(epsilon))
    match mechanism:
        case "GRR":
            return [e / (e + d - 1), 1 / (e + d - 1)]
        case "SUE":
            half = float(np.exp(epsilon / 2))
            return [half / (half + 1), 1 / (half + 1)]
        case "OUE":
            return [0.5, 1 / (e + 1)]
        case "OLH":
            g = round(e) + 1
            return [e / (e + g - 1), 1 / g]
    w = int(max(1, np.rint(d / (e + 1))))
    total = w * e + d - w
    return [w * e / total, ((w - 1) * w * e + (d - w) * w) / ((d - 1) * total)]


@njit
def ibu_without_matrix(p, q, observed, steps, tolerance):
    """Its `IBU` for a matrix that is p on the diagonal and q elsewhere, step by step."""
    found = np.ones(len(observed)) / len(observed)
    for _ in range(steps):
        ratio = observed / ((p - q) * found + q * found.sum())
        better = found * ((p - q) * ratio + q * ratio.sum())
        done = np.abs(found - better).max() < tolerance
        found = better
        if done:
            break
    return found


def estimate(mechanism, d, epsilon, counts, num_reports):
    """`MI`: clipped at 0 and scaled to 1, which is all it offers by inversion; `IBU`: expectation, maximisation."""
    p, q = law(mechanism, d, epsilon)
    counts = np.array(counts, dtype=float)
    observed = counts / counts.sum()
    if d <= SMALL:
        matrix = np.full((d, d), q)
        np.fill_diagonal(matrix, p)
        ibu = IBU(d, matrix, observed, 10_000, 1e-12, "max_abs")
    else:
        ibu = ibu_without_matrix(p, q, observed, 10_000, 1e-12)
    return {"MI": MI(counts, num_reports, p, q).tolist(), "IBU": ibu.tolist()}


def check_estimator(d, epsilon, count):
    """The largest difference between its aggregators on real reports and `estimate` of their counts."""
    worst = 0.0
    values = [i % d for i in range(count)]
    categories = [int(GRR_Client(v, d, epsilon)) for v in values]
    ours = estimate("GRR", d, epsilon, np.bincount(categories, minlength=d), count)
    worst = max(worst, float(np.abs(GRR_Aggregator_MI(categories, d, epsilon) - ours["MI"]).max()))
    worst = max(worst, float(np.abs(GRR_Aggregator_IBU(categories, d, epsilon) - ours["IBU"]).max()))
    vectors = [UE_Client(v, d, epsilon, True) for v in values]
    ours = estimate("OUE", d, epsilon, sum(vectors), count)
    worst = max(worst, float(np.abs(UE_Aggregator_MI(vectors, epsilon, True) - ours["MI"]).max()))
    return max(worst, float(np.abs(UE_Aggregator_IBU(vectors, d, epsilon, True) - ours["IBU"]).max()))


def averaging(d, eps_perm, eps_1, reports, users):
    """Of how many users the sum reveals the value, when their "longitudinal" client reports one again and again."""
    revealed = 0
    for user in range(users):
        value = user % d
        total = sum(L_OSUE_Client(value, d, eps_perm, eps_1) for _ in range(reports))
        revealed += int(np.argmax(total)) == value
    return revealed / users


def repeats_with_seed():
    """Whether the same seed gives the same reports again."""

    @njit
    def seed():
        np.random.seed(1)

    seen = []
    for _ in range(2):
        seed()
        seen.append([UE_Client(2, 100, 1.0, True).tolist() for _ in range(20)])
    return seen[0] == seen[1]


serve(
    {
        "versions": lambda: {name: version(name) for name in ("multi-freq-ldpy", "numpy", "numba")},
        **clients_of(
            {
                "flag": lambda: lambda: GRR_Client(1, 2, 1.0),
                "choice, d = 4": lambda: lambda: GRR_Client(2, 4, 1.0),
                "choice, d = 100": lambda: lambda: UE_Client(2, 100, 1.0, True),
                "choice, d = 1000": lambda: lambda: UE_Client(2, 1000, 1.0, True),
                "string, 128 bits": lambda: lambda: L_OSUE_Client(2, 128, 3.0, 1.0),
            }
        ),
        "mechanisms": lambda: ["GRR", "SUE", "OUE", "OLH", "SS"],
        "law": law,
        "respond_many": respond_many,
        "estimate": estimate,
        "check_estimator": check_estimator,
        "averaging": averaging,
        "repeats_with_seed": repeats_with_seed,
    }
)
