"""The room of notebook 03, multi-head attention: its figures, and one file per exercise."""
