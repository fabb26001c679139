"""The typed model between the spec and everything that reads it. Nothing here knows YAML, Jinja or the DSL."""
