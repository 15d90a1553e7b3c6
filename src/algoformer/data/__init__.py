"""What a model learns from: prompts of a task, parallel text, labelled text, plain text."""
