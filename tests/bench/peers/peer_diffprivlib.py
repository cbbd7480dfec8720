"""diffprivlib, called the way its documentation does. Without a seed its noise comes from `secrets.SystemRandom`."""

from diffprivlib.mechanisms import Binary, Laplace
from serve import clients_of, serve, version


def flag():
    mechanism = Binary(epsilon=1.0, value0="no", value1="yes")
    return lambda: mechanism.randomise("yes")


def mean():
    mechanism = Laplace(epsilon=1.0, sensitivity=1.0)
    return lambda: mechanism.randomise(0.4)


def laplace_noise(epsilon, count):
    mechanism = Laplace(epsilon=epsilon, sensitivity=1.0)
    return [mechanism.randomise(0.0) for _ in range(count)]


serve(
    {
        "versions": lambda: {"diffprivlib": version("diffprivlib")},
        **clients_of({"flag": flag, "mean": mean}),
        "laplace_noise": laplace_noise,
    }
)
