"""Options that make a run as small as it can be."""

TINY = [
    "--width", "8", "--model.pre.heads", "2", "--model.loop.heads", "2", "--model.post.heads", "2",
    "--model.loop.steps", "4", "--data.dim", "2", "--data.points", "4", "--window", "2",
    "--iterations.start", "2", "--batch-size", "4", "--log-every", "2", "--checkpoint-every", "2",
]  # fmt: skip
