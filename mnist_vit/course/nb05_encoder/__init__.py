"""The room of notebook 05, the encoder: its figures, and one file per exercise."""
