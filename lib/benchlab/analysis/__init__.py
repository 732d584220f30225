"""What the analysis notebooks and the paper show: frames out of the store, charts out of frames."""
