"""The room of notebook 14, parts since 2020: its figures, variants, and one file per exercise."""
