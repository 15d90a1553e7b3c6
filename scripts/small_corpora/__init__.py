"""A generator of two small sets of text, from a German and English grammar and from templates."""
