"""The room of notebook 07, training: its figures, and one file per exercise."""
