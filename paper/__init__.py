"""The paper's experiments as recipes: functions that return an `Experiment`."""
