"""The room of notebook 02, attention: its figures, and one file per exercise."""
