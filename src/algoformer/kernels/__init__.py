"""A transformer body's arithmetic by hand: each operation in plain PyTorch and as a Triton kernel."""
