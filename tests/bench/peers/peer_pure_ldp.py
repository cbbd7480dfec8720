"""pure-ldp, called the way its README does. Its noise comes from `random` and `numpy.random`: not secure."""

import random
import time
import warnings

import numpy as np
from pure_ldp.frequency_oracles import (
    DEClient,
    DEServer,
    HEClient,
    HEServer,
    LHClient,
    LHServer,
    RAPPORClient,
    RAPPORServer,
    UEClient,
    UEServer,
)
from serve import clients_of, serve, version

warnings.simplefilter("ignore")

CLIENTS = {
    "DE": lambda epsilon, d: DEClient(epsilon, d),
    "SUE": lambda epsilon, d: UEClient(epsilon, d),
    "OUE": lambda epsilon, d: UEClient(epsilon, d, use_oue=True),
    "OLH": lambda epsilon, d: LHClient(epsilon, d, use_olh=True),
    "THE": lambda epsilon, d: HEClient(epsilon, d),
    "SHE": lambda epsilon, d: HEClient(epsilon, d),
}
SERVERS = {
    "DE": lambda epsilon, d: DEServer(epsilon, d),
    "SUE": lambda epsilon, d: UEServer(epsilon, d),
    "OUE": lambda epsilon, d: UEServer(epsilon, d, use_oue=True),
    "OLH": lambda epsilon, d: LHServer(epsilon, d, use_olh=True),
    "THE": lambda epsilon, d: HEServer(epsilon, d, use_the=True),
    "SHE": lambda epsilon, d: HEServer(epsilon, d),
}


def reporting(mechanism, d):
    client = CLIENTS[mechanism](1.0, d)
    return lambda: client.privatise(2)  # its values count from 1


def rappor(f=0.5, cohorts=64, hashes=1):
    server = RAPPORServer(f, 128, hashes, 1000, num_of_cohorts=cohorts)
    return RAPPORClient(f, 128, server.get_hash_funcs(), num_of_cohorts=cohorts)


def rappor_reporting():
    client = rappor()
    return lambda: client.privatise(3)


def respond_many(mechanism, d, epsilon, value, count):
    """How often each value was supported by so many real reports on one value, as its server counts them."""
    client, server = CLIENTS[mechanism](epsilon, d), SERVERS[mechanism](epsilon, d)
    for _ in range(count):
        server.aggregate(client.privatise(value + 1))
    return [float(count) for count in server.aggregated_data]


def law(mechanism, d, epsilon):
    """P(v is supported | v), P(v is supported | another); SHE adds noise instead."""
    if mechanism == "SHE":
        return [0.0, 0.0]
    server = SERVERS[mechanism](epsilon, d)
    return [server.p, 1 / server.g if mechanism == "OLH" else server.q]


def estimate(mechanism, d, epsilon, counts, num_reports):
    """Its server's estimates, given the counts that its `aggregate` would have made."""
    server = SERVERS[mechanism](epsilon, d)
    server.aggregated_data, server.n = np.array(counts, dtype=float), num_reports
    values = range(1, d + 1)
    raw = server.estimate_all(values, suppress_warnings=True)
    simplex = server.estimate_all(values, suppress_warnings=True, normalization=2)
    return {"raw": (raw / num_reports).tolist(), "simplex": (simplex / num_reports).tolist()}


def bit_law(f, count):
    """What its RAPPOR client really does to a bit: P(1 arrives | 1), P(1 arrives | 0), and the epsilon it states."""
    client = rappor(f)
    ones = zeros = ones_kept = zeros_set = 0
    for _ in range(count):
        arrived, cohort = client.privatise(3)
        sent = {func("2") for func in client.hash_family[cohort]}
        ones += len(sent)
        zeros += len(arrived) - len(sent)
        ones_kept += sum(arrived[i] for i in sent)
        zeros_set += sum(arrived) - sum(arrived[i] for i in sent)
    return {"p11": ones_kept / ones, "p10": zeros_set / zeros, "ones": ones, "stated": client.convert_f_to_eps(f, 1)}


def repeats_with_seed():
    """Whether the same seed of the global generators gives the same reports again."""
    client = UEClient(1.0, 100, use_oue=True)
    seen = []
    for _ in range(2):
        random.seed(1)
        np.random.seed(1)
        seen.append([client.privatise(3).tolist() for _ in range(20)])
    return seen[0] == seen[1]


def strings(f, hashes, cohorts, shares, num_reports, seed, ridge):
    """Its decoder on counts of its own (repaired) law: a 1 arrives as 1 with 1 - f/2, a 0 with f/2.

    The shipped client never turns a 1 into a 0, so its own decoder would be biased on its own reports.
    """
    random.seed(seed)
    rng = np.random.default_rng(seed)
    d = len(shares)
    server = RAPPORServer(f, 128, hashes, d, num_of_cohorts=cohorts, reg_const=None if ridge else 0)
    held = rng.multinomial(np.round(np.array(shares) * num_reports).astype(int), np.full(cohorts, 1 / cohorts))
    for cohort, functions in enumerate(server.get_hash_funcs()):
        ones = np.zeros(128)
        for value in range(d):
            ones[list({function(str(value)) for function in functions})] += held[value, cohort]
        total = int(held[:, cohort].sum())
        ones = ones.astype(int)
        server.bloom_filters[cohort] = rng.binomial(ones, 1 - f / 2) + rng.binomial(total - ones, f / 2).astype(float)
        server.cohort_count[cohort] = total
        server.n += total
    start = time.process_time()
    found = server.estimate_all(range(1, d + 1), suppress_warnings=True)
    return {"estimate": (np.array(found) / server.n).tolist(), "seconds": time.process_time() - start}


serve(
    {
        "versions": lambda: {name: version(name) for name in ("pure-ldp", "numpy", "scikit-learn", "statsmodels")},
        **clients_of(
            {
                "flag": lambda: reporting("DE", 2),
                "choice, d = 4": lambda: reporting("DE", 4),
                "choice, d = 100": lambda: reporting("OUE", 100),
                "choice, d = 1000": lambda: reporting("OUE", 1000),
                "string, 128 bits": rappor_reporting,
            }
        ),
        "mechanisms": lambda: list(CLIENTS),
        "law": law,
        "respond_many": respond_many,
        "estimate": estimate,
        "bit_law": bit_law,
        "repeats_with_seed": repeats_with_seed,
        "strings": strings,
    }
)
