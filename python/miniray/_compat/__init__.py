"""Names of Ray that Miniray does not have."""
