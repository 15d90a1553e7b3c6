"""Studies beyond the paper: nested loops, and puzzles that need iteration."""
