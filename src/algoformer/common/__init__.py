"""What all parts of the library share: checking names, choosing devices."""
