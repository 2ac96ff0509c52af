"""Exercise: patches whose tokens are far longer than those of the others."""


def my_outliers(tokens, num_patches):
    # (n, seq_length, hidden_dim) -> (n,) ratios, (n,) numbers of patches
    norms = tokens[:, -num_patches:].norm(dim=-1)
    largest, where = norms.max(dim=1)
    return largest / norms.median(dim=1).values, where
