"""The room of notebook 04, the encoder block: its figures, and one file per exercise."""
