"""Report: tables and charts for the notebooks and the paper, made from the store."""
