"""The room of notebook 08, evaluation: its figures, and one file per exercise."""
