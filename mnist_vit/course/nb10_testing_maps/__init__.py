"""The room of notebook 10, testing maps: its figures, and one file per exercise."""
