"""Text of the library's own writing, made by rules: everything runs offline, in seconds."""
