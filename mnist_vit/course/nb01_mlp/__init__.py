"""The room of notebook 01, the MLP: its figures, and one file per exercise."""
