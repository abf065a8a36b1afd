"""A threshold for each group, of rows or of classes."""
