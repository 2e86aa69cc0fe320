"""One rank of a training job: model, data, pipeline, optimizer, checkpoints.

The plan decides where things run, never what is computed: whatever the plan, the loss curve is that of one process.
"""
