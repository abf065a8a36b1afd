"""What people look at: plots, HTML for notebooks, the report."""
