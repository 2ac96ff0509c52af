"""The room of notebook 09, attention maps: its figures, and one file per exercise."""
