"""Options that make a run as small as it can be."""

TINY = [
    "--model.width", "8", "--model.pre.heads", "2", "--model.loop.heads", "2", "--model.post.heads", "2",
    "--model.loop.steps", "4", "--data.dim", "2", "--data.points", "4", "--training.window", "2",
    "--training.loops.start", "2", "--training.batch", "4", "--training.log-every", "2",
    "--training.checkpoint-every", "2",
]  # fmt: skip
