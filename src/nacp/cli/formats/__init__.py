"""The files that commands read: one module for each kind, and what all of them need."""
