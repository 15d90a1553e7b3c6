"""Programs for the maintenance of the repository."""
