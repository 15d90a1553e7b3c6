"""The documentation site: pages of the repository, API reference, model cards, explorers and notebooks."""
