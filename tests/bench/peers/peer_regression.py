"""Plain regression from scipy and scikit-learn on the counts of a string metric, as one would write it at first."""

import time

import numpy as np
from scipy.optimize import nnls
from serve import serve, version
from sklearn.linear_model import LassoCV


def fit(how, y, positions, bits):
    """`y` holds each cohort's unbiased bit shares, `positions[c][i]` the bits of candidate i there.

    OLS comes with the textbook's standard errors; the others have none: what they keep above 0 is what they detect.
    """
    start = time.process_time()
    design = np.zeros((len(positions), bits, len(positions[0])))
    for cohort, of_candidates in enumerate(positions):
        for candidate, own in enumerate(of_candidates):
            design[cohort, own, candidate] = 1
    design = design.reshape(-1, design.shape[-1])
    y = np.array(y).ravel()
    std_error = None
    if how == "OLS":
        inverse = np.linalg.inv(design.T @ design)
        found = inverse @ (design.T @ y)
        residual = y - design @ found
        std_error = np.sqrt(np.diag(inverse) * (residual @ residual) / (len(y) - len(found))).tolist()
    elif how == "NNLS":
        found = nnls(design, y)[0]
    else:
        found = LassoCV(cv=3, alphas=30, positive=True, fit_intercept=False, max_iter=2000).fit(design, y).coef_
    return {"estimate": found.tolist(), "std_error": std_error, "seconds": time.process_time() - start}


serve({"versions": lambda: {name: version(name) for name in ("scipy", "scikit-learn")}, "fit": fit})
