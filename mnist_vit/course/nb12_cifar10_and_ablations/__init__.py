"""The room of notebook 12, colour images and ablations: its figures, and one file per exercise."""
