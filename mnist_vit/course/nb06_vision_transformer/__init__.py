"""The room of notebook 06, the Vision Transformer: its figures, and one file per exercise."""
