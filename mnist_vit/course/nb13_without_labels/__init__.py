"""The room of notebook 13, training without labels: the autoencoder, its figures, exercises."""
