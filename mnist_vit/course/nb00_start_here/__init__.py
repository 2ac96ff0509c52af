"""The room of notebook 00, start here: its figures, and one file per exercise."""
