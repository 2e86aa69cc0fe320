"""Plans as the configuration files of other frameworks: Megatron-LM, torchtitan, FlagScale.

Each exporter is a function from a plan and a model's shape to a text; what it can't say exactly, it refuses with the
reason. docs/exports.md says which versions were read.
"""
