"""What the heads of attention look at ("What Does BERT Look At?", Clark et al. 2019)."""

import numpy as np

# The values of a head, in their order.
HEAD_COLUMNS = ("[SEP]", "previous", "next", "self", "entropy")


def looks_at(shares: np.ndarray, tokens: list[str]) -> np.ndarray:
    """Returns HEAD_COLUMNS of each head, float [L, N, 5], from its shares [L, N, T, T].

    The first token has no previous token, and the last has no next one, so they do not count there.
    """
    values = shares.astype(np.float64)
    is_sep = np.array([token == "[SEP]" for token in tokens])
    previous, following, own = (np.diagonal(values, offset, axis1=2, axis2=3).mean(-1) for offset in (-1, 1, 0))
    sep_shares = values[..., is_sep].sum(-1).mean(-1)
    logs = np.log2(values, out=np.zeros_like(values), where=values > 0)
    entropy = -(values * logs).sum(-1).mean(-1)
    return np.stack([sep_shares, previous, following, own, entropy], axis=-1)
