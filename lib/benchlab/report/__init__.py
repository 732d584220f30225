"""Report: tables and charts for the notebooks and the paper, out of the store."""
