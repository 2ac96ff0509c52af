"""Every figure of the notebooks, drawn from live objects; one module per notebook, and ``base`` for what they share."""
