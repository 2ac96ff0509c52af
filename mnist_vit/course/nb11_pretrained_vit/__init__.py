"""The room of notebook 11, a pretrained ViT: its figures, and one file per exercise."""
