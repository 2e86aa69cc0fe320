"""The service on one machine or for many: store, loop that drives the core, agents' desk, HTTP API."""
